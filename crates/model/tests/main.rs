//! The integration tests of this crate, in one binary.

mod adapters;
mod basis;
mod checkpoint_bad_input;
mod checkpoint_common;
mod checkpoint_gguf;
mod checkpoint_io;
mod checkpoint_llama2c;
mod export;
mod export_gguf;
mod export_lora;
mod held_in_half;
mod reference;
mod sentences;
mod slot_gradients;
mod tiny;
mod tokenizers;
mod transformer_gradients;
mod transformer_laws;
mod transformer_reference;
mod widths;
