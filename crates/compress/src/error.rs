//! What can go wrong when a model is changed.

use linwright_evaluate::EvaluationError;
use linwright_measure::capture::CaptureError;
use linwright_model::ModelError;
use linwright_ops::{OpError, Shape, SiteId};
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use linwright_train::TrainError;
use std::path::PathBuf;

/// A method could not fit a site.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The budget does not suit the shape.
    #[error("budget for {} -> {}: {reason}", shape.inp, shape.out)]
    Budget {
        /// The site's shape.
        shape: Shape,
        /// What stands in the way.
        reason: String,
    },
    /// The operator does not exist for this shape.
    #[error(transparent)]
    Operator(#[from] OpError),
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A decomposition failed.
    #[error("{what}: {reason}")]
    Numerics {
        /// Which matrix.
        what: &'static str,
        /// The decomposition's word.
        reason: String,
    },
    /// The problem holds another kind of evidence than the method asked for.
    #[error("the method needs {needed}, the problem holds {found}")]
    Evidence {
        /// What the method asked for.
        needed: &'static str,
        /// What it was given.
        found: &'static str,
    },
    /// Parts of a target that do not belong together.
    #[error("fit of {} -> {}: {found} {what}, expected {expected}", shape.inp, shape.out)]
    Side {
        /// The target's shape.
        shape: Shape,
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A number that is not finite.
    #[error("{what} of {stage} holds a number that is not finite")]
    NonFinite {
        /// The numbers.
        what: String,
        /// Where they stand.
        stage: String,
    },
    /// There are not enough samples.
    #[error("{found} calibration tokens, at least {needed} are needed")]
    TooFewSamples {
        /// Samples there are.
        found: usize,
        /// Samples needed.
        needed: usize,
    },
}

/// A model could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// A site could not be fitted.
    #[error("{site}: {source}")]
    Fit {
        /// The site.
        site: SiteId,
        /// Why.
        source: FitError,
    },
    /// Activations could not be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The model could not run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A layer that the model does not have.
    #[error("layer {layer} is out of range; the model has layers 0 to {last}")]
    Layer {
        /// The layer asked for.
        layer: usize,
        /// The last layer there is.
        last: usize,
    },
    /// No slot has one of the roles asked for.
    #[error("layer {layer} has no slot of role {role}; it has {has}")]
    Role {
        /// The layer.
        layer: usize,
        /// The role.
        role: String,
        /// The roles of its slots.
        has: String,
    },
    /// A set of slots that is empty.
    #[error("no slot of the model is in {wanted}; its layers have {names} (roles: {roles})")]
    Slots {
        /// What was asked for.
        wanted: String,
        /// The paper's names that the model has something for.
        names: String,
        /// The roles of its slots.
        roles: String,
    },
    /// A slot that two edits name.
    #[error("{site} is cut twice; edits are made of the original weights, so name each slot once")]
    CutTwice {
        /// The slot.
        site: SiteId,
    },
    /// A pattern of names that is not one.
    #[error("{reason}")]
    Pattern {
        /// What is wrong with it.
        reason: String,
    },
    /// A sweep that cannot be made.
    #[error("sweep: {reason}")]
    Sweep {
        /// What is wrong.
        reason: String,
    },
    /// A model could not be judged.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// Roles of one edit that read different inputs.
    #[error(
        "targets {first} and {second} read different inputs; put them into tables of their own", first = shown(first), second = shown(second)
    )]
    Inputs {
        /// One role.
        first: String,
        /// Another.
        second: String,
    },
    /// A role that stands twice in one edit.
    #[error("targets name {role} twice")]
    Twice {
        /// The role.
        role: String,
    },
    /// Options of a method that make no sense.
    #[error("method {method} {reason}")]
    Options {
        /// The method's label.
        method: String,
        /// The option, and what is wrong with it.
        reason: String,
    },
    /// A stored fit cannot be used.
    #[error("{path} is not a usable fit: {reason}; remove it and run again")]
    Store {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Reading or writing failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Writing failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The user asked to stop.
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

impl CompressError {
    /// Whether the same work fails in the same way again: no fault of files, and no wish of the
    /// user.
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
        match self {
            Self::Fit { source: FitError::Train(error), .. } => !outside(error),
            Self::Interrupted
            | Self::Io { .. }
            | Self::Output(_)
            | Self::Store { .. }
            | Self::Capture(CaptureError::Interrupted | CaptureError::Io { .. })
            | Self::Evaluation(_) => false,
            _ => true,
        }
    }

    /// Whether the user asked to stop.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted
                | Self::Capture(CaptureError::Interrupted)
                | Self::Evaluation(EvaluationError::Interrupted { .. })
                | Self::Fit { source: FitError::Train(TrainError::Interrupted { .. }), .. }
        )
    }
}
