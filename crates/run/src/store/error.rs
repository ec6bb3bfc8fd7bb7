//! Errors of a store.

use super::root::{BOUND_VARIABLE, DEFAULT_BOUND_BYTES};
use crate::atomic::OutputError;
use crate::lock::in_words;
use crate::shown;
use std::io;
use std::path::{Path, PathBuf};

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read, moved or removed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A piece cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Another process does the same work.
    #[error(
        "{what}: {} is doing the same work in {}; wait for it to end",
        in_words(*process),
        path.display()
    )]
    Busy {
        /// Description of the work.
        what: String,
        /// Directory of the unfinished work.
        path: PathBuf,
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// An unusable largest size in the environment.
    #[error(
        "{BOUND_VARIABLE} is \"{}\", expected a number of bytes, such as {DEFAULT_BOUND_BYTES}",
        shown(found)
    )]
    Bound {
        /// The value.
        found: String,
    },
    /// A value that JSON cannot represent.
    #[error("a piece of kind {kind} cannot be written as JSON: {reason}")]
    Value {
        /// Kind of the piece.
        kind: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
