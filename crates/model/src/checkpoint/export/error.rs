//! What can be wrong with an export.

use super::super::error::CheckpointError;
use linwright_files::FileError;
use linwright_ops::SiteId;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::path::PathBuf;

/// A model that cannot be exported as asked.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The model cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A form that cannot hold this model.
    #[error("form {form}: {reason}")]
    Form {
        /// The form.
        form: &'static str,
        /// Why, and what would do.
        reason: String,
    },
    /// A base that the model was not made from.
    #[error("base {}: {reason}", path.display())]
    Base {
        /// The base.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Sites that differ from the base by matrices of too high a rank.
    #[error(
        "{count} sites differ from the base by matrices that are not of low rank: {listed}; give a rank or a share of energy to cut them"
    )]
    FullRank {
        /// Number of sites.
        count: usize,
        /// Some of them with their ranks.
        listed: String,
    },
    /// A decomposition that failed.
    #[error("site {site}: the singular values of the difference from the base do not converge")]
    Decomposition {
        /// The site.
        site: SiteId,
    },
    /// An option out of its range.
    #[error("{option} is {found}, expected {expected}", found = shown(found))]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// An adapter that, read back, is not the difference that was to be stored.
    #[error(
        "{}: read back, site {site} is off by {found:.3e} of the weight, allowed are {allowed:.3e}; nothing was kept", path.display()
    )]
    Differs {
        /// The directory.
        path: PathBuf,
        /// The site.
        site: SiteId,
        /// Largest share.
        found: f64,
        /// Its bound.
        allowed: f64,
    },
}

impl From<OutputError> for ExportError {
    fn from(error: OutputError) -> Self {
        Self::Checkpoint(error.into())
    }
}

impl From<FileError> for ExportError {
    fn from(error: FileError) -> Self {
        CheckpointError::from(error).into()
    }
}
