//! Errors of changing a model.

use crate::SizeError;
use linwright_measure::capture::CaptureError;
use linwright_ops::{OpError, Shape, SiteId, SlotSetError};
use linwright_run::StoreError;
use linwright_run::atomic::OutputError;
use linwright_run::memory::NoRoom;
use linwright_run::team::TeamError;
use linwright_train::TrainError;
use std::error::Error;

/// A method that failed on a site.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// A size that is impossible for the shape.
    #[error("size for {} -> {}: {reason}", shape.inp, shape.out)]
    Size {
        /// Shape of the site.
        shape: Shape,
        /// The reason.
        reason: String,
    },
    /// An operator that does not exist for this shape.
    #[error(transparent)]
    Operator(#[from] OpError),
    /// More numbers than there is memory for.
    #[error(transparent)]
    Memory(#[from] NoRoom),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A decomposition failed.
    #[error("{what}: {reason}")]
    Numerics {
        /// The matrix.
        what: &'static str,
        /// The error of the decomposition.
        reason: String,
    },
    /// A problem with another form of captured data than the method needs.
    #[error("the method needs {needed}, the problem has {found}")]
    Evidence {
        /// The needed form.
        needed: &'static str,
        /// The given form.
        found: &'static str,
    },
    /// Inconsistent parts of a target.
    #[error("fit of {} -> {}: {found} {what}, expected {expected}", shape.inp, shape.out)]
    Side {
        /// Shape of the target.
        shape: Shape,
        /// Name of the counted items.
        what: &'static str,
        /// Actual number.
        found: usize,
        /// Expected number.
        expected: usize,
    },
    /// A non-finite number.
    #[error("{what} of {of} is not finite")]
    NonFinite {
        /// The number.
        what: String,
        /// The data that contain it.
        of: String,
    },
    /// Too few samples.
    #[error("{found} calibration rows (tokens, places of images), at least {needed} are needed")]
    TooFewSamples {
        /// Number of samples.
        found: usize,
        /// Number of samples needed.
        needed: usize,
    },
}

/// A model that could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// A site could not be fitted.
    #[error("{site}: {source}")]
    Fit {
        /// The site.
        site: SiteId,
        /// The cause.
        source: FitError,
    },
    /// An operator could not be moved out of memory.
    #[error("the operator of {site} cannot be moved out of memory: {source}")]
    Shelf {
        /// The site.
        site: SiteId,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Activations could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Another member of the team is gone.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// The network could not run.
    #[error(transparent)]
    Network(Box<dyn Error + Send + Sync>),
    /// A set of slots that the network does not have.
    #[error(transparent)]
    Slots(#[from] SlotSetError),
    /// A part of a weight that holds a single projection, or others.
    #[error("{site} has no part {part}; it is no fused weight that holds one")]
    NoPart {
        /// The slot.
        site: SiteId,
        /// The part.
        part: &'static str,
    },
    /// Two edits of a slot, of which one cuts a part and the other does not keep it.
    #[error(
        "{site} is in edits {first} and {second}, which cut different parts of it; cut one, and \
         the other in the model that comes out"
    )]
    TwoParts {
        /// The slot.
        site: SiteId,
        /// Number of the first edit, from one.
        first: usize,
        /// Number of the second edit.
        second: usize,
    },
    /// A size that a method does not have.
    #[error("edit {edit}: {source}")]
    Size {
        /// Number of the edit, from one.
        edit: usize,
        /// What is wrong with it.
        source: SizeError,
    },
    /// Two edits of the same set of slots.
    #[error(
        "edits {first} and {second} select the same slots, so the first would do nothing; remove one of them"
    )]
    SameSites {
        /// Number of one edit, from one.
        first: usize,
        /// Number of the other.
        second: usize,
    },
    /// A slot that one edit heals and another one selects, too.
    #[error(
        "{site} is in edits {first} and {second}, one of which heals it; a slot that is healed cannot be replaced"
    )]
    Healed {
        /// The slot.
        site: SiteId,
        /// Number of one edit, from one.
        first: usize,
        /// Number of the other.
        second: usize,
    },
    /// A method that is fitted to text, without text.
    #[error("{site}: method {method} is fitted to calibration text, and none is given")]
    NoText {
        /// The first such site.
        site: SiteId,
        /// Label of the method.
        method: String,
    },
    /// Invalid options of a method.
    #[error("method {method} {reason}")]
    Options {
        /// Label of the method.
        method: String,
        /// The option, and what is wrong with it.
        reason: String,
    },
    /// The store of finished pieces cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fit that cannot be stored.
    #[error("the fit of {site} cannot be stored: {reason}")]
    Unstorable {
        /// The site.
        site: SiteId,
        /// The reason.
        reason: String,
    },
    /// Recovery training failed.
    #[error(transparent)]
    Recovery(TrainError),
    /// An impossible recovery.
    #[error("recovery: {reason}")]
    NoRecovery {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Writing failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Cancelled by the user.
    #[error("interrupted; the same command resumes")]
    Interrupted,
}

impl CompressError {
    /// Whether a repetition fails in the same way: false for errors of files and for cancellation.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let outside = |error: &TrainError| {
            matches!(
                error,
                TrainError::Interrupted { .. }
                    | TrainError::Io { .. }
                    | TrainError::Output(_)
                    | TrainError::Checkpoint { .. }
                    | TrainError::Fingerprint { .. }
            )
        };
        if let Self::Fit { source: FitError::Train(error), .. } | Self::Recovery(error) = self {
            return !outside(error);
        }
        !matches!(
            self,
            Self::Interrupted
                | Self::Output(_)
                | Self::Store(_)
                | Self::Shelf { .. }
                | Self::Capture(
                    CaptureError::Interrupted | CaptureError::Io { .. } | CaptureError::Team(_),
                )
                | Self::Team(_)
        )
    }

    /// Whether the user cancelled.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Capture(CaptureError::Interrupted)
                | Self::Fit { source: FitError::Train(TrainError::Interrupted { .. }), .. }
                | Self::Recovery(TrainError::Interrupted { .. })
        )
    }
}
