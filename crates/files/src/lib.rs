//! Reading and writing weight files of any model: safetensors, files of `torch.save`, the container
//! of GGUF, numpy files and raw dumps; and the hub's cache and downloads.
//!
//! [`TensorFile`] is a mapped file of any [`Format`], [`Weights`] all files of a model;
//! [`DirWriter`] and [`writer`] write safetensors; [`dump`] imports files of one tensor each;
//! [`gguf`] reads the container of GGUF, [`NpyHeader`] the header of a numpy array; [`hub`] finds
//! and downloads files of models and data sets.
//!
//! No content of a file is trusted: sizes, offsets, names, types and numbers are checked before
//! they are used, with a [`FileError`] for invalid ones, and nothing in a file is ever executed.
//! Files must not be shortened while they are read, since they are mapped.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

mod companions;
pub mod digest;
mod directory;
pub mod dump;
mod encoding;
mod error;
mod fault;
mod format;
mod gather;
#[cfg(feature = "gguf")]
pub mod gguf;
mod header;
pub mod hub;
pub mod json;
mod modules;
mod npy;
mod npz;
mod pickle;
mod raw;
mod safetensors;
mod tensor_file;
mod weights;
pub mod writer;
mod zip;

pub use companions::{
    COMPANION_BYTES, CONFIG, GENERATION_CONFIG, LICENCES, SENTENCE_ENCODER, SENTENCE_MODULES,
    SENTENCE_TRANSFORMER, TOKENIZER_FILES, companion_names,
};
pub use directory::{DirWriter, MEASURED, SavedFile, check_listed};
pub use encoding::{Encoding, SmallFloat};
pub use error::FileError;
pub use fault::FileFault;
pub use format::Format;
pub use header::{GGUF_MAGIC, Header, StoredType, TensorInfo};
pub use modules::{SentenceModule, transformer_dir, transformer_folder};
pub use npy::{NPY_MAGIC, NpyHeader};
pub use npz::{Inflate, NpzArray, NpzFile};
pub use pickle::{PickleFault, TorchTensor, torch_archive};
pub use raw::{RawFile, RawTensor, is_stored_type};
pub use tensor_file::{HalfTensor, Placed, PlacedTensor, Tensor, TensorFile};
pub use weights::{INDEX, SINGLE, Weights, files_with, lacking_weights, shards_of, weight_files};
pub use weights::{gguf_among, gguf_at, weights_among};
pub use zip::{ZipFault, archived_files, zip_archive};

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
