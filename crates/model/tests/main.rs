//! The integration tests of this crate, in one binary.

mod checkpoint_bad_input;
mod checkpoint_common;
mod checkpoint_io;
mod checkpoint_llama2c;
mod decoder_gradients;
mod decoder_laws;
mod decoder_reference;
mod tiny;
mod tokenizers;
