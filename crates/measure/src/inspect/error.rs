//! Errors of an inspection.

use linwright_files::FileError;
use linwright_ops::PatternError;
use linwright_run::{StoreError, shown};

/// An inspection that cannot finish.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A weight file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store of spectra cannot be read or written.
    #[error("store of spectra: {0}")]
    Store(#[from] StoreError),
    /// An invalid pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// No tensor passes all filters.
    #[error("none of {tensors} tensors has {wanted}; the first is called {first}", first = shown(first))]
    NothingMatches {
        /// Number of tensors.
        tensors: usize,
        /// Description of the filters.
        wanted: String,
        /// Name of the first tensor, as an example.
        first: String,
    },
    /// Cancelled by the caller.
    #[error("interrupted")]
    Interrupted,
}
