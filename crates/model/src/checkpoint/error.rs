//! What can be wrong with a checkpoint, coming in or going out.

use super::gguf::{GgufFault, NoGguf};
use crate::tokenizer::TokenizerError;
use crate::{ConfigError, ModelError};
use linwright_files::{FileError, writer};
use linwright_ops::{OpError, SiteId};
use linwright_run::atomic::OutputError;
use linwright_run::shown;
use std::io;
use std::path::PathBuf;

/// A checkpoint that cannot be read, written or confirmed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file that cannot be read or written, or is not what it says.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path of a model is no directory.
    #[error("{} is not a directory; expected one with config.json and weights such as model.safetensors", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A configuration that describes no model.
    #[error("{}: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ConfigError,
    },
    /// A `linwright` object in `config.json` that cannot be read.
    #[error("{}: {place} {reason}", path.display())]
    Native {
        /// The file.
        path: PathBuf,
        /// Field or site.
        place: String,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// An operator that cannot be rebuilt, or has no form of the kind asked for.
    #[error("site {site}: {source}")]
    Operator {
        /// Its site.
        site: SiteId,
        /// What is wrong.
        source: OpError,
    },
    /// A tokenizer that cannot be used with this model.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A saved model gives other logits than the model that was saved.
    #[error("{}: loaded back, its logits differ by {found:.3e}, allowed are {allowed:.3e}; the file was not kept", path.display())]
    Differs {
        /// The directory.
        path: PathBuf,
        /// Largest difference.
        found: f32,
        /// Tolerance of the storage type.
        allowed: f32,
    },
    /// A saved file describes another model than the one that was saved.
    #[error("{}: loaded back, it differs in {field}, which the format does not hold; the file was not kept", path.display())]
    Says {
        /// The file.
        path: PathBuf,
        /// What differs.
        field: &'static str,
    },
    /// The tokenizer of a saved model makes other tokens of a text than that of the model.
    #[error("{}: loaded back, its tokenizer makes {found} of \"{text}\", that of the model {expected}; nothing was kept", path.display(), text = shown(text))]
    Tokens {
        /// The file or directory.
        path: PathBuf,
        /// The text.
        text: &'static str,
        /// Ids of the model's own tokenizer.
        expected: String,
        /// Those of the saved one.
        found: String,
    },
    /// The check of a saved model could not compute.
    #[error("{}: the check of the saved model failed: {source}", path.display())]
    Check {
        /// The directory.
        path: PathBuf,
        /// What happened.
        source: ModelError,
    },
    /// A GGUF file that is none, or of a model that is not known.
    #[error("{}: {fault}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: GgufFault,
    },
    /// A model that a GGUF file cannot hold.
    #[error("no GGUF file can be made: {0}")]
    NoGguf(NoGguf),
    /// A llama2.c file that is none.
    #[error("{}: {reason}", path.display())]
    Llama2c {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        reason: String,
    },
}

impl CheckpointError {
    /// A failure to read `path`.
    pub(crate) fn read(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let failed = FileError::read(path);
        move |source| failed(source).into()
    }
}

/// Why a tensor of a model was not written.
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
