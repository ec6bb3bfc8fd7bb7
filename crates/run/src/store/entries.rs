//! Content of a store, and its removal.

use super::unfinished::{self, FOLDER, REMOVED, WHAT};
use super::{DAMAGED, Store, StoreError, is_gone, is_kind};
use crate::atomic::{is_partial_of, remove_partial};
use crate::fingerprint::is_digits;
use crate::lock::{self, LockError, try_lock_directory};
use crate::{Fingerprint, state};
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest description of unfinished work that is read, in bytes.
const MAX_WHAT_BYTES: u64 = 1 << 16;

/// One file or directory of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the piece; `unfinished` for unfinished work.
    pub kind: String,
    /// Fingerprint of everything it depends on.
    pub fingerprint: Fingerprint,
    /// State of the piece.
    pub state: State,
    /// Bytes on disk.
    pub bytes: u64,
    /// Time of the last use.
    pub last_use: SystemTime,
    path: PathBuf,
}

/// State of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Finished.
    Finished,
    /// Damaged and moved aside.
    Damaged,
    /// Being written, or left by a killed process.
    Partial,
    /// Unfinished work.
    Unfinished {
        /// Description of the work.
        what: String,
        /// Whether a process is working on it.
        is_busy: bool,
        /// Number of that process, if known.
        process: Option<u32>,
    },
}

/// Result of an eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Number of removed entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the remaining entries.
    pub left_bytes: u64,
}

impl Entry {
    /// The file or directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Store {
    /// Everything in the store, by kind and fingerprint. Files of other forms are not entries, and
    /// are never removed.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a directory cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        let Some(root) = self.root() else { return Ok(entries) };
        for (kind, folder) in folders(root)? {
            if kind == FOLDER {
                for (name, path) in folders(&folder)? {
                    entries.extend(unfinished_entry(&name, path));
                }
            } else if is_kind(&kind) {
                for (start, folder) in folders(&folder)? {
                    if is_digits(&start, 2) {
                        let files = named(&folder)?.into_iter();
                        entries
                            .extend(files.filter_map(|(name, path, _)| file(&kind, &name, path)));
                    }
                }
            }
        }
        Ok(entries)
    }

    /// Removes an entry; returns false if it is in use or gone.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn remove(&self, entry: &Entry) -> Result<bool, StoreError> {
        let path = &entry.path;
        // Its folders may have been replaced since it was listed.
        if let Some(root) = self.root()
            && let Ok(below) = path.strip_prefix(root)
        {
            state::inside(root, below).map_err(StoreError::io("remove", path))?;
        }
        let removed = match &entry.state {
            State::Finished | State::Damaged => fs::remove_file(path).map(|()| true),
            State::Partial => remove_partial(path),
            State::Unfinished { .. } => match try_lock_directory(path) {
                Ok(_held) => unfinished::remove(path).map(|()| true),
                Err(LockError::Busy { .. }) => Ok(false),
                // A lock that is a link or a pipe is held by no process.
                Err(LockError::Io { source, .. }) if is_no_file(&source) => {
                    unfinished::remove(path).map(|()| true)
                }
                Err(LockError::Io { source, .. }) => Err(source),
            },
        };
        removed
            .or_else(|error| if is_gone(&error) { Ok(false) } else { Err(error) })
            .map_err(StoreError::io("remove", path))
    }

    /// Removes entries until the store has at most `bound_bytes`: damaged and partial ones first,
    /// then the least recently used. Pieces that this process put or read stay, and so does
    /// unfinished work of a living process.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn evict(&self, bound_bytes: u64) -> Result<Evicted, StoreError> {
        let mut entries = self.entries()?;
        let mut evicted = Evicted {
            left_bytes: entries.iter().map(|entry| entry.bytes).sum(),
            ..Evicted::default()
        };
        let is_waste = |entry: &Entry| matches!(entry.state, State::Damaged | State::Partial);
        entries.sort_by(|a, b| {
            let order = |entry: &Entry| (!is_waste(entry), entry.last_use);
            order(a).cmp(&order(b)).then_with(|| a.path.cmp(&b.path))
        });
        for entry in entries {
            if evicted.left_bytes <= bound_bytes {
                break;
            }
            if !self.is_used(&entry.path) && self.remove(&entry)? {
                evicted.entries += 1;
                evicted.bytes += entry.bytes;
                evicted.left_bytes -= entry.bytes;
            }
        }
        Ok(evicted)
    }
}

/// Whether an error says that something else is in the place of a file of this program.
fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory)
}

/// Folders in a directory with their names, sorted. Links are skipped: their targets may belong to
/// others.
fn folders(folder: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let is_folder = |(_, _, kind): &(String, PathBuf, FileType)| kind.is_dir();
    let found = named(folder)?.into_iter().filter(is_folder);
    Ok(found.map(|(name, path, _)| (name, path)).collect())
}

/// Contents of a directory with their names and types, sorted; empty if it is not a directory or is
/// gone. This program writes no names that are not UTF-8.
fn named(folder: &Path) -> Result<Vec<(String, PathBuf, FileType)>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(StoreError::io("list", folder)(error)),
    };
    let mut list = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("list", folder))?;
        if let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) {
            list.push((name, entry.path(), kind));
        }
    }
    list.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    Ok(list)
}

/// A file named like a piece.
fn file(kind: &str, name: &str, path: PathBuf) -> Option<Entry> {
    let start = name.trim_start_matches('.').get(..32)?;
    let fingerprint = Fingerprint::try_from(start.to_owned()).ok()?;
    let state = if name == start {
        State::Finished
    } else if name.strip_prefix(start) == Some(DAMAGED) {
        State::Damaged
    } else if is_partial_of(name, start) {
        State::Partial
    } else {
        return None;
    };
    // Without following links; a file may be gone meanwhile.
    let data = path.symlink_metadata().ok().filter(|data| !data.is_dir())?;
    let last_use = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Entry { kind: kind.to_owned(), fingerprint, state, bytes: data.len(), last_use, path })
}

/// A directory of unfinished work, or one whose removal was interrupted.
fn unfinished_entry(name: &str, path: PathBuf) -> Option<Entry> {
    let is_removed = name.starts_with(REMOVED);
    let fingerprint = match Fingerprint::try_from(name.to_owned()) {
        Ok(fingerprint) => fingerprint,
        // It was renamed for removal.
        Err(_) if is_removed => Fingerprint("0".repeat(32)),
        Err(_) => return None,
    };
    let (bytes, last_use) = size(&path);
    let state = if is_removed {
        State::Partial
    } else {
        // Only inspected: a free lock is not taken.
        let lock = state::open(&path.join(lock::NAME));
        let is_busy = lock.is_ok_and(|file| matches!(lock::lock_file(&file), Ok(false)));
        let what = state::read_text(&path.join(WHAT), MAX_WHAT_BYTES).unwrap_or_default();
        let process = lock::holder(&path).filter(|_| is_busy);
        State::Unfinished { what, is_busy, process }
    };
    Some(Entry { kind: FOLDER.to_owned(), fingerprint, state, bytes, last_use, path })
}

/// Bytes of all files below a directory, and the time of the last change.
fn size(folder: &Path) -> (u64, SystemTime) {
    let mut sum = (0, SystemTime::UNIX_EPOCH);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(data) = entry.metadata() else { continue };
        let (bytes, changed) = if data.is_dir() {
            size(&entry.path())
        } else {
            (data.len(), data.modified().unwrap_or(SystemTime::UNIX_EPOCH))
        };
        sum = (sum.0 + bytes, sum.1.max(changed));
    }
    sum
}
