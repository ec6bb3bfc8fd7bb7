//! Language models with named linear slots.
//!
//! One [`Transformer`] stands for all decoders and encoders; which of its parts a model has follows
//! from its `config.json` and from data about its family ([`families`]). Sequences travel packed
//! one after another ([`Batch`]), and every linear layer is a slot that holds any operator of
//! `linwright-ops`.

pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod families;
pub mod generate;
mod parts;
pub mod template;
pub mod tokenizer;
pub mod train_lm;
pub mod transformer;

pub use batch::Batch;
pub use config::TransformerConfig;
pub use error::{ConfigError, ModelError};
pub use transformer::{
    ShowLogits, Stream, TensorSource, TokenScore, TrainingMemory, Transformer, TransformerGrads,
};
