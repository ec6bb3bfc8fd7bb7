//! Errors of molecules and their potentials.

use linwright_files::FileError;

/// A structure, a model or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MoleculeError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Hyper-parameters that are missing, of another type or not known.
    #[error("hyper-parameters of a TensorNet: {source}; expected the names and values of torchmd-net")]
    Hyperparameters {
        /// What is wrong with them.
        source: serde_json::Error,
    },
    /// A hyper-parameter out of range.
    #[error("hyper-parameter {option} is {found}, expected {expected}")]
    Architecture {
        /// Its name.
        option: &'static str,
        /// What was found.
        found: String,
        /// What would be allowed.
        expected: String,
    },
    /// A tensor of a model that is missing or has another shape.
    #[error("tensor {name}: found {found}, expected {expected}; was the model saved with these hyper-parameters?")]
    Tensor {
        /// Its name.
        name: String,
        /// What was found.
        found: String,
        /// What the architecture needs.
        expected: String,
    },
}
