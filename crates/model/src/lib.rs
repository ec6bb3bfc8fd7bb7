//! Language models with named linear slots.
//!
//! One decoder ([`Transformer`]) stands for the whole Llama family; what a family leaves unsaid in its
//! `config.json` is data ([`families`]). Sequences travel packed one after another ([`Batch`]), and
//! every linear layer is a slot that holds any operator of `linwright-ops`.

pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod families;
pub mod tokenizer;
pub mod train_lm;
pub mod transformer;

pub use batch::Batch;
pub use config::TransformerConfig;
pub use error::{ConfigError, ModelError};
pub use transformer::{TensorSource, TokenScore, TrainingMemory, Transformer, TransformerGrads};
