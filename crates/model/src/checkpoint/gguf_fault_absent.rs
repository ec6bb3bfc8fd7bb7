//! Errors of GGUF files in a build without the feature `gguf`: they name the feature.

/// The reason why a GGUF file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufFault {
    /// The reader is not built in.
    #[error(
        "this build does not read GGUF files; build with --features gguf, which is on by default"
    )]
    NotBuilt,
}

/// The reason why a GGUF file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGguf {
    /// The writer is not built in.
    #[error(
        "this build does not write GGUF files; build with --features gguf, which is on by default"
    )]
    NotBuilt,
}

impl GgufFault {
    /// Whether the model has an unknown architecture.
    pub(super) fn is_unknown_architecture(&self) -> bool {
        match self {
            Self::NotBuilt => false,
        }
    }
}
