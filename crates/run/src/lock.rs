//! Locks, for one process at a time.
//!
//! All locks of this crate are locks of the operating system on an open file, which end with the
//! process. A directory is locked by a file `.lock` in it, with the number of the process.

use crate::{regular, state};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the lock in a directory.
pub(crate) const NAME: &str = ".lock";

/// Largest length of a process number.
const MAX_DIGITS: u64 = 20;

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
        /// The error of the operating system.
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

/// Creates a directory if it does not exist and a folder of this program below it, and locks the
/// latter while the file is open.
pub(crate) fn lock_directory(root: &Path, below: &Path) -> Result<File, LockError> {
    let path = root.join(below);
    let (mut attempts, mut waits) = (0, 0);
    loop {
        attempts += 1;
        fs::create_dir_all(root)
            .and_then(|()| state::make_folder(root, below))
            .map_err(|source| LockError::Io { path: path.clone(), source })?;
        match try_lock_directory(&path) {
            // Another process finished its work and removed the directory meanwhile.
            Err(LockError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS => {}
            // Listing a store holds its locks for a moment.
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
    let mut file = state::edit(&name).map_err(io)?;
    if !lock_file(&file).map_err(io)? {
        return Err(LockError::Busy { process: holder(path) });
    }
    if !regular::is_at(&file, &name) {
        return Err(io(io::ErrorKind::NotFound.into()));
    }
    let mut before = Vec::new();
    let read = (&file).take(MAX_DIGITS + 1).read_to_end(&mut before);
    read.map_err(io)?;
    if before.len() as u64 > MAX_DIGITS || !before.iter().all(u8::is_ascii_digit) {
        let reason = "it holds more than the number of a process, so linwright did not write it";
        return Err(io(io::Error::new(io::ErrorKind::InvalidData, reason)));
    }
    let id = std::process::id().to_string();
    let written = file.set_len(0).and_then(|()| file.rewind());
    written.and_then(|()| file.write_all(id.as_bytes())).map_err(io)?;
    Ok(file)
}

/// The process that holds a directory or held it last, if known.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    state::read_text(&path.join(NAME), MAX_DIGITS).ok().and_then(|id| id.parse().ok())
}

/// Description of the holder of a lock.
pub(crate) fn in_words(process: Option<u32>) -> String {
    process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_holds_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/directory");
        let first = lock_directory(&path, Path::new("")).unwrap();
        let LockError::Busy { process } = lock_directory(&path, Path::new("")).unwrap_err() else {
            panic!("it is busy")
        };
        assert_eq!(process, Some(std::process::id()));
        assert_eq!(in_words(process), format!("process {}", std::process::id()));
        drop(first);
        lock_directory(&path, Path::new("")).unwrap();
    }

    #[test]
    fn a_file_of_somebody_else_is_no_lock_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, name) = (folder.path(), folder.path().join(NAME));
        for text in ["thesis", "1234 ", "-1", &"1".repeat(21)] {
            fs::write(&name, text).unwrap();
            let error = lock_directory(path, Path::new("")).unwrap_err();
            let LockError::Io { source, .. } = error else { panic!("{error:?}") };
            assert!(source.to_string().contains("did not write it"), "{source}");
            assert_eq!(fs::read_to_string(&name).unwrap(), text);
        }
        for ours in ["", "4294967295"] {
            fs::write(&name, ours).unwrap();
            drop(lock_directory(path, Path::new("")).unwrap());
            assert_eq!(fs::read_to_string(&name).unwrap(), std::process::id().to_string());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_a_lock_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (path, thesis) = (folder.path().join("work"), folder.path().join("thesis"));
        let name = path.join(NAME);
        fs::create_dir(&path).unwrap();
        fs::write(&thesis, "12").unwrap();
        for link in [std::os::unix::fs::symlink, fs::hard_link::<&Path, &Path>] {
            link(&thesis, &name).unwrap();
            assert!(matches!(try_lock_directory(&path), Err(LockError::Io { .. })));
            assert_eq!(fs::read_to_string(&thesis).unwrap(), "12");
            fs::remove_file(&name).unwrap();
        }
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        let error = lock_directory(folder.path(), Path::new("link")).unwrap_err();
        let LockError::Io { source, .. } = error else { panic!("{error:?}") };
        assert!(source.to_string().contains("is a link"), "{source}");
        lock_directory(&folder.path().join("link"), Path::new("")).unwrap();
    }

    #[test]
    fn the_lock_of_a_directory_that_is_gone_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        let first = lock_directory(&path, Path::new("")).unwrap();
        assert!(regular::is_at(&first, &path.join(NAME)));
        fs::remove_dir_all(&path).unwrap();
        let second = lock_directory(&path, Path::new("")).unwrap();
        assert!(
            !regular::is_at(&first, &path.join(NAME)) && regular::is_at(&second, &path.join(NAME))
        );
    }
}
