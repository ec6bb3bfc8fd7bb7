//! Errors of reading, writing and verifying checkpoints.

use super::gguf_fault::{GgufFault, NoGguf};
use crate::tokenizer::TokenizerError;
use crate::{ConfigError, ModelError};
use linwright_files::{FileError, writer};
use linwright_ops::{OpError, SiteId};
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::io;
use std::path::PathBuf;

/// A checkpoint that cannot be read, written or verified.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file that cannot be read or written, or is invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// The model path is not a directory.
    #[error("{} is not a directory; expected one with config.json and weights such as model.safetensors", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The folder of an adapter, which is not a model.
    #[error("{}: an adapter of {kind} for {base}, not a model: {advice}", path.display(), kind = shown(kind), base = shown(base))]
    Adapter {
        /// Its configuration.
        path: PathBuf,
        /// Kind of the adapter.
        kind: String,
        /// The model that it changes.
        base: String,
        /// What to do.
        advice: String,
    },
    /// An adapter that cannot be merged into its base.
    #[error("{}: {place} {reason}", path.display())]
    Adapted {
        /// Its configuration or weights.
        path: PathBuf,
        /// Field, tensor or site.
        place: String,
        /// The reason, and what was expected.
        reason: String,
    },
    /// A configuration that does not describe a valid model.
    #[error("{}: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ConfigError,
    },
    /// An unreadable `linwright` object in `config.json`.
    #[error("{}: {place} {reason}", path.display())]
    Native {
        /// The file.
        path: PathBuf,
        /// Field or site.
        place: String,
        /// The reason, and what was expected.
        reason: String,
    },
    /// An operator that cannot be rebuilt or does not have this form.
    #[error("site {site}: {source}")]
    Operator {
        /// Its site.
        site: SiteId,
        /// What is wrong.
        source: OpError,
    },
    /// A tokenizer that does not work with this model.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A saved model whose logits differ from those of the original.
    #[error("{}: loaded back, its logits differ by {found:.3e}, allowed are {allowed:.3e}; the file was not kept", path.display())]
    Differs {
        /// The directory.
        path: PathBuf,
        /// Largest difference.
        found: f32,
        /// Tolerance of the storage type.
        allowed: f32,
    },
    /// A saved file that describes another model.
    #[error("{}: loaded back, it differs in {field}, which the format cannot store; the file was not kept", path.display())]
    Says {
        /// The file.
        path: PathBuf,
        /// What differs.
        field: &'static str,
    },
    /// A saved tokenizer that encodes a text differently.
    #[error("{}: loaded back, its tokenizer encodes \"{text}\" as {found}, that of the model as {expected}; nothing was kept", path.display(), text = shown(text))]
    Tokens {
        /// The file or directory.
        path: PathBuf,
        /// The text.
        text: &'static str,
        /// Ids from the model's own tokenizer.
        expected: String,
        /// Ids from the saved tokenizer.
        found: String,
    },
    /// The verification of a saved model failed to run.
    #[error("{}: the check of the saved model failed: {source}", path.display())]
    Check {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: ModelError,
    },
    /// Weights that cannot be moved to a file.
    #[error("weights of {name} cannot be moved out of memory: {source}")]
    Shelf {
        /// The tensor or site.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An invalid GGUF file, or a model of an unknown architecture.
    #[error("{}: {fault}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: GgufFault,
    },
    /// A model that the GGUF format cannot hold.
    #[error("the model cannot be written as GGUF: {0}")]
    NoGguf(NoGguf),
    /// An invalid llama2.c file.
    #[error("{}: {reason}", path.display())]
    Llama2c {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
}

impl CheckpointError {
    /// Whether the model has an unknown architecture.
    #[must_use]
    pub fn is_unknown_architecture(&self) -> bool {
        match self {
            Self::Config { source, .. } => matches!(source, ConfigError::UnknownFamily { .. }),
            Self::Gguf { fault, .. } => fault.is_unknown_architecture(),
            _ => false,
        }
    }

    /// An I/O error while reading `path`.
    pub(crate) fn read(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let failed = FileError::read(path);
        move |source| failed(source).into()
    }
}

/// The reason why a tensor of a model was not written.
pub(crate) type WriteError = writer::WriteError<CheckpointError>;

impl From<CheckpointError> for WriteError {
    fn from(error: CheckpointError) -> Self {
        Self::Content(error)
    }
}

impl From<OutputError> for CheckpointError {
    fn from(error: OutputError) -> Self {
        FileError::from(error).into()
    }
}
