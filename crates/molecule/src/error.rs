//! Errors of molecules and their potentials.

use linwright_files::FileError;

/// A structure, a model or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MoleculeError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A setting that cannot be used.
    #[error("{name}: {found}; expected {expected}")]
    Setting {
        /// Which one.
        name: &'static str,
        /// What was found.
        found: String,
        /// What would fit.
        expected: String,
    },
    /// A simulation or relaxation whose numbers are no longer finite.
    #[error(
        "step {step}: positions or velocities are not finite; use a smaller time step, or relax the structure first"
    )]
    Diverged {
        /// Number of the step.
        step: u64,
    },
    /// The user stopped it.
    #[error("interrupted after step {step}")]
    Interrupted {
        /// Steps that were made.
        step: u64,
    },
}
