//! Reading and writing of checkpoints.
//!
//! A model is a directory as on Hugging Face: `config.json`, `model.safetensors` or shards with
//! `model.safetensors.index.json`, `tokenizer.json` and its companions. Weights are also read from
//! files of `torch.save` (`pytorch_model.bin`), by a reader that supports the few names in a state
//! dict and never calls anything. [`load`] reads a directory, [`save()`] writes one, and
//! [`llama2c`] converts a llama2.c file to one. [`load`] also reads GGUF files, the single-file
//! format of llama.cpp, see [`gguf`]. [`linwright_files::dump`] imports files with one tensor each.
//!
//! Two **forms** are written. The dense form holds ordinary weights and loads in any runtime; every
//! operator must be linear. The **native** form holds operator parameters: `config.json` gains one
//! object `linwright` with the header of each site, and the parameters are stored as
//! `<site>.<parameter>` among the weights (low rank: `<site>.u` (out, r) and `<site>.v` (r, inp)).
//! Its `model_type` is `linwright`, so that other programs reject it, and the original one is kept
//! under `linwright.base`; directories of earlier versions, which kept the original type, are read
//! as well.
//!
//! [`export()`] writes forms for other runtimes, with a model card and a record of provenance.
//!
//! Nothing in a checkpoint is trusted: sizes, offsets, names, types and numbers are checked and
//! rejected with a [`CheckpointError`] before they are used, and nothing in a file is ever
//! executed. Files are mapped, so they must not be truncated while they are read.

mod adapter;
mod error;
pub mod export;
mod form;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(not(feature = "gguf"))]
#[path = "gguf_absent.rs"]
pub mod gguf;
#[cfg_attr(not(feature = "gguf"), path = "gguf_fault_absent.rs")]
mod gguf_fault;
pub mod llama2c;
mod load;
mod loaded;
mod native;
mod precision;
mod reader;
mod same_tokens;
mod save;
mod sentence;
mod source;
mod tied;
mod verify;

pub(crate) use native::model_type;

pub use adapter::{Adapted, merge_adapter};
pub use error::CheckpointError;
pub use export::export;
pub use form::Form;
pub use load::{configuration, load, load_as, load_offloaded};
pub use loaded::LoadedModel;
pub use native::SCHEMA;
pub use precision::Precision;
pub use save::{SHARD_BYTES, SaveOptions, SavedModel, save};
pub use sentence::Sentence;
pub use source::Source;
pub use verify::{Gap, fixed_prompts, verify};
