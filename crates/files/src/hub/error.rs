//! Errors of the hub and its cache.

use crate::FileError;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::path::PathBuf;

/// A model or data set that is neither in the cache nor available from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// An invalid revision.
    #[error("{id}: {revision:?} is not a valid revision; expected a branch, a tag or a commit after the @", id = shown(id))]
    Revision {
        /// `owner/name`.
        id: String,
        /// The revision.
        revision: String,
    },
    /// The cache directory is unknown.
    #[error(
        "the directory of the hub cache is unknown: set HF_HOME, or HOME for ~/.cache/huggingface"
    )]
    NoCache,
    /// An invalid endpoint. It is not shown, since it may contain a password.
    #[error(
        "HF_ENDPOINT is not a valid address; expected http(s)://HOST, without a name or a password"
    )]
    Endpoint,
    /// An invalid token.
    #[error("the token of {place} {reason}; log in again, or set HF_TOKEN")]
    Token {
        /// Its source: a variable or a file.
        place: String,
        /// What is wrong; never the token.
        reason: String,
    },
    /// Not in the cache, and downloads are switched off.
    #[error("{id} is not a local path and {found} in the cache {}; HF_HUB_OFFLINE forbids its download: unset the variable, or give a directory", cache.display(), id = shown(id))]
    Offline {
        /// The model.
        id: String,
        /// The cache.
        cache: PathBuf,
        /// State of the cache, as the predicate of a sentence.
        found: String,
    },
    /// Not in the cache, and this program was built without downloads.
    #[error("{id} is not a local path; as a model of the hub, it {found} in the cache {}; this program was built without downloads: build it with `--features hub`, or give a directory", cache.display(), id = shown(id))]
    NotBuilt {
        /// The model.
        id: String,
        /// The cache.
        cache: PathBuf,
        /// State of the cache, as the predicate of a sentence.
        found: String,
    },
    /// An unreadable snapshot in the cache.
    #[error("hub cache: {0}")]
    Cache(#[from] FileError),
    /// No response, or too many broken connections.
    #[error("{id}: {host} cannot be reached: {reason}; try again later, or give a directory", id = shown(id))]
    Unreachable {
        /// The model.
        id: String,
        /// The host.
        host: String,
        /// The cause.
        reason: String,
    },
    /// Access denied.
    #[error("{id}: {host} refuses {what} (status {status}); {advice}", id = shown(id))]
    Refused {
        /// The model.
        id: String,
        /// The host.
        host: String,
        /// The file, or the model.
        what: String,
        /// 401 or 403.
        status: u16,
        /// What to do.
        advice: String,
    },
    /// Not found on the hub.
    #[error("{id}: {host} has no {what}; {advice}", id = shown(id))]
    NotFound {
        /// The model.
        id: String,
        /// The host.
        host: String,
        /// Repository, revision or file.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// An unusable response of the hub.
    #[error("{id}: the response of {host} for {what} {reason}", id = shown(id))]
    Answer {
        /// The model.
        id: String,
        /// The host.
        host: String,
        /// The file, or the list of files.
        what: String,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// A file path that leads out of the folder of the repository.
    #[error(
        "{id}: the list of files holds \"{name}\", which leads out of its folder; the repository or the endpoint is hostile, nothing was downloaded", id = shown(id), name = shown(name)
    )]
    FileName {
        /// The model.
        id: String,
        /// The path.
        name: String,
    },
    /// A repository without weights in a supported format.
    #[error(
        "{id}: no supported weights: expected model.safetensors, its shards or pytorch_model.bin, found {found}", id = shown(id)
    )]
    NoWeights {
        /// The model.
        id: String,
        /// The files of the repository.
        found: String,
    },
    /// A file whose size differs from the announced one.
    #[error(
        "{id}: {file} should have {expected} bytes, the download has {found}; it was not kept, try again", id = shown(id), file = shown(file)
    )]
    Size {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// As announced.
        expected: u64,
        /// Bytes received or announced so far.
        found: u64,
    },
    /// A file announced with more bytes than the limit.
    #[error(
        "{id}: {file} is announced with {announced} bytes; the limit for such a file is {limit}; it was not downloaded", id = shown(id), file = shown(file)
    )]
    TooLarge {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// Announced bytes.
        announced: u64,
        /// Largest allowed number of bytes.
        limit: u64,
    },
    /// A file whose SHA-256 differs from its etag.
    #[error(
        "{id}: {file} has SHA-256 {found}, expected {expected}; it was damaged in transit and not kept, try again", id = shown(id), file = shown(file)
    )]
    Damaged {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// As announced.
        expected: String,
        /// SHA-256 of the bytes received.
        found: String,
    },
    /// The cache cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Interrupted by the user. The bytes received are kept, and the same command resumes.
    #[error("interrupted while downloading {id}", id = shown(id))]
    Interrupted {
        /// The model.
        id: String,
    },
}
