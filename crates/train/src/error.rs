//! Errors of training.

use linwright_run::atomic::OutputError;
use std::path::PathBuf;

/// A training run that stopped early.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A non-finite loss, gradient or parameter.
    #[error("{what} of {name} is not finite at step {step}; lower the rate or clip the gradient")]
    NonFinite {
        /// The run.
        name: String,
        /// Which number.
        what: &'static str,
        /// Step, from zero.
        step: u64,
    },
    /// Divergence: the loss grew far above its initial value.
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
    /// Cancelled by the user; the same command continues from the checkpoint, if there is one.
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
        /// Fingerprint of this run.
        expected: String,
        /// Fingerprint in the file.
        found: String,
    },
    /// A damaged checkpoint.
    #[error("{path} is not a usable checkpoint: {reason}; remove it to start again")]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An I/O error of writing.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// An I/O error of reading.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An error of the step closure.
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
