//! What can keep a model of the hub from being found.

use crate::FileError;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::path::PathBuf;

/// A model that could not be found in the cache or brought from the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A revision that no repository can have.
    #[error("{id}: {revision:?} is no revision; expected a branch, a tag or a commit after the @", id = shown(id))]
    Revision {
        /// `owner/name`.
        id: String,
        /// What was given.
        revision: String,
    },
    /// Nothing in the environment says where the cache is.
    #[error("no place for models of the hub: set HF_HOME, or HOME for ~/.cache/huggingface")]
    NoCache,
    /// An endpoint that is no address. It is not shown, since it may hold a password.
    #[error(
        "HF_ENDPOINT is no address of a hub; expected http(s)://HOST, without a name or a password"
    )]
    Endpoint,
    /// A token that cannot be one.
    #[error("the token of {place} {reason}; log in again, or set HF_TOKEN")]
    Token {
        /// Variable or file.
        place: String,
        /// What is wrong; never the token.
        reason: String,
    },
    /// The cache must do and does not have it.
    #[error("{id} is no path here and {found} in the cache {}; HF_HUB_OFFLINE forbids to download it: unset it, or give a directory", cache.display(), id = shown(id))]
    Offline {
        /// The model.
        id: String,
        /// The cache.
        cache: PathBuf,
        /// What the cache has instead.
        found: String,
    },
    /// The cache does not have it and this program was built without downloads.
    #[error("{id} is no path here, looks like a model of the hub, and {found} in the cache {}; this program was built without downloads: build it with `--features hub`, or give a directory", cache.display(), id = shown(id))]
    NotBuilt {
        /// The model.
        id: String,
        /// The cache.
        cache: PathBuf,
        /// What the cache has instead.
        found: String,
    },
    /// A snapshot in the cache that cannot be read.
    #[error("the cache of the hub: {0}")]
    Cache(#[from] FileError),
    /// The hub did not answer, or the connection broke too often.
    #[error("{id}: {host} cannot be reached: {reason}; try again later, or give a directory", id = shown(id))]
    Unreachable {
        /// The model.
        id: String,
        /// Who was asked.
        host: String,
        /// What happened.
        reason: String,
    },
    /// The hub does not let us have it.
    #[error("{id}: {host} refuses {what} (status {status}); {advice}", id = shown(id))]
    Refused {
        /// The model.
        id: String,
        /// Who was asked.
        host: String,
        /// The file, or the model.
        what: String,
        /// 401 or 403.
        status: u16,
        /// What to do.
        advice: String,
    },
    /// The hub does not have it.
    #[error("{id}: {host} has no {what}; {advice}", id = shown(id))]
    NotFound {
        /// The model.
        id: String,
        /// Who was asked.
        host: String,
        /// Repository, revision or file.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// The hub answers, but not as a hub does.
    #[error("{id}: the answer of {host} about {what} {reason}", id = shown(id))]
    Answer {
        /// The model.
        id: String,
        /// Who was asked.
        host: String,
        /// The file, or the list of files.
        what: String,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// A file name that leads out of the model's folder.
    #[error(
        "{id}: the list of files holds \"{name}\", which leads out of its folder; the repository or the endpoint is hostile, nothing was downloaded", id = shown(id), name = shown(name)
    )]
    FileName {
        /// The model.
        id: String,
        /// The name.
        name: String,
    },
    /// A repository without weights that are read.
    #[error(
        "{id}: no weights that are read: expected model.safetensors, its shards or pytorch_model.bin, found {found}", id = shown(id)
    )]
    NoWeights {
        /// The model.
        id: String,
        /// What there is instead.
        found: String,
    },
    /// A file of another size than announced.
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
        /// At least so many came, or are said to come.
        found: u64,
    },
    /// A file that is announced with a size that no file of its kind has.
    #[error(
        "{id}: {file} is announced with {announced} bytes, at most {limit} are taken for such a file; nothing of it was downloaded", id = shown(id), file = shown(file)
    )]
    TooLarge {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// Bytes by the server.
        announced: u64,
        /// Bytes that are taken.
        limit: u64,
    },
    /// A file whose content is not what its name in the cache says.
    #[error(
        "{id}: {file} has SHA-256 {found}, expected {expected}; it was damaged on its way and not kept, try again", id = shown(id), file = shown(file)
    )]
    Damaged {
        /// The model.
        id: String,
        /// The file.
        file: String,
        /// As announced.
        expected: String,
        /// Of what came.
        found: String,
    },
    /// The cache cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The user asked to stop. What came stays, and the same command goes on from there.
    #[error("interrupted while downloading {id}", id = shown(id))]
    Interrupted {
        /// The model.
        id: String,
    },
}
