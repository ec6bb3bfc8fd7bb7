//! Import of llama2.c models.
//!
//! A `.bin` holds seven little-endian i32 (dim, hidden dim, layers, heads, key/value heads,
//! vocabulary, sequence length; a negative vocabulary means that the output matrix is its own) and
//! then f32 little-endian, each kind over all layers: embedding, attention norms, wq, wk, wv, wo,
//! MLP norms, w1, w2, w3, final norm, two rotary tables that are computed anew here, and the output
//! matrix if it is its own. Source: `run.c` and `export.py` (legacy export) of karpathy/llama2.c.
//!
//! Rotary positions pair neighbours (2i, 2i+1) there and halves (i, i + head/2) in the directories
//! that this makes, so the rows of wq and wk are put in another order within each head. That
//! permutes queries and keys alike and leaves their products as they were.

mod vocabulary;
mod weights;

use super::error::CheckpointError;
use super::save::{Form, SaveOptions, SavedModel, save};
use super::source::Source;
use crate::config::TransformerConfig;
use crate::transformer::Transformer;
use linwright_files::json::read_bounded;
use serde_json::Value;
use std::path::Path;
use vocabulary::Vocabulary;
use weights::{Checkpoint, Sizes};

/// Largest tokenizer file that is read, in bytes.
const TOKENIZER_BYTES: u64 = 1 << 26;

/// Makes a Hugging Face directory at `out` of a llama2.c model and its tokenizer.
///
/// The tokenizer gives the ids that llama2.c gives: a text is taken with a space before it,
/// character by character (bytes where a character has no token), and the adjacent pair whose
/// joined piece has the highest score is merged until none is left. Text that looks like a special
/// token is text.
///
/// # Errors
/// [`CheckpointError`]; nothing is then left at `out` that was not there before.
pub fn import_llama2c(
    bin: &Path,
    tokenizer: &Path,
    out: &Path,
    force: bool,
) -> Result<SavedModel, CheckpointError> {
    let checkpoint = Checkpoint::open(bin)?;
    let config = checkpoint.config()?;
    let bytes = read_bounded(tokenizer, TOKENIZER_BYTES)?;
    let vocabulary = Vocabulary::parse(tokenizer, &bytes, config.vocab)?;
    let decoder = Transformer::from_source(config, &mut &checkpoint)?;
    let source = Source::of_new_model(decoder.config(), companions(decoder.config(), &vocabulary));
    let options = SaveOptions { force, ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, out)
}

/// The configuration of the model in the bytes of a `.bin`, of which `bytes` is the whole. `path`
/// appears in messages.
///
/// # Errors
/// [`CheckpointError::Llama2c`], [`CheckpointError::Config`].
pub fn read_config(path: &Path, bytes: &[u8]) -> Result<TransformerConfig, CheckpointError> {
    let wrong = |reason: String| CheckpointError::Llama2c { path: path.into(), reason };
    let (sizes, _) = Sizes::of_file(bytes).map_err(wrong)?;
    sizes.config(path)
}

/// The `tokenizer.json` that gives the ids of a llama2.c tokenizer of `vocab` tokens. `path`
/// appears in messages.
///
/// # Errors
/// [`CheckpointError::Llama2c`].
pub fn read_tokenizer(path: &Path, bytes: &[u8], vocab: usize) -> Result<Value, CheckpointError> {
    Ok(Vocabulary::parse(path, bytes, vocab)?.tokenizer_json())
}

/// Tokenizer files in the form of the tokenizers library and of transformers.
fn companions(config: &TransformerConfig, vocabulary: &Vocabulary) -> Vec<(String, Vec<u8>)> {
    let settings = vocabulary.tokenizer_config(config.max_positions);
    [("tokenizer.json", vocabulary.tokenizer_json()), ("tokenizer_config.json", settings)]
        .map(|(name, json)| (name.to_owned(), format!("{json:#}\n").into_bytes()))
        .to_vec()
}
