//! Checkpoints in and out.
//!
//! A model is a directory as on Hugging Face: `config.json`, `model.safetensors` or shards with
//! `model.safetensors.index.json`, `tokenizer.json` and its companions. Weights are read from files
//! of `torch.save` too (`pytorch_model.bin`), by a reader that knows the few names a state dict is
//! made of and can call nothing. [`load`] reads one, [`save()`] writes one, and [`llama2c`] makes
//! one of a llama2.c file. [`load`] also reads the one file that llama.cpp makes of such a
//! directory, see [`gguf`]. [`dump`] makes a folder of weights of files that hold one tensor each.
//!
//! Two **forms** are written. The dense form holds ordinary weights and loads in any runtime; every
//! operator must be linear. The **native** form holds operators by their parameters: `config.json`
//! gains one object `linwright` with the header of each site, and the parameters stand as
//! `<site>.<parameter>` among the weights (low rank: `<site>.u` (out, r) and `<site>.v` (r, inp)).
//! Its `model_type` is `linwright`, so that other programs refuse it, and the original one stands
//! under `linwright.base`; directories of earlier versions, which kept theirs, are read as well.
//!
//! [`export()`] writes what other runtimes load, with a card and a record of how it was made.
//!
//! Nothing that a checkpoint says is trusted: sizes, offsets, names, types and numbers are checked
//! and refused with a [`CheckpointError`] before they are used, and nothing in a file is ever
//! executed. Files must not be shortened while they are read, since they are mapped.

mod error;
pub mod export;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(not(feature = "gguf"))]
#[path = "gguf_absent.rs"]
pub mod gguf;
pub mod llama2c;
mod load;
mod native;
mod precision;
mod same_tokens;
mod save;
mod sentence;
mod source;
mod tied;
mod verify;

pub(crate) use native::model_type;

pub use error::CheckpointError;
pub use export::export;
pub use load::{LoadedModel, load, load_as};
pub use native::SCHEMA;
pub use precision::Precision;
pub use save::{Form, SHARD_BYTES, SaveOptions, SavedModel, save};
pub use sentence::Sentence;
pub use source::Source;
pub use verify::{fixed_prompts, verify};
