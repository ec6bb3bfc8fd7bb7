//! Checkpoints in and out.
//!
//! A model is a directory as on Hugging Face: `config.json`, `model.safetensors` or shards with
//! `model.safetensors.index.json`, `tokenizer.json` and its companions. [`load`] reads one,
//! [`save()`] writes one, and [`llama2c`] makes one of a llama2.c file.
//!
//! Two **forms** are written. The dense form holds ordinary weights and loads in any runtime; every
//! operator must be linear. The **native** form holds operators by their parameters: `config.json`
//! gains one object `linwright` with the header of each site, and the parameters stand as
//! `<site>.<parameter>` among the weights (low rank: `<site>.u` (out, r) and `<site>.v` (r, inp)).
//!
//! [`export()`] writes what other runtimes load, with a card and a record of how it was made.
//!
//! Nothing that a checkpoint says is trusted: sizes, offsets, names, types and numbers are checked
//! and refused with a [`CheckpointError`] before they are used, and no file is ever executed or
//! unpickled. Files must not be shortened while they are read, since they are mapped.

mod error;
pub mod export;
mod header;
pub mod llama2c;
mod load;
mod native;
mod safetensors_file;
mod save;
mod sentence;
mod source;
mod verify;
mod weights;
mod writer;

pub use error::{CheckpointError, FileFault};
pub use export::export;
pub use header::{StoredType, TensorInfo};
pub use load::{LoadedModel, load};
pub use native::SCHEMA;
pub use safetensors_file::{SafetensorsFile, Tensor};
pub use save::{Form, SHARD_BYTES, SaveOptions, SavedFile, SavedModel, save};
pub use source::Source;
pub use verify::{fixed_prompts, verify};
