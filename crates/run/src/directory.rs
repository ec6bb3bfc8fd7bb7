//! The directory of a run: what is finished in it is not made again.

use crate::atomic::{OutputError, write_atomic};
use crate::lock::lock;
use crate::{Checked, Fingerprint, input, shown};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory belongs to another recipe or model.
    #[error("{} holds another run (fingerprint {found}, this one is {expected}); choose another directory or remove it", path.display(), found = shown(found))]
    Fingerprint {
        /// The directory.
        path: PathBuf,
        /// Of this run.
        expected: String,
        /// In the directory.
        found: String,
    },
    /// Another process works in the run directory.
    #[error(
        "{} is in use by {}; wait for it to end, or choose another directory",
        path.display(),
        process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// The process, where its number can be read.
        process: Option<u32>,
    },
    /// Writing failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file of the run directory cannot be used.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file of the run directory cannot be read or made.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
}

/// The directory of a run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    is_new: bool,
    /// Locked as long as it is open.
    _lock: File,
}

impl RunDirectory {
    /// Opens a directory for the run with this fingerprint, creating it if need be.
    ///
    /// # Errors
    /// [`RunError::Fingerprint`] if another run lives there, [`RunError::Busy`] if a process
    /// works in it.
    pub fn open(path: &Path, fingerprint: &Fingerprint) -> Result<Self, RunError> {
        std::fs::create_dir_all(path).map_err(|error| unusable(path, error))?;
        let marker = path.join("fingerprint");
        let mut there = std::fs::read_dir(path).map_err(|error| unusable(path, error))?.flatten();
        // What a run that was killed at its first step leaves is nothing of others.
        let is_ours = |name: &[u8]| name == b".lock" || name.starts_with(b".fingerprint.partial-");
        if !marker.exists() && there.any(|e| !is_ours(e.file_name().as_encoded_bytes())) {
            return Err(RunError::Unusable {
                path: path.to_owned(),
                reason: "is not empty and holds no run; give a new directory".into(),
            });
        }
        let (lock, is_new) = (lock(path)?, !marker.exists());
        match input::read_text(&marker, input::MOST_SETTINGS_BYTES) {
            Ok(found) if found.trim() == fingerprint.0 => {}
            Ok(found) => {
                let (expected, found) = (fingerprint.0.clone(), found.trim().to_owned());
                return Err(RunError::Fingerprint { path: path.to_owned(), expected, found });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_atomic(&marker, fingerprint.0.as_bytes())?;
            }
            Err(error) => return Err(unusable(&marker, error)),
        }
        Ok(Self { path: path.to_owned(), is_new, _lock: lock })
    }

    /// Whether this run began it, and goes on from no other.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier run finished and stored in `folder` under this fingerprint; computed and
    /// stored first if it is not there.
    ///
    /// # Errors
    /// [`RunError`] if the stored file cannot be used or written, and what `compute` fails with.
    pub fn finished<C: Serialize + DeserializeOwned, E: From<RunError>>(
        &self,
        folder: &str,
        fingerprint: &Fingerprint,
        compute: impl FnOnce() -> Result<C, E>,
    ) -> Result<C, E> {
        let path = self.path.join(folder).join(format!("{}.json", fingerprint.0));
        if let Some(found) = read(&path)? {
            return Ok(found);
        }
        let computed = compute()?;
        store(&path, &computed)?;
        Ok(computed)
    }
}

fn read<C: DeserializeOwned>(path: &Path) -> Result<Option<C>, RunError> {
    match input::read(path, u64::MAX) {
        Ok(bytes) => Checked::read(&bytes).map(Some).map_err(|reason| RunError::Unusable {
            path: path.to_owned(),
            reason: format!("not a finished cell ({reason}); remove the file and run again"),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error)),
    }
}

fn store(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    }
    let stored = Checked::of(value).and_then(|value| serde_json::to_vec_pretty(&value));
    let bytes = stored
        .map_err(|error| RunError::Unusable { path: path.to_owned(), reason: error.to_string() })?;
    Ok(write_atomic(path, &bytes)?)
}

fn unusable(path: &Path, source: std::io::Error) -> RunError {
    RunError::Io { path: path.to_owned(), source }
}
