//! Run directories, which store finished work.

use crate::atomic::{OutputError, write_atomic};
use crate::lock::lock;
use crate::{Checked, Fingerprint, input, shown};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::path::{Path, PathBuf};

/// An unusable run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory belongs to another run, with another fingerprint.
    #[error("{} belongs to another run (fingerprint {found}, this one is {expected}); choose another directory or remove it", path.display(), found = shown(found))]
    Fingerprint {
        /// The directory.
        path: PathBuf,
        /// Fingerprint of this run.
        expected: String,
        /// Fingerprint in the directory.
        found: String,
    },
    /// Another process uses the run directory.
    #[error(
        "{} is in use by {}; wait for it to end, or choose another directory",
        path.display(),
        process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// A write failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// An unusable file of the run directory.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file of the run directory cannot be read or created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The directory of a run, locked for this process.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    is_new: bool,
    /// Locked while it is open.
    _lock: File,
}

impl RunDirectory {
    /// Opens the directory of the run with this fingerprint, or creates it.
    ///
    /// # Errors
    /// [`RunError::Fingerprint`] if it belongs to another run, [`RunError::Busy`] if another
    /// process uses it.
    pub fn open(path: &Path, fingerprint: &Fingerprint) -> Result<Self, RunError> {
        std::fs::create_dir_all(path).map_err(|error| unusable(path, error))?;
        let marker = path.join("fingerprint");
        let mut there = std::fs::read_dir(path).map_err(|error| unusable(path, error))?.flatten();
        // A run killed at its first step leaves only these files.
        let is_ours = |name: &[u8]| name == b".lock" || name.starts_with(b".fingerprint.partial-");
        if !marker.exists() && there.any(|e| !is_ours(e.file_name().as_encoded_bytes())) {
            return Err(RunError::Unusable {
                path: path.to_owned(),
                reason: "is not empty and is not a run directory; give a new one".into(),
            });
        }
        let (lock, is_new) = (lock(path)?, !marker.exists());
        match input::read_text(&marker, input::MAX_SETTINGS_BYTES) {
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

    /// Whether it was created by this process, so there is nothing to resume.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads the result stored in `folder` under this fingerprint, or computes and stores it.
    ///
    /// # Errors
    /// [`RunError`] if the stored file is unusable or cannot be written, and errors of `compute`.
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

impl RunDirectory {
    /// Removes the result stored in `folder` under this fingerprint, if there is one.
    ///
    /// # Errors
    /// [`RunError::Io`].
    pub fn forget(&self, folder: &str, fingerprint: &Fingerprint) -> Result<(), RunError> {
        let path = self.path.join(folder).join(format!("{}.json", fingerprint.0));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(unusable(&path, error))
            }
            _ => Ok(()),
        }
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
