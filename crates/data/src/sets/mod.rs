//! Data sets by the names that they have on the Hugging Face hub, such as `allenai/ai2_arc`.
//!
//! A set is looked for in the cache of the library `datasets`, where it lies as Arrow files; then
//! on the hub, or in the cache of its files, through [`linwright_files::hub`]. Which files are a
//! split is said by the set's README or by their names, as `datasets` has it. A set that is a
//! program is never run: the hub's conversion of it to Parquet is taken.

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

/// The description of a set.
const CARD: &str = "README.md";

/// Which rows are wanted.
#[derive(Clone, Copy, Debug)]
pub struct SetQuery<'a> {
    /// Name of the set.
    pub set: &'a str,
    /// Which of its variants.
    pub config: Option<&'a str>,
    /// Split.
    pub split: &'a str,
    /// Branch, tag or commit.
    pub revision: Option<&'a str>,
}

/// The files of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFiles {
    /// In their order.
    pub files: Vec<PathBuf>,
    /// Where they are from: `owner/name@commit`.
    pub origin: String,
    /// Rows in all of them, where that is known.
    pub rows: Option<u64>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// A data set that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A file cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// It is neither in a cache nor on the hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// It has no such variant or split, or is damaged.
    #[error("the data set {origin}: {reason}")]
    Unfit {
        /// Its name, and the commit where it is known.
        origin: String,
        /// What is wrong.
        reason: String,
    },
}

/// Finds files of data sets.
pub trait SetSource: fmt::Debug {
    /// The files of a split; none if the query has no name of a set.
    ///
    /// # Errors
    /// [`SetError`].
    fn find(&self, query: &SetQuery<'_>) -> Result<Option<SetFiles>, SetError>;
}

/// Gives a variable of the environment.
pub type Variable<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// Where data sets are looked for, by the environment: `HF_DATASETS_CACHE` and what
/// [`HubSettings::from_environment`] reads, with `HF_DATASETS_OFFLINE` besides `HF_HUB_OFFLINE`.
/// Nothing of it is read before a set is asked for.
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
    /// As the environment says.
    #[must_use]
    pub fn new(variable: &'a Variable<'a>, hooks: Hooks<'a>) -> Self {
        Self { variable, hooks: RefCell::new(hooks) }
    }

    fn on_hub(&self, id: &HubId, query: &SetQuery<'_>) -> Result<SetFiles, SetError> {
        let mut settings = HubSettings::from_environment(self.variable)?;
        let offline = (self.variable)("HF_DATASETS_OFFLINE");
        settings.offline |= offline.is_some_and(|value| is_true(&value));
        let mut hooks = self.hooks.borrow_mut();
        (hooks.stage)(&format!("looking for the data set {id}"));
        let set = Dataset::open(id, &settings, &mut hooks)?;
        let unfit = |set: &Dataset<'_>, reason: String| {
            let here = if set.is_whole() { "" } else { " (only its cached files were looked at)" };
            SetError::Unfit { origin: set.id().to_string(), reason: format!("{reason}{here}") }
        };
        let card = match set.names().contains(CARD) {
            false => None,
            true => {
                let paths = set.bring(&[CARD.to_owned()], &mut hooks)?;
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
                return Err(unfit(&set, "it has no files of rows at this revision".into()));
            }
            Ok(None) => {
                let converted = set.converted(&mut hooks)?;
                let names = files::of_converted(converted.names(), query)
                    .map_err(|reason| unfit(&converted, reason))?;
                (converted, names)
            }
        };
        Ok(SetFiles {
            files: set.bring(&names, &mut hooks)?,
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
