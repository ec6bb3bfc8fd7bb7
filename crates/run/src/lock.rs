//! Locks, for one process at a time.
//!
//! All locks of this crate are those of the operating system on an open file, which end with the
//! process. A directory is locked by a file `.lock` in it, with the number of the process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the lock in a directory.
pub(crate) const NAME: &str = ".lock";

/// Attempts to lock a directory that other processes remove meanwhile.
const MAX_ATTEMPTS: usize = 100;

/// Attempts to lock a directory that another process holds, and the time between two of them.
const MAX_WAITS: usize = 5;
const WAIT: Duration = Duration::from_millis(10);

/// A directory that could not be locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process holds it.
    Busy {
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// The lock cannot be created or taken.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Locks an open file; false if another one holds it.
pub(crate) fn lock_file(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Creates a directory if it does not exist, and locks it while the file is open.
pub(crate) fn lock_directory(path: &Path) -> Result<File, LockError> {
    let (mut attempts, mut waits) = (0, 0);
    loop {
        attempts += 1;
        fs::create_dir_all(path)
            .map_err(|source| LockError::Io { path: path.to_owned(), source })?;
        match try_lock_directory(path) {
            // Another process finished its work and removed the directory meanwhile.
            Err(LockError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS => {}
            // Whoever lists a store holds its locks for a moment.
            Err(LockError::Busy { .. }) if waits < MAX_WAITS => {
                waits += 1;
                std::thread::sleep(WAIT);
            }
            other => return other,
        }
    }
}

/// Locks an existing directory.
pub(crate) fn try_lock_directory(path: &Path) -> Result<File, LockError> {
    let name = path.join(NAME);
    let io = |source| LockError::Io { path: name.clone(), source };
    let mut options = OpenOptions::new();
    let mut file =
        options.create(true).truncate(false).read(true).write(true).open(&name).map_err(io)?;
    if !lock_file(&file).map_err(io)? {
        return Err(LockError::Busy { process: holder(path) });
    }
    if !is_at(&file, &name) {
        return Err(io(io::ErrorKind::NotFound.into()));
    }
    let id = std::process::id().to_string();
    file.set_len(0).and_then(|()| file.write_all(id.as_bytes())).map_err(io)?;
    Ok(file)
}

/// The process that holds a directory, or held it last, if known.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path.join(NAME)).ok().and_then(|id| id.trim().parse().ok())
}

/// The holder of a lock in words.
pub(crate) fn in_words(process: Option<u32>) -> String {
    process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

/// Whether an open file still has this name: it may have been removed before it was locked.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |data: fs::Metadata| (data.dev(), data.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => id(ours) == id(theirs),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_holds_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/directory");
        let first = lock_directory(&path).unwrap();
        let LockError::Busy { process } = lock_directory(&path).unwrap_err() else {
            panic!("it is busy")
        };
        assert_eq!(process, Some(std::process::id()));
        assert_eq!(in_words(process), format!("process {}", std::process::id()));
        drop(first);
        lock_directory(&path).unwrap();
    }

    #[test]
    fn the_lock_of_a_directory_that_is_gone_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        let first = lock_directory(&path).unwrap();
        assert!(is_at(&first, &path.join(NAME)));
        fs::remove_dir_all(&path).unwrap();
        let second = lock_directory(&path).unwrap();
        assert!(!is_at(&first, &path.join(NAME)) && is_at(&second, &path.join(NAME)));
    }
}
