//! The store: finished pieces of work by the fingerprint of everything they depend on.
//!
//! ```text
//! <root>/<kind>/<two digits>/<fingerprint>            a finished piece
//! <root>/<kind>/<two digits>/<fingerprint>.damaged    a damaged one, moved aside
//! <root>/unfinished/<fingerprint>/                    checkpoints and journals of one job, locked
//! ```
//!
//! All pieces have one format with a checksum, and are written atomically, so any number of
//! processes may share a store. There is one policy for a damaged piece: it is moved aside,
//! reported ([`Store::take_notes`]) and recomputed.

mod entries;
mod error;
mod piece;
mod root;
mod unfinished;

pub use entries::{Entry, Evicted, State};
pub use error::StoreError;
pub use piece::PieceKey;
pub use root::{BOUND_VARIABLE, DEFAULT_BOUND_BYTES, Place, ROOT_VARIABLE, place};
pub use unfinished::{Unfinished, is_work_held};

use crate::state;
use piece::Found;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// End of the name of a damaged piece.
const DAMAGED: &str = ".damaged";

/// Marks a cache for programs that make backups (`https://bford.info/cachedir/`).
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # Finished pieces of work of Linwright. `linwright cache` lists and removes them.\n";

/// Finished pieces in a directory. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// `None` keeps nothing.
    root: Option<PathBuf>,
    /// Further stores, which are only read.
    others: Vec<PathBuf>,
    /// Whether pieces found in them are copied into this one.
    adopts: bool,
    bound_bytes: Option<u64>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    notes: Mutex<Vec<String>>,
    /// Pieces that this process stored or read: it may need them again.
    used: Mutex<BTreeSet<PathBuf>>,
    /// Size of the store in bytes, as far as this process knows.
    held_bytes: Mutex<Option<u64>>,
    /// Number of pieces that were read.
    found: AtomicU64,
}

