//! Errors of changing language models.

use crate::PruneError;
use linwright_compress::CompressError;
use linwright_evaluate::EvaluationError;
use linwright_measure::capture::CaptureError;
use linwright_model::ModelError;
use linwright_ops::{SiteId, SlotSetError};
use linwright_run::team::TeamError;
use linwright_run::{RunError, StoreError};

/// A language model that could not be changed, or judged.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// An error in editing.
    #[error(transparent)]
    Compress(#[from] CompressError),
    /// The model cannot be pruned as asked.
    #[error(transparent)]
    Prune(#[from] PruneError),
    /// A slot in two places of a composition.
    #[error(
        "{site} is cut twice; cuts apply to the original weights, so name each slot, or one part of \
         it, once"
    )]
    CutTwice {
        /// The slot.
        site: SiteId,
    },
    /// An invalid sweep.
    #[error("sweep: {reason}")]
    Sweep {
        /// What is wrong.
        reason: String,
    },
    /// An impossible search of ranks.
    #[error("search: {reason}")]
    Search {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// An error in the evaluation of a model.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// An unusable run directory.
    #[error(transparent)]
    Run(#[from] RunError),
}

macro_rules! through_compress {
    ($($error:ty),*) => {
        $(impl From<$error> for LmError {
            fn from(error: $error) -> Self {
                Self::Compress(error.into())
            }
        })*
    };
}

through_compress!(CaptureError, SlotSetError, StoreError, TeamError);

impl From<ModelError> for LmError {
    fn from(error: ModelError) -> Self {
        Self::Compress(CompressError::Network(Box::new(error)))
    }
}

impl LmError {
    /// Whether a repetition fails in the same way: false for errors of files and for cancellation.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Compress(error) => error.is_final(),
            Self::Evaluation(error) => error.is_final(),
            Self::Run(_) => false,
            Self::Prune(_) | Self::CutTwice { .. } | Self::Sweep { .. } | Self::Search { .. } => {
                true
            }
        }
    }

    /// Whether the user cancelled.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Compress(error) => error.is_interruption(),
            Self::Evaluation(error) => matches!(error, EvaluationError::Interrupted { .. }),
            Self::Prune(_)
            | Self::CutTwice { .. }
            | Self::Sweep { .. }
            | Self::Search { .. }
            | Self::Run(_) => false,
        }
    }
}
