//! The cache shared by programs of Hugging Face: `models--owner--name` holds `blobs` by etag,
//! `refs` from branches and tags to commits, and `snapshots`, one folder of links per commit.

use super::Found;
use super::error::HubError;
use super::id::{Commit, HubId};
use crate::{FileError, lacking_weights};
use linwright_run::input;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest content of a ref, in bytes; a commit has 40.
const REF_BYTES: u64 = 64;

/// The folder of one repository in the cache.
#[derive(Debug)]
pub(super) struct Repository {
    root: PathBuf,
    #[cfg(feature = "hub")]
    locks: PathBuf,
}

/// State of a model in the cache.
#[derive(Debug)]
pub(super) enum Cached {
    /// All weights, and the companion files that were downloaded with them.
    Whole { dir: PathBuf, commit: Commit },
    /// An incomplete model, with what is wrong, as the predicate of a sentence.
    Partial(String),
    /// No files.
    Absent,
}

impl Repository {
    pub(super) fn new(id: &HubId, cache: &Path) -> Self {
        Self {
            root: cache.join(id.folder()),
            #[cfg(feature = "hub")]
            locks: cache.join(".locks").join(id.folder()),
        }
    }

    /// The snapshot folder of the revision and its commit, or the state of the cache.
    pub(super) fn at(&self, id: &HubId) -> Result<Result<(PathBuf, Commit), Cached>, HubError> {
        let commit = match Commit::parse(id.revision()) {
            Some(commit) => commit,
            None => match read_ref(&self.reference(id))? {
                Some(text) => match Commit::parse(text.trim()) {
                    Some(commit) => commit,
                    None => return Ok(Err(Cached::Partial("has a damaged ref".into()))),
                },
                None => return Ok(Err(Cached::Absent)),
            },
        };
        let dir = self.snapshot(&commit);
        Ok(if dir.is_dir() { Ok((dir, commit)) } else { Err(Cached::Absent) })
    }

    /// State of the model at its revision.
    pub(super) fn state(&self, id: &HubId) -> Result<Cached, HubError> {
        let (dir, commit) = match self.at(id)? {
            Ok(found) => found,
            Err(cached) => return Ok(cached),
        };
        Ok(match lacking_weights(&dir) {
            Ok(None) => Cached::Whole { dir, commit },
            Ok(Some(lacking)) => Cached::Partial(format!("lacks {lacking}")),
            // A download may repair it.
            Err(error) => Cached::Partial(format!("is damaged ({error})")),
        })
    }

    /// Path of the ref that holds the commit of a branch or tag.
    pub(super) fn reference(&self, id: &HubId) -> PathBuf {
        self.root.join("refs").join(id.revision())
    }

    /// Path of the snapshot of a commit.
    pub(super) fn snapshot(&self, commit: &Commit) -> PathBuf {
        self.root.join("snapshots").join(commit.as_str())
    }

    /// Folder of blobs.
    #[cfg(feature = "hub")]
    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Folder of lock files, one per blob being written.
    #[cfg(feature = "hub")]
    pub(super) fn locks(&self) -> &Path {
        &self.locks
    }
}

impl Cached {
    /// The model if it is complete, else what is wrong, as the predicate of a sentence.
    pub(super) fn whole(self, id: &HubId) -> Result<Found, String> {
        match self {
            Self::Whole { dir, commit } => Ok(Found { dir, id: id.at(&commit), notes: Vec::new() }),
            Self::Partial(found) => Err(found),
            Self::Absent => Err("is not".into()),
        }
    }
}

fn read_ref(path: &Path) -> Result<Option<String>, FileError> {
    let mut text = String::new();
    let read = input::open(path).and_then(|file| file.take(REF_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // A text that is not UTF-8 is not a commit; the caller reports it.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) => Err(FileError::read(path)(error)),
    }
}
