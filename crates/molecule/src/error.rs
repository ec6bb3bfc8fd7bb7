//! Errors of molecules and their potentials.

use linwright_files::FileError;

/// A structure, a model or a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MoleculeError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}
