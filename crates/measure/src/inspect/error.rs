//! What can stop an inspection.

use linwright_files::FileError;
use linwright_run::atomic::OutputError;
use linwright_run::shown;

/// An inspection that could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A weight file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cache of spectra cannot be written.
    #[error("the cache of spectra: {0}")]
    Cache(#[source] OutputError),
    /// A pattern that is none.
    #[error("the pattern \"{pattern}\" is not valid: {reason}", pattern = shown(pattern))]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong.
        reason: String,
    },
    /// No tensor is left after all filters.
    #[error("none of {tensors} tensors has {wanted}; the first is called {first}", first = shown(first))]
    NothingMatches {
        /// Tensors there are.
        tensors: usize,
        /// What was asked for.
        wanted: String,
        /// The first of them, as an example of a name.
        first: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
