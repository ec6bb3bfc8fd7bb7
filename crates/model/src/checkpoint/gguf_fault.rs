//! Errors of GGUF files. They are separate from the reader, since the error of checkpoints contains
//! them and the reader returns that error.

use linwright_files::gguf::ContainerFault;
use linwright_run::shown;

/// An error in the bytes of a GGUF file, or in the model that it describes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufFault {
    /// The container.
    #[error(transparent)]
    Container(#[from] ContainerFault),
    /// A missing key that the model needs.
    #[error("key {key} is missing, expected {expected}; the file does not hold a whole model", key = shown(key))]
    MissingKey {
        /// The key.
        key: String,
        /// Its expected content.
        expected: &'static str,
    },
    /// A file that is not a whole model.
    #[error("{found}; {advice}")]
    NotAModel {
        /// Description of the file.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// An unknown architecture.
    #[error("general.architecture is \"{found}\", known are {known}", found = shown(found))]
    Architecture {
        /// Its name.
        found: String,
        /// The known names.
        known: String,
    },
    /// A tensor that the architecture does not have.
    #[error("tensor {name} is not part of architecture {architecture}: {reason}", name = shown(name))]
    UnknownTensor {
        /// The tensor.
        name: String,
        /// `general.architecture`.
        architecture: &'static str,
        /// What that means.
        reason: &'static str,
    },
    /// A tensor of a wrong shape.
    #[error("tensor {name} has shape {found:?}, expected {expected}", name = shown(name))]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape, row-major.
        found: Vec<usize>,
        /// The expected shape.
        expected: String,
    },
    /// A storage type that is known but not supported.
    #[error(
        "tensor {name} is stored as {dtype}, which is not supported; supported are {known}: convert the original model to one of these", name = shown(name)
    )]
    UnreadType {
        /// The tensor.
        name: String,
        /// The type.
        dtype: &'static str,
        /// The supported types.
        known: String,
    },
    /// Rotary factors that no configuration expresses.
    #[error("tensor {name} holds rotary factors {reason}")]
    RotaryFactors {
        /// The tensor.
        name: &'static str,
        /// The reason.
        reason: String,
    },
    /// A tokenizer that cannot be rebuilt. The weights are usable without it.
    #[error("the tokenizer cannot be rebuilt: {reason}")]
    Tokenizer {
        /// Why not.
        reason: String,
    },
}

/// The reason why a model cannot be written as GGUF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} {reason}")]
pub struct NoGguf {
    /// Field, file or tensor.
    pub place: String,
    /// The reason, and supported values.
    pub reason: String,
}

impl GgufFault {
    /// Whether the model has an unknown architecture.
    pub(super) fn is_unknown_architecture(&self) -> bool {
        matches!(self, Self::Architecture { .. })
    }

    /// Name of the variant, and of the key if there is one.
    pub(super) fn kind(&self) -> String {
        let debug = format!("{self:?}");
        let variant = debug.split(' ').next().unwrap_or_default();
        match self {
            Self::Container(fault) => fault.kind(),
            Self::MissingKey { key, .. } => format!("{variant} {key}"),
            Self::Tokenizer { reason } => {
                let plain =
                    |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
                let words = reason.split(' ').filter(plain);
                format!("{variant} {}", words.take(6).collect::<Vec<_>>().join(" "))
            }
            _ => variant.to_owned(),
        }
    }
}
