//! What can go wrong in training.

use linwright_run::atomic::OutputError;
use std::path::PathBuf;

/// A run that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Loss, gradient or parameter became infinite or NaN.
    #[error("{what} of {name} is not finite at step {step}; lower the rate or clip the gradient")]
    NonFinite {
        /// The run.
        name: String,
        /// Which number.
        what: &'static str,
        /// Step, from zero.
        step: u64,
    },
    /// The loss grew far above where it began.
    #[error(
        "training of {name} diverges: loss {loss:.4e} at step {step}, {first:.4e} at the start; lower the rate"
    )]
    Diverged {
        /// The run.
        name: String,
        /// Step, from zero.
        step: u64,
        /// Validation loss now.
        loss: f64,
        /// Validation loss before the first step.
        first: f64,
    },
    /// The user asked to stop; the checkpoint, where there is one, lets the same command go on.
    #[error("interrupted at step {step} of {name}")]
    Interrupted {
        /// The run.
        name: String,
        /// Steps done.
        step: u64,
    },
    /// A checkpoint of another run.
    #[error(
        "{path} was written by another run (fingerprint {found}, this one is {expected}); remove it or choose another directory"
    )]
    Fingerprint {
        /// The checkpoint.
        path: PathBuf,
        /// Of this run.
        expected: String,
        /// In the file.
        found: String,
    },
    /// A checkpoint that cannot be used.
    #[error("{path} is not a usable checkpoint: {reason}; remove it to start again")]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Writing failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Reading failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The step closure failed.
    #[error("{name}, step {step}: {source}")]
    Step {
        /// The run.
        name: String,
        /// Step, from zero.
        step: u64,
        /// The closure's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
