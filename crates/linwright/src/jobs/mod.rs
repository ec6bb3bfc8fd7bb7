//! Jobs: what a command does, as plain data.
//!
//! A job is read from the flags of a command, from a recipe or from Python, always through its JSON
//! schema: [`fields`] lists its options with their types, defaults and one sentence each, and
//! [`read`] turns a map of options into the job. The command line builds its flags from the same
//! list, so a flag, a key of a recipe and a keyword cannot differ.
//!
//! An option has one name everywhere: `no_share` is the key, `--no-share` the flag.

mod batch;
mod byte_size;
mod compose;
mod compress;
mod cuts;
mod error;
mod eval;
mod evaluation;
mod export;
mod fields;
mod form;
mod import;
mod inspect;
mod laser;
mod layers;
mod named;
mod plan_file;
mod precision;
mod read;
mod slots;
mod sweep;
mod train_lm;

pub use batch::BatchSize;
pub use byte_size::ByteSize;
pub use compose::Compose;
pub use compress::{Compress, Heal, MethodName, StoredDType};
pub use cuts::CutOptions;
pub use error::JobError;
pub use eval::Eval;
pub use evaluation::EvaluationOptions;
pub use export::Export;
pub use fields::{Field, Kind, Name, fields, flag_of, schema};
pub use form::SavedForm;
pub use import::Import;
pub use inspect::Inspect;
pub use laser::Laser;
pub use layers::parse_layers;
pub use precision::PrecisionOptions;
pub use read::read;
pub use slots::SlotOptions;
pub use sweep::Sweep;
pub use train_lm::TrainLm;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Options of a job, or a group of them.
pub trait Options: Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema {}

impl<T: Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema> Options for T {}

/// What a command does.
pub trait Job: Options {
    /// Name of the command.
    const VERB: &'static str;
    /// What it does: a sentence, and paragraphs for its long help.
    const ABOUT: &'static str;
}
