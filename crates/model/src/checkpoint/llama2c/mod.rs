//! Import of llama2.c models.
//!
//! A `.bin` holds seven little-endian i32 (dim, hidden dim, layers, heads, key/value heads,
//! vocabulary, sequence length; a negative vocabulary marks an untied output matrix), then f32
//! little-endian, each kind over all layers: embedding, attention norms, wq, wk, wv, wo, MLP norms,
//! w1, w2, w3, final norm, two rotary tables, which are ignored and recomputed, and the output
//! matrix if it is untied. Source: `run.c` and `export.py` (legacy export) of karpathy/llama2.c.
//!
//! llama2.c rotates interleaved pairs (2i, 2i+1), the written directory halves (i, i + head/2), so
//! the rows of wq and wk are permuted within each head. Queries and keys are permuted alike, which
//! leaves their products unchanged.

mod vocabulary;
mod weights;

use super::error::CheckpointError;
use super::form::Form;
use super::save::{SaveOptions, SavedModel, save};
use super::source::Source;
use crate::config::TransformerConfig;
use crate::transformer::Transformer;
use linwright_files::json::read_bounded;
use serde_json::Value;
use std::path::Path;
use vocabulary::Vocabulary;
use weights::{Checkpoint, Sizes};

/// Largest tokenizer file in bytes.
const TOKENIZER_BYTES: u64 = 1 << 26;

/// Converts a llama2.c model and its tokenizer to a Hugging Face directory at `out`.
///
/// The tokenizer produces the ids of llama2.c: a space is put before a text, which is split into
/// characters (bytes where a character has no token), and the adjacent pair whose joined piece has
/// the highest score is merged until none is left. Text that looks like a special token is ordinary
/// text. `beside` lists further files for the directory: name and content.
///
/// # Errors
/// [`CheckpointError`]; `out` is then unchanged.
pub fn import_llama2c(
    bin: &Path,
    tokenizer: &Path,
    out: &Path,
    force: bool,
    beside: Vec<(String, Vec<u8>)>,
) -> Result<SavedModel, CheckpointError> {
    let checkpoint = Checkpoint::open(bin)?;
    let config = checkpoint.config()?;
    let bytes = read_bounded(tokenizer, TOKENIZER_BYTES)?;
    let vocabulary = Vocabulary::parse(tokenizer, &bytes, config.vocab)?;
    let decoder = Transformer::from_source(config, &mut &checkpoint)?;
    let source = Source::of_new_model(decoder.config(), companions(decoder.config(), &vocabulary));
    let options = SaveOptions { force, files: beside, ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, out)
}

/// The configuration of a `.bin`; `bytes` is the whole file, `path` appears in messages.
///
/// # Errors
/// [`CheckpointError::Llama2c`], [`CheckpointError::Config`].
pub fn read_config(path: &Path, bytes: &[u8]) -> Result<TransformerConfig, CheckpointError> {
    let wrong = |reason: String| CheckpointError::Llama2c { path: path.into(), reason };
    let (sizes, _) = Sizes::of_file(bytes).map_err(wrong)?;
    sizes.config(path)
}

/// The `tokenizer.json` of a llama2.c tokenizer with `vocab` tokens. `path` appears in messages.
///
/// # Errors
/// [`CheckpointError::Llama2c`].
pub fn read_tokenizer(path: &Path, bytes: &[u8], vocab: usize) -> Result<Value, CheckpointError> {
    Ok(Vocabulary::parse(path, bytes, vocab)?.tokenizer_json())
}

/// Tokenizer files for the tokenizers library and for transformers.
fn companions(config: &TransformerConfig, vocabulary: &Vocabulary) -> Vec<(String, Vec<u8>)> {
    let settings = vocabulary.tokenizer_config(config.max_positions);
    [("tokenizer.json", vocabulary.tokenizer_json()), ("tokenizer_config.json", settings)]
        .map(|(name, json)| (name.to_owned(), format!("{json:#}\n").into_bytes()))
        .to_vec()
}
