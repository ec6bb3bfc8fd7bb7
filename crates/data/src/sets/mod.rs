//! Data sets by their names on the Hugging Face hub, such as `allenai/ai2_arc`.
//!
//! A data set is searched for in the cache of the library `datasets`, as Arrow files; then on the
//! hub, or in the hub cache, through [`linwright_files::hub`]. The README or file names determine
//! the files of a split, as in `datasets`. Loading scripts of data sets are never run: the hub's
//! conversion to Parquet is used.

mod card;
mod files;
mod glob;
mod prepared;

pub use glob::name_matches;

use super::DataError;
use linwright_files::hub::{Dataset, Hooks, HubError, HubId, HubSettings, datasets_cache, is_true};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// File name of the description.
const CARD: &str = "README.md";

/// A split of a data set.
#[derive(Clone, Copy, Debug)]
pub struct SetQuery<'a> {
    /// Name of the data set.
    pub set: &'a str,
    /// Variant.
    pub config: Option<&'a str>,
    /// Split.
    pub split: &'a str,
    /// Branch, tag or commit.
    pub revision: Option<&'a str>,
}

/// Data files of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFiles {
    /// Paths, in order.
    pub files: Vec<PathBuf>,
    /// Origin: `owner/name@commit`.
    pub origin: String,
    /// Total number of rows, if known.
    pub rows: Option<u64>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// An unusable data set.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// An unreadable file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Neither in a cache nor on the hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// No such variant or split, or a damaged data set.
    #[error("the data set {origin}: {reason}")]
    Unfit {
        /// Name, with the commit if known.
        origin: String,
        /// What is wrong.
        reason: String,
    },
}

/// A source of data sets.
pub trait SetSource: fmt::Debug {
    /// Data files of a split; `None` if the query is not the name of a data set.
    ///
    /// # Errors
    /// [`SetError`].
    fn find(&self, query: &SetQuery<'_>) -> Result<Option<SetFiles>, SetError>;
}

/// Looks up an environment variable.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// Data sets in the caches and on the hub, by environment variables: `HF_DATASETS_CACHE` and those
/// of [`HubSettings::from_environment`], with `HF_DATASETS_OFFLINE` besides `HF_HUB_OFFLINE`. The
/// variables are read on the first query.
pub struct Sets<'a> {
    variable: &'a Variable<'a>,
    hooks: RefCell<Hooks<'a>>,
}

impl fmt::Debug for Sets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sets").finish_non_exhaustive()
    }
}

impl<'a> Sets<'a> {
    /// Data sets by these environment variables.
    #[must_use]
    pub fn new(variable: &'a Variable<'a>, hooks: Hooks<'a>) -> Self {
        Self { variable, hooks: RefCell::new(hooks) }
    }

    fn on_hub(&self, id: &HubId, query: &SetQuery<'_>) -> Result<SetFiles, SetError> {
        let mut settings = HubSettings::from_environment(self.variable)?;
        let offline = (self.variable)("HF_DATASETS_OFFLINE");
        settings.offline |= offline.is_some_and(|value| is_true(&value));
        let mut hooks = self.hooks.borrow_mut();
        (hooks.step)(&format!("looking for the data set {id}"));
        let set = Dataset::open(id, &settings, &mut hooks)?;
        let unfit = |set: &Dataset<'_>, reason: String| {
            let here = if set.is_whole() { "" } else { " (only its cached files were searched)" };
            SetError::Unfit { origin: set.id().to_string(), reason: format!("{reason}{here}") }
        };
        let card = match set.names().contains(CARD) {
            false => None,
            true => {
                let paths = set.fetch(&[CARD.to_owned()], &mut hooks)?;
                paths.first().map(|path| read_card(path)).transpose()?
            }
        };
        let configs = card.as_deref().map(card::configs).transpose();
        let configs = configs.map_err(|reason| unfit(&set, reason))?.unwrap_or_default();
        let own = files::of_split(set.names(), &configs, query);
        let (set, names) = match own {
            Ok(Some(names)) => (set, names),
            Err(reason) => return Err(unfit(&set, reason)),
            Ok(None) if query.revision.is_some() => {
                return Err(unfit(&set, "it has no data files at this revision".into()));
            }
            Ok(None) => {
                let converted = set.converted(&mut hooks)?;
                let names = files::of_converted(converted.names(), query)
                    .map_err(|reason| unfit(&converted, reason))?;
                (converted, names)
            }
        };
        Ok(SetFiles {
            files: set.fetch(&names, &mut hooks)?,
            origin: set.id().to_string(),
            rows: None,
            notes: set.notes().to_vec(),
        })
    }
}

impl SetSource for Sets<'_> {
    fn find(&self, query: &SetQuery<'_>) -> Result<Option<SetFiles>, SetError> {
        let Some(id) = HubId::parse_dataset(query.set, query.revision)? else { return Ok(None) };
        if let Some(cache) = datasets_cache(self.variable)
            && let Some(found) = prepared::find(&cache, &id, query)?
        {
            return Ok(Some(found));
        }
        self.on_hub(&id, query).map(Some)
    }
}

fn read_card(path: &Path) -> Result<String, DataError> {
    let bytes = super::file::read(path)?;
    super::file::decode(path, &bytes).map(str::to_owned)
}

#[cfg(test)]
mod tests;
