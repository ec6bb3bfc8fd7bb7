//! Files that are either whole or not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `bytes` to a temporary name beside `path`, makes them durable and renames. On an error
/// the temporary file is removed and what stood at `path` is untouched.
///
/// # Errors
/// Those of creating, writing and renaming.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| {
            // The first error is the one to report; a file that cannot be removed was not created.
            drop(fs::remove_file(&temporary));
        })
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a");
        write_atomic(&path, b"old").expect("writes");
        fs::create_dir(dir.path().join("a.tmp")).expect("stands in the way");
        assert!(write_atomic(&path, b"new").is_err());
        assert_eq!(fs::read(&path).expect("reads"), b"old");
    }

    #[test]
    fn a_path_below_a_file_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("file");
        write_atomic(&file, b"x").expect("writes");
        assert!(write_atomic(&file.join("below"), b"y").is_err());
    }
}
