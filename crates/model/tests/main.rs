//! The integration tests of this crate, in one binary.

mod checkpoint_bad_input;
mod checkpoint_common;
mod checkpoint_io;
mod checkpoint_llama2c;
mod export;
mod export_lora;
mod reference;
mod tiny;
mod transformer_gradients;
mod transformer_laws;
mod transformer_reference;
mod widths;
