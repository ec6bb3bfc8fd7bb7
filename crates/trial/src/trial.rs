//! A network on which methods are compared, and errors of it.

use crate::{ImageTrialError, MoleculeTrialError};
use linwright_compress::CompressError;
use linwright_evaluate::TaskResult;
use linwright_ops::{Examples, Network};
use linwright_run::{Monitor, StoreError};

/// A network on which methods are compared: what fits to it read, and how edits of it are scored.
pub trait Trial {
    /// The kind of network.
    type Network: Network;

    /// The original network.
    fn network(&self) -> &Self::Network;

    /// Hash of its weights.
    fn hash(&self) -> &str;

    /// Hash of the data from which examples are drawn.
    fn calibration_sha256(&self) -> &str;

    /// Hash of the data on which networks are scored.
    fn scored_sha256(&self) -> &str;

    /// Notes on the data, for the report.
    fn notes(&self) -> &[String];

    /// The examples that fits of a seed read.
    ///
    /// # Errors
    /// [`TrialError`] if the data do not suffice.
    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, TrialError>;

    /// Scores a network on all tasks, with the scores of single items as samples.
    ///
    /// # Errors
    /// [`TrialError`] for numbers that are not finite, and if cancelled.
    fn scores(
        &self,
        network: &Self::Network,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, TrialError>;
}

/// Examples for validation, of a number of them: at least one, and at least one is left.
pub(crate) fn for_validation(share: f64, examples: usize) -> usize {
    let held_out = (examples as f64 * share).round() as usize;
    held_out.clamp(1, examples.saturating_sub(1).max(1))
}

/// Examples of the network of a trial.
pub type ExamplesOf<T> = dyn Examples<<<T as Trial>::Network as Network>::Input>;

/// A trial that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// An error in editing.
    #[error(transparent)]
    Compress(#[from] CompressError),
    /// Unusable images, or a network that does not suit them.
    #[error(transparent)]
    Images(Box<ImageTrialError>),
    /// Unusable structures, or a potential that does not suit them.
    #[error(transparent)]
    Molecules(Box<MoleculeTrialError>),
    /// Finished pieces that cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TrialError {
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

impl From<MoleculeTrialError> for TrialError {
    fn from(error: MoleculeTrialError) -> Self {
        Self::Molecules(Box::new(error))
    }
}

impl From<ImageTrialError> for TrialError {
    fn from(error: ImageTrialError) -> Self {
        Self::Images(Box::new(error))
    }
}
