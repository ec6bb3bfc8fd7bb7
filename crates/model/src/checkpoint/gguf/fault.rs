//! What can be wrong with a GGUF file.

use linwright_files::gguf::ContainerFault;
use linwright_run::shown;

/// What is wrong with a GGUF file: its bytes, or the model that they describe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufFault {
    /// The container.
    #[error(transparent)]
    Container(#[from] ContainerFault),
    /// A key that the model needs.
    #[error("key {key} is missing, expected {expected}; the file holds no whole model", key = shown(key))]
    MissingKey {
        /// The key.
        key: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// A file for something other than one whole model.
    #[error("{found}; {advice}")]
    NotAModel {
        /// What the file is.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// An architecture that is not known here.
    #[error("general.architecture is \"{found}\", known are {known}", found = shown(found))]
    Architecture {
        /// Its name.
        found: String,
        /// The names that would do.
        known: String,
    },
    /// A tensor that the architecture has no place for.
    #[error("tensor {name} has no place in a model of architecture {architecture}: {reason}", name = shown(name))]
    UnknownTensor {
        /// The tensor.
        name: String,
        /// `general.architecture`.
        architecture: &'static str,
        /// What that means.
        reason: &'static str,
    },
    /// A tensor of another shape than its place asks for.
    #[error("tensor {name} has shape {found:?}, expected {expected}", name = shown(name))]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape, row-major.
        found: Vec<usize>,
        /// What would do.
        expected: String,
    },
    /// A storage type that is known and not read.
    #[error(
        "tensor {name} is stored as {dtype}, which is not read; read are {known}: convert the original model to one of these", name = shown(name)
    )]
    UnreadType {
        /// The tensor.
        name: String,
        /// The type.
        dtype: &'static str,
        /// The types that would do.
        known: String,
    },
    /// Rotary factors that no configuration can express.
    #[error("tensor {name} holds rotary factors {reason}")]
    RotaryFactors {
        /// The tensor.
        name: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// A tokenizer that cannot be rebuilt. The weights can be used without it.
    #[error("the tokenizer cannot be rebuilt: {reason}")]
    Tokenizer {
        /// Why not.
        reason: String,
    },
}

impl GgufFault {
    /// The name of the variant, and of the key where there is one.
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
