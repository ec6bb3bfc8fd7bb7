//! Data sets of the hub, from which the caller chooses files.

use super::cache::{Cached, Repository};
use super::error::HubError;
use super::id::{Commit, HubId};
use super::settings::HubSettings;
use super::{Found, Hooks};
use crate::FileError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Branch with the Parquet conversion of a data set.
pub const CONVERTED: &str = "refs/convert/parquet";

/// Greatest depth of folders in a snapshot.
const MAX_DEPTH: usize = 16;

/// A data set at one commit.
#[derive(Debug)]
pub struct Dataset<'a> {
    settings: &'a HubSettings,
    /// The requested revision: a branch, tag or commit.
    asked: HubId,
    found: Found,
    #[cfg_attr(not(feature = "hub"), allow(dead_code, reason = "the address of a download"))]
    commit: Commit,
    names: BTreeSet<String>,
    /// Whether `names` are from the hub, and not from the cache.
    at_hub: bool,
}

impl<'a> Dataset<'a> {
    /// Asks the hub for the commit of the revision and its list of files, if built with the feature
    /// `hub` and not `offline`. Otherwise, or if the hub cannot be reached, lists the files in the
    /// cache.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn open(
        id: &HubId,
        settings: &'a HubSettings,
        hooks: &mut Hooks<'_>,
    ) -> Result<Self, HubError> {
        if !settings.offline {
            return Self::ask(id, settings, hooks);
        }
        Self::cached(id, settings)?.map_err(|found| HubError::Offline {
            id: id.to_string(),
            cache: settings.cache.clone(),
            found,
        })
    }

    /// The Parquet conversion of the data set by the hub.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn converted(&self, hooks: &mut Hooks<'_>) -> Result<Self, HubError> {
        Self::open(&self.asked.with_revision(CONVERTED), self.settings, hooks)
    }

    #[cfg(feature = "hub")]
    fn ask(id: &HubId, settings: &'a HubSettings, hooks: &mut Hooks<'_>) -> Result<Self, HubError> {
        use super::client::Client;
        use super::listing::Listing;
        let client = Client::new(id, settings);
        match client.with_retries(hooks, || Listing::ask(&client)) {
            Ok(listing) => {
                let commit = listing.commit.clone();
                let dir = Repository::new(id, &settings.cache).snapshot(&commit);
                let found = Found { dir, id: id.at(&commit), notes: Vec::new() };
                let names = listing.into_names();
                let asked = id.clone();
                Ok(Self { settings, asked, found, commit, names, at_hub: true })
            }
            Err(error @ (HubError::Unreachable { .. } | HubError::Refused { .. })) => {
                let Ok(mut cached) = Self::cached(id, settings)? else {
                    return Err(error);
                };
                let note =
                    format!("{id} from the cache, without asking whether it changed: {error}");
                cached.found.notes.push(note);
                Ok(cached)
            }
            Err(error) => Err(error),
        }
    }

    #[cfg(not(feature = "hub"))]
    fn ask(id: &HubId, settings: &'a HubSettings, _: &mut Hooks<'_>) -> Result<Self, HubError> {
        Self::cached(id, settings)?.map_err(|found| HubError::NotBuilt {
            id: id.to_string(),
            cache: settings.cache.clone(),
            found,
        })
    }

    /// The data set as cached, or what is wrong, as the predicate of a sentence.
    fn cached(id: &HubId, settings: &'a HubSettings) -> Result<Result<Self, String>, HubError> {
        let (dir, commit) = match Repository::new(id, &settings.cache).at(id)? {
            Ok(found) => found,
            Err(Cached::Partial(found)) => return Ok(Err(found)),
            Err(Cached::Whole { .. } | Cached::Absent) => return Ok(Err("is not".into())),
        };
        let mut names = BTreeSet::new();
        names_below(&dir, "", 0, &mut names)?;
        let found = Found { dir, id: id.at(&commit), notes: Vec::new() };
        Ok(Ok(Self { settings, asked: id.clone(), found, commit, names, at_hub: false }))
    }

    /// The data set at its commit, for provenance.
    #[must_use]
    pub fn id(&self) -> &HubId {
        &self.found.id
    }

    /// Paths of its files; only the cached ones if the hub was not asked.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Whether [`Self::names`] is the list of the hub, not only of the cached files.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.at_hub
    }

    /// Notes for the user, such as that the hub could not be reached.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.found.notes
    }

    /// Paths on disk of some of [`Self::names`], downloaded if they are not cached. They are links
    /// into the cache: do not write to them.
    ///
    /// # Errors
    /// [`HubError`].
    pub fn fetch(&self, names: &[String], hooks: &mut Hooks<'_>) -> Result<Vec<PathBuf>, HubError> {
        let known: Vec<String> =
            names.iter().filter(|name| self.names.contains(*name)).cloned().collect();
        if self.at_hub {
            self.download(&known, hooks)?;
        }
        let paths = names.iter().map(|name| {
            let path = self.found.dir.join(name);
            if path.is_file() {
                return Ok(path);
            }
            let (id, cache) = (self.found.id.to_string(), self.settings.cache.clone());
            Err(HubError::Offline { id, cache, found: format!("lacks {name}") })
        });
        paths.collect()
    }

    #[cfg(feature = "hub")]
    fn download(&self, names: &[String], hooks: &mut Hooks<'_>) -> Result<(), HubError> {
        let (id, commit, settings) = (&self.found.id, &self.commit, self.settings);
        super::download::fetch_files(&self.asked, id, commit, names, settings, hooks)
    }

    #[cfg(not(feature = "hub"))]
    #[allow(clippy::unused_self, reason = "the other build needs it")]
    fn download(&self, _: &[String], _: &mut Hooks<'_>) -> Result<(), HubError> {
        Ok(())
    }
}

/// Paths of the files below a folder, relative to it.
fn names_below(
    dir: &Path,
    before: &str,
    depth: usize,
    names: &mut BTreeSet<String>,
) -> Result<(), HubError> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    let failed = |error| HubError::Cache(FileError::read(dir)(error));
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A hub creates no names that are not UTF-8.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{before}{name}");
        let path = entry.path();
        // The hub links files, never folders: a link to a folder may lead in circles.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names_below(&path, &format!("{name}/"), depth + 1, names)?;
        } else if path.is_file() {
            names.insert(name);
        }
    }
    Ok(())
}
