//! Unfinished work: checkpoints and journals of one job, for one process at a time.

use super::{Store, StoreError};
use crate::lock::{self, LockError, lock_directory};
use crate::{Fingerprint, state};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Folder of unfinished work in a store.
pub(super) const FOLDER: &str = "unfinished";
/// File with the description of the work.
pub(super) const WHAT: &str = "what";
/// Start of the name of a directory that is being removed.
pub(super) const REMOVED: &str = ".removed-";

/// Number of directories of unfinished work that this process holds.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Whether this process holds unfinished work, so that the same command could resume if it ended
/// now.
#[must_use]
pub fn is_work_held() -> bool {
    HELD.load(Ordering::SeqCst) > 0
}

/// The directory of unfinished work, locked for this process. It is kept for the next attempt when
/// dropped, unless it is empty.
#[derive(Debug)]
pub struct Unfinished {
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    is_new: bool,
    /// Locked while it is open.
    _lock: File,
}

impl Store {
    /// Opens the directory of the unfinished work with this fingerprint, or creates it. `what`
    /// describes the work to users. A store that keeps nothing has no directory.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if another process does this work.
    ///
    /// # Panics
    /// If the fingerprint was not made by [`Fingerprint::of`].
    #[track_caller]
    pub fn unfinished(
        &self,
        fingerprint: &Fingerprint,
        what: &str,
    ) -> Result<Unfinished, StoreError> {
        assert!(fingerprint.is_valid(), "{fingerprint:?} is not a fingerprint");
        let Some(root) = self.root() else { return Ok(Unfinished::none()) };
        let below = Path::new(FOLDER).join(&fingerprint.0);
        let path = root.join(&below);
        let lock = lock_directory(root, &below).map_err(|error| match error {
            LockError::Busy { process } => {
                StoreError::Busy { what: what.to_owned(), path: path.clone(), process }
            }
            LockError::Io { path, source } => StoreError::Io { action: "lock", path, source },
        })?;
        let is_new = is_empty(&path);
        // Only shown to users, so it need not survive a loss of power.
        let name = path.join(WHAT);
        let written = state::edit(&name).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(what.as_bytes())
        });
        written.map_err(StoreError::io("write", &name))?;
        HELD.fetch_add(1, Ordering::SeqCst);
        Ok(Unfinished { held: Some(Held { path, is_new, _lock: lock }) })
    }
}

impl Unfinished {
    /// Work that is not kept.
    #[must_use]
    pub fn none() -> Self {
        Self { held: None }
    }

    /// The directory, if the store keeps anything.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.held.as_ref().map(|held| held.path.as_path())
    }

    /// Path of a file in the directory, if the store keeps anything.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.path().map(|path| path.join(name))
    }

    /// Whether there is currently nothing to continue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.path().is_none_or(is_empty)
    }

    /// Whether there was nothing to continue when it was opened.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.is_new)
    }

    /// Removes the directory: the work is finished, or is to be done from the start.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn finish(mut self) -> Result<(), StoreError> {
        match self.held.take() {
            Some(held) => {
                HELD.fetch_sub(1, Ordering::SeqCst);
                remove(&held.path).map_err(StoreError::io("remove", &held.path))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(held) = &self.held else { return };
        HELD.fetch_sub(1, Ordering::SeqCst);
        if is_empty(&held.path) {
            // An empty directory in a store does no harm.
            drop(remove(&held.path));
        }
    }
}

/// Removes a directory whose lock is held. It gets another name first, so that no other process
/// locks a directory that is being removed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let away = path.with_file_name(format!("{REMOVED}{}-{n}", std::process::id()));
    fs::rename(path, &away)?;
    fs::remove_dir_all(&away)
}

/// Whether a directory of unfinished work contains no files.
fn is_empty(path: &Path) -> bool {
    let ours = [OsStr::new(lock::NAME), OsStr::new(WHAT)];
    let is_nothing = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        ours.contains(&&*entry.file_name()) || is_folder && is_empty(&entry.path())
    };
    fs::read_dir(path).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_nothing)))
}
