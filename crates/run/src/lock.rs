//! Locks of run directories, for one process at a time.

use crate::RunError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

/// Locks a directory. The system releases the lock when the process ends.
pub(crate) fn lock(path: &Path) -> Result<File, RunError> {
    let name = path.join(".lock");
    let io = |source| RunError::Io { path: name.clone(), source };
    let mut options = OpenOptions::new();
    let mut file =
        options.create(true).truncate(false).read(true).write(true).open(&name).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {
            let id = std::process::id().to_string();
            file.set_len(0).and_then(|()| file.write_all(id.as_bytes())).map_err(io)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let process = std::fs::read_to_string(&name).ok().and_then(|id| id.trim().parse().ok());
            Err(RunError::Busy { path: path.to_owned(), process })
        }
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_holds_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        let second = lock(folder.path()).unwrap_err().to_string();
        let us = format!("in use by process {}", std::process::id());
        assert!(second.contains(&us), "{second}");
        drop(first);
        lock(folder.path()).unwrap();
    }
}
