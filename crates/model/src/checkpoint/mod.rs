//! Checkpoints in and out.
//!
//! A model is a directory as on Hugging Face: `config.json`, `model.safetensors` or shards with
//! `model.safetensors.index.json`, `tokenizer.json` and its companions. [`load`] reads one,
//! [`save()`] writes one, and [`llama2c`] makes one of a llama2.c file. [`load`] also reads the one
//! file that llama.cpp makes of such a directory, see [`gguf`].
//!
//! Two **forms** are written. The dense form holds ordinary weights and loads in any runtime; every
//! operator must be linear. The **native** form holds operators by their parameters: `config.json`
//! gains one object `linwright` with the header of each site, and the parameters stand as
//! `<site>.<parameter>` among the weights (low rank: `<site>.u` (out, r) and `<site>.v` (r, inp)).
//!
//! Nothing that a checkpoint says is trusted: sizes, offsets, names, types and numbers are checked
//! and refused with a [`CheckpointError`] before they are used, and no file is ever executed or
//! unpickled. Files must not be shortened while they are read, since they are mapped.

mod error;
mod fault;
mod format;
mod gather;
pub mod gguf;
mod header;
pub mod llama2c;
mod load;
mod native;
mod safetensors;
mod save;
mod source;
mod tensor_file;
mod verify;
mod weights;
mod writer;

pub use error::CheckpointError;
pub use fault::FileFault;
pub use format::Format;
pub use header::{Header, StoredType, TensorInfo};
pub use load::{LoadedModel, load};
pub use native::SCHEMA;
pub use save::{Form, SHARD_BYTES, SaveOptions, SavedFile, SavedModel, save};
pub use source::Source;
pub use tensor_file::{Tensor, TensorFile};
pub use verify::{fixed_prompts, verify};
pub use weights::Weights;
