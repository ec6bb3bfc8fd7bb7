//! How a finished file gets its name, and which files it may replace.

use super::{OutputError, check_file};
use crate::regular;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// What a finished file may replace, checked when it is started and again when it is finished.
#[derive(Clone, Copy, Debug)]
pub enum Replace {
    /// Nothing: a file that appeared during the work stays.
    Nothing,
    /// A file that this function recognises as written by this program.
    Ours(fn(&Path) -> bool),
    /// A regular file that this program keeps for itself.
    State,
}

impl Replace {
    /// What an output may replace: with `--force` a file that `is_ours` recognises.
    #[must_use]
    pub fn if_forced(force: bool, is_ours: fn(&Path) -> bool) -> Self {
        if force { Self::Ours(is_ours) } else { Self::Nothing }
    }

    /// Checks, before any work, that a file can be written at `path`.
    pub(super) fn check(self, path: &Path) -> Result<(), OutputError> {
        match self {
            Self::Nothing => check_file(path, false, |_| false),
            Self::Ours(is_ours) => check_file(path, true, is_ours),
            Self::State => regular::check(path).map_err(|e| OutputError::io("write", path, e)),
        }
    }

    /// Gives a finished file its name.
    pub(super) fn publish(self, finished: &Path, target: &Path) -> Result<(), OutputError> {
        self.check(target)?;
        let replaces = match self {
            Self::Nothing => false,
            Self::Ours(_) => regular::exists(target),
            // Two processes may finish the same piece simultaneously.
            Self::State => true,
        };
        let named = match replaces {
            true => fs::rename(finished, target),
            false => name_new(finished, target),
        };
        named.map_err(|error| match error.kind() == io::ErrorKind::AlreadyExists {
            true => OutputError::Exists { path: target.to_path_buf() },
            false => OutputError::io("rename to", target, error),
        })
    }
}

/// Gives a file an unused name: unlike a rename, a link replaces nothing.
fn name_new(finished: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(finished, target) {
        Ok(()) => {
            // The target exists; leftovers are removed by the next write to it.
            drop(fs::remove_file(finished));
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links.
        Err(_) => name_reserved(finished, target),
    }
}

/// As [`name_new`], on file systems without links: an empty file takes the name, and only that file
/// is replaced. A process killed in between leaves it.
fn name_reserved(finished: &Path, target: &Path) -> io::Result<()> {
    let reserved = File::create_new(target)?;
    if !regular::is_at(&reserved, target) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(finished, target).inspect_err(|_| drop(fs::remove_file(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Naming = fn(&Path, &Path) -> io::Result<()>;

    #[test]
    fn a_new_name_replaces_nothing_with_links_and_without() {
        for name in [name_new as Naming, name_reserved] {
            let dir = tempfile::tempdir().unwrap();
            let path = |name: &str| dir.path().join(name);
            fs::write(path("finished"), "result").unwrap();
            name(&path("finished"), &path("new")).unwrap();
            assert_eq!(fs::read(path("new")).unwrap(), b"result");
            assert!(!path("finished").exists());
            fs::write(path("finished"), "other").unwrap();
            fs::create_dir(path("folder")).unwrap();
            for taken in ["new", "folder"] {
                let error = name(&path("finished"), &path(taken)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{taken}");
            }
            assert_eq!(fs::read(path("new")).unwrap(), b"result");
            assert_eq!(fs::read(path("finished")).unwrap(), b"other", "for another name");
            #[cfg(unix)]
            {
                std::os::unix::fs::symlink(path("nowhere"), path("link")).unwrap();
                let error = name(&path("finished"), &path("link")).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
                assert!(!path("nowhere").exists());
            }
        }
    }

    #[test]
    fn of_many_that_finish_at_once_one_gets_the_name() {
        for name in [name_new as Naming, name_reserved] {
            for _ in 0..20 {
                let dir = tempfile::tempdir().unwrap();
                let target = dir.path().join("target");
                let finish = |index: usize| {
                    let finished = dir.path().join(index.to_string());
                    fs::write(&finished, index.to_string()).unwrap();
                    name(&finished, &target).is_ok()
                };
                let named: Vec<bool> = std::thread::scope(|threads| {
                    let started: Vec<_> =
                        (0..4).map(|index| threads.spawn(move || finish(index))).collect();
                    started.into_iter().map(|one| one.join().unwrap()).collect()
                });
                let first = named.iter().position(|named| *named).unwrap();
                assert_eq!(named.iter().filter(|named| **named).count(), 1, "{named:?}");
                assert_eq!(fs::read_to_string(&target).unwrap(), first.to_string());
            }
        }
    }
}
