//! GGUF files as written by llama.cpp: one file with configuration, tokenizer and weights.
//!
//! [`Contents::parse`] turns the bytes of a file into the content of a transformers directory: a
//! `config.json`, the tensors by their transformers names with the inverse of each converter
//! change, and a `tokenizer.json`. [`Gguf`] is the same for a mapped file and reads tensors.
//!
//! Nothing in a file is trusted: every length is checked against the remaining bytes before memory
//! is allocated for it, arrays stay in the file until they are read, and a tensor that is not part
//! of the architecture is an error, since the model would compute something else without it.

mod config;
mod file;
mod load;
mod names;
mod read;
mod rope;
mod special;
mod tokenizer;
mod verify;
mod write;

pub use super::gguf_fault::{GgufFault, NoGguf};
pub(super) use load::{configuration, load};
pub use names::{GgufTensor, Layout};
pub use tokenizer::TokenizerFiles;
pub use write::{GgufWriter, Model, save_gguf};
pub(super) use write::{file_name, write_gguf};

use super::error::CheckpointError;
use linwright_files::gguf::{self, GgufFile, GgufType, Header, StoredTensor};
use linwright_files::{FileError, FileFault};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Checked contents of a file, in the terms of transformers.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The header as stored.
    pub header: Header,
    /// `config.json`.
    pub config: Map<String, Value>,
    /// Tensors by their transformers names.
    pub tensors: BTreeMap<String, GgufTensor>,
    /// `tokenizer.json` and `tokenizer_config.json`, or the reason why they cannot be rebuilt; the
    /// weights are usable without them.
    pub tokenizer: Result<TokenizerFiles, GgufFault>,
}

impl Contents {
    /// Parses everything but the weights; `bytes` is the whole file.
    ///
    /// # Errors
    /// [`GgufFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, GgufFault> {
        Self::of(&[bytes], gguf::parse(bytes)?)
    }

    /// As [`Self::parse`], for the parts of a model with this header.
    fn of(parts: &[&[u8]], header: Header) -> Result<Self, GgufFault> {
        let file = file::File::new(parts, &header)?;
        let config = file.config()?;
        let tensors = names::tensors(&file, file.heads()?)?;
        let tokenizer = tokenizer::files(parts[0], &header.metadata, file.vocab()?);
        Ok(Self { config, tensors, tokenizer, header })
    }
}

/// The error for a storage type that is known but not supported.
fn unread(name: &str, tensor: &StoredTensor) -> GgufFault {
    GgufFault::UnreadType { name: name.into(), dtype: tensor.dtype.name, known: GgufType::read() }
}

/// Reads a whole file to its last number and returns a summary of the outcome in a few words,
/// without sizes, offsets and names from the bytes: inputs that take different paths through the
/// reader have different summaries. For fuzzing.
#[must_use]
pub fn signature(bytes: &[u8]) -> String {
    let contents = match Contents::parse(bytes) {
        Ok(contents) => contents,
        Err(fault) => return fault.kind(),
    };
    let mut finite = true;
    for tensor in contents.tensors.values() {
        finite &= read::read(bytes, tensor, &|_| {}).is_ok();
    }
    let tokenizer = match &contents.tokenizer {
        Ok(files) => files.tokenizer["model"]["type"].as_str().unwrap_or("other").to_owned(),
        Err(fault) => fault.kind(),
    };
    let (model, tensors) = (&contents.config["model_type"], contents.tensors.len());
    format!("read {model} of {tensors} tensors, finite {finite}, tokenizer {tokenizer}")
}

/// The numbers of a tensor, row-major, and its content digest: SHA-256 over the SHA-256 of blocks
/// of whole stored rows of at least 2^18 numbers.
pub type Decoded = (Vec<f32>, [u8; 32]);

/// An open GGUF file, or all parts of one, with checked contents.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    file: GgufFile,
    contents: Contents,
}

impl Gguf {
    /// Opens a file and checks everything but the values of its weights.
    ///
    /// # Errors
    /// [`FileError::Read`] or [`CheckpointError::Gguf`].
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let file = GgufFile::open(path).map_err(|error| match error {
            FileError::Malformed { path, fault: FileFault::Container(fault) } => {
                CheckpointError::Gguf { path, fault: fault.into() }
            }
            other => other.into(),
        })?;
        let first = || file.paths().next().unwrap_or(path).to_owned();
        let malformed = |fault| CheckpointError::Gguf { path: first(), fault };
        let contents = Contents::of(&file.bytes(), file.header().clone()).map_err(malformed)?;
        Ok(Self { path: path.into(), file, contents })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Contents of the file.
    #[must_use]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Reads a tensor by its transformers name.
    ///
    /// # Errors
    /// [`CheckpointError`] if it is absent, of another shape or not finite.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Decoded, CheckpointError> {
        let tensor = self.find(name, shape)?;
        let release = |range| self.file.release(tensor.part, range);
        let decoded = read::read(self.file.part(tensor.part), tensor, &release);
        decoded.map_err(|(index, value)| self.non_finite(name, index, value))
    }

    /// Reads some rows of a matrix.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn read_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        let tensor = self.find(name, &shape)?;
        assert!(rows.end <= shape[0], "rows {rows:?} of {shape:?}");
        let release = |range| self.file.release(tensor.part, range);
        let decoded = read::read_some(self.file.part(tensor.part), tensor, rows, &release);
        let decoded = decoded.map(|(values, _)| values);
        decoded.map_err(|(index, value)| self.non_finite(name, index, value))
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&GgufTensor, CheckpointError> {
        let missing = || FileError::MissingTensor {
            path: self.path.clone(),
            name: name.into(),
            expected: shape.to_vec(),
        };
        let tensor = self.contents.tensors.get(name).ok_or_else(missing)?;
        if tensor.shape != shape {
            return Err(FileError::TensorShape {
                path: self.path.clone(),
                name: name.into(),
                expected: shape.to_vec(),
                found: tensor.shape.clone(),
            }
            .into());
        }
        Ok(tensor)
    }

    fn non_finite(&self, name: &str, index: usize, value: f32) -> CheckpointError {
        FileError::NonFinite { path: self.path.clone(), name: name.into(), index, value }.into()
    }
}

#[cfg(test)]
mod tests;