/// The content of a mutex, also after a panic of another thread: it is always valid.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens a store, or creates it.
    ///
    /// # Errors
    /// [`StoreError`] if the directory cannot be created.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root).map_err(StoreError::io("create", root))?;
        let tag = root.join(TAG);
        if !state::exists(&tag) {
            state::write(&tag, TAG_TEXT.as_bytes())?;
        }
        Ok(Self::at(root))
    }

    /// A store in a directory that is not a cache, or that is only read: nothing is created before
    /// the first piece is stored.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..Self::default() }
    }

    /// A store that keeps nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads missing pieces from further stores, such as those of shards, which are never changed.
    #[must_use]
    pub fn reading_also(mut self, roots: Vec<PathBuf>) -> Self {
        self.others.extend(roots);
        self
    }

    /// As [`Self::reading_also`]; pieces found there are also copied into this store, so that it is
    /// complete in the end.
    #[must_use]
    pub fn adopting(self, roots: Vec<PathBuf>) -> Self {
        Self { adopts: true, ..self.reading_also(roots) }
    }

    /// Limits the size of the store: after each piece that exceeds it, pieces are removed as by
    /// [`Self::evict`].
    #[must_use]
    pub fn bounded(mut self, bytes: u64) -> Self {
        self.bound_bytes = Some(bytes);
        self
    }

    /// Directory of the store, if it keeps anything.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Number of finished pieces that were read instead of computed.
    #[must_use]
    pub fn found(&self) -> u64 {
        self.shared.found.load(Ordering::Relaxed)
    }

    /// Whether nothing is stored and nothing can be found, so that keys need not be computed.
    #[must_use]
    pub fn keeps_nothing(&self) -> bool {
        self.root.is_none() && self.others.is_empty()
    }

    /// Payload of a finished piece. A damaged one is moved aside, reported and not returned.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file exists and cannot be read.
    pub fn get(&self, key: &PieceKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.decoded(key, Ok)
    }

    /// As [`Self::get`], for pieces with their own encoding. A payload that `decode` rejects with a
    /// reason is a damaged piece.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn decoded<T>(
        &self,
        key: &PieceKey,
        decode: impl Fn(Vec<u8>) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        let roots = self.root.iter().chain(&self.others);
        for (index, root) in roots.enumerate() {
            let path = path_in(root, key)?;
            let is_ours = index == 0 && self.root.is_some();
            let found = piece::read(&path, key, is_ours).map_err(StoreError::io("read", &path))?;
            let reason = match found {
                Found::Nothing => continue,
                Found::Damaged(reason) => reason,
                Found::Whole(payload) => {
                    let copy = (self.adopts && !is_ours).then(|| payload.clone());
                    match decode(payload) {
                        Ok(value) => {
                            open(&self.shared.used).insert(path);
                            self.shared.found.fetch_add(1, Ordering::Relaxed);
                            copy.map_or(Ok(()), |copy| self.put(key, &[&copy]))?;
                            return Ok(Some(value));
                        }
                        Err(reason) => reason,
                    }
                }
            };
            self.tell_damage(&path, &reason, is_ours);
        }
        Ok(None)
    }

    /// Moves a damaged piece aside, unless the store is only read, and reports it.
    fn tell_damage(&self, path: &Path, reason: &str, is_ours: bool) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(DAMAGED);
        let done = match is_ours.then(|| fs::rename(path, &aside)) {
            None => "not used".to_owned(),
            Some(Ok(())) => format!("moved aside to *{DAMAGED}"),
            Some(Err(error)) => format!("it cannot be moved aside ({error}), so it is replaced"),
        };
        let note = format!("{}: {reason}; {done}, computed again", path.display());
        open(&self.shared.notes).push(note);
    }

    /// The file of a piece that this process stored or verified, and the offset of its payload, to
    /// read it in place; none if this store does not have it.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn file(&self, key: &PieceKey) -> Result<Option<(File, Range<u64>)>, StoreError> {
        let Some(root) = self.root() else { return Ok(None) };
        let path = path_in(root, key)?;
        if !self.is_used(&path) {
            return Ok(None);
        }
        let opened = state::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = match opened {
            Ok(opened) => opened,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path)(error)),
        };
        let start = key.payload_start() as u64;
        let end = bytes.saturating_sub(piece::DIGEST as u64);
        Ok((start <= end).then_some((file, start..end)))
    }

    /// Stores a piece, given in one or several parts.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written; an existing one is then unchanged.
    pub fn put(&self, key: &PieceKey, payload: &[&[u8]]) -> Result<(), StoreError> {
        let Some(root) = &self.root else { return Ok(()) };
        let path = path_in(root, key)?;
        let folder = below(key);
        let folder = folder.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(root)
            .and_then(|()| state::make_folder(root, folder))
            .map_err(StoreError::io("create", &root.join(folder)))?;
        // Before it is written, so that no other thread evicts it.
        open(&self.shared.used).insert(path.clone());
        let bytes = piece::write(&path, key, payload)?;
        self.keep_within_bound(bytes)
    }

    fn keep_within_bound(&self, added_bytes: u64) -> Result<(), StoreError> {
        let Some(bound) = self.bound_bytes else { return Ok(()) };
        let mut held = open(&self.shared.held_bytes);
        let now = match *held {
            Some(held) => held.saturating_add(added_bytes),
            None => self.entries()?.iter().map(|entry| entry.bytes).sum(),
        };
        *held = Some(now);
        if now > bound {
            // A tenth more, so that eviction does not run for every piece.
            *held = Some(self.evict(bound - bound / 10)?.left_bytes);
        }
        Ok(())
    }

    /// Removes a piece, if it is there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn forget(&self, key: &PieceKey) -> Result<(), StoreError> {
        let Some(root) = self.root() else { return Ok(()) };
        let path = path_in(root, key)?;
        match fs::remove_file(&path) {
            Err(error) if !is_gone(&error) => {
                Err(StoreError::Io { action: "remove", path, source: error })
            }
            _ => Ok(()),
        }
    }

    /// Whether there is a file of this piece; its content is not verified.
    #[must_use]
    pub fn contains(&self, key: &PieceKey) -> bool {
        let is_file = |path: PathBuf| path.symlink_metadata().is_ok_and(|data| data.is_file());
        self.root.iter().chain(&self.others).any(|root| path_in(root, key).is_ok_and(is_file))
    }

    /// The piece as JSON, or what `compute` returns, which is then stored.
    ///
    /// # Errors
    /// [`StoreError`], and errors of `compute`.
    pub fn finished<T: Serialize + DeserializeOwned, E: From<StoreError>>(
        &self,
        key: &PieceKey,
        compute: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let read = |payload: Vec<u8>| {
            serde_json::from_slice(&payload)
                .map_err(|error| format!("its content has another form: {error}"))
        };
        if let Some(found) = self.decoded(key, read)? {
            return Ok(found);
        }
        let computed = compute()?;
        if self.root.is_some() {
            let json = serde_json::to_vec(&computed).map_err(|error| StoreError::Value {
                kind: key.kind(),
                reason: error.to_string(),
            })?;
            self.put(key, &[&json])?;
        }
        Ok(computed)
    }

    /// Notes on damaged pieces since the last call, for the user.
    #[must_use]
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *open(&self.shared.notes))
    }

    /// Whether this process put or read a piece.
    fn is_used(&self, path: &Path) -> bool {
        open(&self.shared.used).contains(path)
    }
}

/// The file of a piece in a store.
fn path_in(root: &Path, key: &PieceKey) -> Result<PathBuf, StoreError> {
    let below = below(key);
    state::inside(root, &below).map_err(StoreError::io("reach", &root.join(&below)))
}

fn below(key: &PieceKey) -> PathBuf {
    let name = &key.fingerprint().0;
    [key.kind(), &name[..2], name].iter().collect()
}

/// Whether a word is a valid kind of pieces.
fn is_kind(word: &str) -> bool {
    !word.is_empty()
        && word != unfinished::FOLDER
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Whether an error says that a file is gone, as when another process removed it first.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

#[cfg(test)]
mod tests;
