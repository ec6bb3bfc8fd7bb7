//! A network that is studied, and errors of it.

use crate::{ImageStudyError, MoleculeStudyError};
use linwright_compress::CompressError;
use linwright_evaluate::TaskResult;
use linwright_ops::{Examples, Network};
use linwright_run::{Monitor, StoreError};

/// A network that is studied: what fits to it read, and how edits of it are scored.
pub trait Trial {
    /// The kind of network.
    type Network: Network;

    /// The original network.
    fn network(&self) -> &Self::Network;

    /// Hash of its weights.
    fn hash(&self) -> &str;

    /// Hash of the data from which examples are drawn.
    fn calibration_sha256(&self) -> &str;

    /// The examples that fits of a seed read.
    ///
    /// # Errors
    /// [`StudyError`] if the data do not suffice.
    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, StudyError>;

    /// Scores a network on all tasks, with the scores of single items as samples.
    ///
    /// # Errors
    /// [`StudyError`] for numbers that are not finite, and if cancelled.
    fn scores(
        &self,
        network: &Self::Network,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, StudyError>;
}

/// Examples of the network of a trial.
pub type ExamplesOf<T> = dyn Examples<<<T as Trial>::Network as Network>::Input>;

/// A trial that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An error in editing.
    #[error(transparent)]
    Compress(#[from] CompressError),
    /// Unusable images, or a network that does not suit them.
    #[error(transparent)]
    Images(Box<ImageStudyError>),
    /// Unusable structures, or a potential that does not suit them.
    #[error(transparent)]
    Molecules(Box<MoleculeStudyError>),
    /// Finished pieces that cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StudyError {
    /// Whether a repetition fails in the same way: false for errors of files and for cancellation.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Compress(error) => error.is_final(),
            Self::Images(_) | Self::Molecules(_) => true,
            Self::Store(_) => false,
        }
    }
}

impl From<MoleculeStudyError> for StudyError {
    fn from(error: MoleculeStudyError) -> Self {
        Self::Molecules(Box::new(error))
    }
}

impl From<ImageStudyError> for StudyError {
    fn from(error: ImageStudyError) -> Self {
        Self::Images(Box::new(error))
    }
}
