//! Errors of exports.

use super::super::error::CheckpointError;
use linwright_files::FileError;
use linwright_ops::SiteId;
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::path::PathBuf;

/// A model that cannot be exported in the requested way.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// An error of reading or writing the model.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A form that cannot hold this model.
    #[error("form {form}: {reason}")]
    Form {
        /// The form.
        form: &'static str,
        /// The reason, and a form that works.
        reason: String,
    },
    /// A base that does not match the model.
    #[error("base {}: {reason}", path.display())]
    Base {
        /// The base.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// Sites whose difference from the base has a too high rank.
    #[error(
        "{count} sites differ from the base by matrices that are not of low rank: {listed}; give a rank or a share of energy to truncate them"
    )]
    FullRank {
        /// Number of sites.
        count: usize,
        /// Some of them with their ranks.
        listed: String,
    },
    /// A singular value decomposition that did not converge.
    #[error("site {site}: the singular values of the difference from the base do not converge")]
    Decomposition {
        /// The site.
        site: SiteId,
    },
    /// An option out of range.
    #[error("{option} is {found}, expected {expected}", found = shown(found))]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// An adapter that, loaded back, differs from the exact difference.
    #[error(
        "{}: loaded back, site {site} is off by {found:.3e} of the weight, allowed are {allowed:.3e}; nothing was kept", path.display()
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
