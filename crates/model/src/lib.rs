//! Language models with named linear slots.
//!
//! One [`Transformer`] implements all decoders and encoders; its parts follow from the
//! `config.json` and from data about the model family ([`families`]). Sequences are packed without
//! padding ([`Batch`]), and every linear layer is a slot that holds any operator of
//! `linwright-ops`.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod families;
pub mod generate;
mod parts;
mod role;
pub mod template;
pub mod tokenizer;
pub mod train_lm;
pub mod transformer;
pub mod windows;

pub use batch::Batch;
pub use config::TransformerConfig;
pub use config::{AttentionConfig, MlpConfig};
pub use error::{ConfigError, ModelError};
pub use linwright_tensor::kernels::rope::Pairing;
pub use role::Role;
pub use transformer::{
    BasisError, KeptHeads, KeptWidths, LayersError, ShowLogits, Stored, StoredError, Stream,
    TensorSource, TokenScore, TrainingMemory, Transformer, TransformerGrads, WidthError,
    centred_basis,
};
pub use windows::{Split, Windows, WindowsError};
