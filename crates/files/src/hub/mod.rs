//! Models and data sets of the Hugging Face hub by their ids: `owner/name` or
//! `owner/name@revision`.
//!
//! [`find`] gives the directory of such a model in the cache that all programs of Hugging Face
//! share (`models--owner--name` with `blobs`, `refs` and `snapshots`). A cached model needs no
//! network. With the feature `hub`, [`find`] asks the hub for the commit of the revision and
//! downloads the files that a loader reads, if they are not cached. [`Dataset`] does the same for
//! the files of a data set that its caller chooses.
//!
//! No server response is trusted: file names, sizes and etags are checked before use, no file is
//! read beyond its announced size, and large files are checked by their SHA-256. A file appears in
//! a snapshot only when it is complete. The token is sent to the endpoint and to no host that it
//! redirects to.

#[cfg(feature = "hub")]
mod blob;
mod cache;
#[cfg(feature = "hub")]
mod client;
mod dataset;
#[cfg(feature = "hub")]
mod download;
mod error;
mod id;
#[cfg(feature = "hub")]
mod listing;
mod settings;

pub use dataset::{CONVERTED, Dataset};
pub use error::HubError;
pub use id::{Commit, HubId};
pub use settings::{HubSettings, Token, datasets_cache, is_true};

use cache::{Cached, Repository};
use std::fmt;
use std::path::PathBuf;

/// Callbacks of a download.
pub struct Hooks<'a> {
    /// Called with what is done next.
    pub step: &'a mut dyn FnMut(&str),
    /// Called with a description of the next step.
    pub progress: &'a mut dyn FnMut(u64, u64),
    /// Called with the number of bytes present and the total number of bytes.
    pub cancelled: &'a dyn Fn() -> bool,
}

impl fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// A model in the cache.
#[derive(Clone, Debug)]
pub struct Found {
    /// The directory of its snapshot. Its files are links into the cache: do not write to them.
    pub dir: PathBuf,
    /// The model at the commit of the snapshot, for provenance.
    pub id: HubId,
    /// Notes for the user, such as that the hub could not be reached.
    pub notes: Vec<String>,
}

/// Finds a model in the cache, or on the hub if built with the feature `hub` and not `offline`. The
/// hub is asked first, since a branch may have moved; if it cannot be reached or rejects the
/// request, the cached model is used, with a note.
///
/// # Errors
/// [`HubError`].
pub fn find(id: &HubId, settings: &HubSettings, hooks: &mut Hooks<'_>) -> Result<Found, HubError> {
    let repository = Repository::new(id, &settings.cache);
    let cached = repository.state(id)?;
    if !settings.offline {
        return ask(id, settings, cached, hooks);
    }
    cached.whole(id).map_err(|found| HubError::Offline {
        id: id.to_string(),
        cache: settings.cache.clone(),
        found,
    })
}

#[cfg(feature = "hub")]
fn ask(
    id: &HubId,
    settings: &HubSettings,
    cached: Cached,
    hooks: &mut Hooks<'_>,
) -> Result<Found, HubError> {
    match download::fetch_model(id, settings, hooks) {
        Err(error @ (HubError::Unreachable { .. } | HubError::Refused { .. })) => {
            let Ok(mut found) = cached.whole(id) else {
                return Err(error);
            };
            found.notes.push(format!("from the cache, without asking whether it changed: {error}"));
            Ok(found)
        }
        brought => brought,
    }
}

#[cfg(not(feature = "hub"))]
fn ask(
    id: &HubId,
    settings: &HubSettings,
    cached: Cached,
    _: &mut Hooks<'_>,
) -> Result<Found, HubError> {
    cached.whole(id).map_err(|found| HubError::NotBuilt {
        id: id.to_string(),
        cache: settings.cache.clone(),
        found,
    })
}
