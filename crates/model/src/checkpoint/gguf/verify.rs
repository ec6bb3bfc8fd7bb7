//! Verification of a written GGUF file against the model in memory.

use super::Gguf;
use super::load::{Reader, source};
use crate::ModelError;
use crate::batch::Batch;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::form::Form;
use crate::checkpoint::precision::Precision;
use crate::checkpoint::same_tokens::same_tokens;
use crate::checkpoint::verify::{
    Gap, REORDERED, Rounded, compare, embedding_difference, ends_of, fixed_prompts, in_parts,
};
use crate::config::{Rope, TransformerConfig};
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;
use linwright_ops::NoProbe;
use linwright_tensor::Mat;
use linwright_tensor::dtype::DType;
use std::path::Path;

/// Largest relative difference of rotary frequencies and configuration values: files hold them in
/// `f32`, and frequency factors as quotients.
const FREQUENCY: f32 = 1e-5;

/// Loads a file in parts and compares its logits on [`fixed_prompts`] with those of `decoder`,
/// whose matrices are rounded to `dtype` as in the file. Returns the difference from the unrounded
/// `decoder`. The tokenizer of the file must encode texts as `tokenizer` does.
///
/// # Errors
/// [`CheckpointError::Differs`], [`CheckpointError::Says`] or [`CheckpointError::Tokens`] if the
/// file holds a different model, and errors of loading.
pub(super) fn verify(
    path: &Path,
    decoder: &Transformer,
    tokenizer: Option<&Tokenizer>,
    dtype: DType,
) -> Result<Gap, CheckpointError> {
    let gguf = Gguf::open(path)?;
    let source = source(&gguf);
    let config = source.decoder_config()?;
    let read = source.tokenizer(&config)?;
    same_tokens(path, tokenizer, read.as_ref(), config.is_causal())?;
    let reader = || Reader::new(&gguf, config.family, Precision::F32);
    let config = reader().whole(config.clone());
    if let Some(field) = other_field(decoder.config(), &config) {
        return Err(CheckpointError::Says { path: path.into(), field });
    }
    let differs = |found, allowed| CheckpointError::Differs { path: path.into(), found, allowed };
    let (vectors, tables) = (DType::F32, DType::F32);
    let rounded = || Rounded { decoder, dtype, vectors, tables, form: Form::Dense };
    let off = embedding_difference(&config, &mut reader(), &mut rounded())?;
    if off > 0.0 || off.is_nan() {
        return Err(differs(off, 0.0));
    }
    let prompts = fixed_prompts(decoder.config());
    let sequences: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let batch = Batch::new(&sequences);
    let found = in_parts(path, &config, &batch, &|| Ok(reader()))?;
    let expected = without_pooler(in_parts(path, decoder.config(), &batch, &|| Ok(rounded()))?);
    // Norms may be stored minus one, which rounds them.
    let (gap, largest) = compare(&expected, &found);
    let (off, allowed) = (gap.largest, REORDERED * largest);
    if off > allowed || off.is_nan() {
        return Err(differs(off, allowed));
    }
    let check = |source: ModelError| CheckpointError::Check { path: path.into(), source };
    let mut hidden = decoder.embed(&batch).map_err(check)?;
    let layers = 0..decoder.config().layers.len();
    decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe).map_err(check)?;
    Ok(compare(&without_pooler(ends_of(decoder, hidden, &batch)), &found).0)
}

/// Only the first output: files have no pooler.
fn without_pooler(mut ends: Vec<Mat<f32>>) -> Vec<Mat<f32>> {
    ends.truncate(1);
    ends
}

/// The first field in which two configurations describe models that compute differently: a window
/// or a scaling may matter only for long sequences. Tokenizers and names are not compared.
fn other_field(own: &TransformerConfig, read: &TransformerConfig) -> Option<&'static str> {
    let near = |a: f32, b: f32| (a - b).abs() <= FREQUENCY * a.abs();
    let all_near =
        |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b));
    let same_rope = |(a, b): (&Rope, &Rope)| {
        let same = |length| {
            let frequencies = |rope: &Rope| rope.frequencies(rope.variant(length));
            all_near(&frequencies(a), &frequencies(b))
        };
        let factors = (a.attention_factor(), b.attention_factor());
        same(1) && same(own.max_positions) && near(factors.0, factors.1)
    };
    let cap = |a: Option<f32>, b: Option<f32>| match (a, b) {
        (Some(a), Some(b)) => near(a, b),
        (None, None) => true,
        _ => false,
    };
    let ropes =
        own.ropes.len() == read.ropes.len() && own.ropes.iter().zip(&read.ropes).all(same_rope);
    let fields = [
        ("the number of layers", own.layers.len() == read.layers.len()),
        ("heads, windows or widths of the layers", own.layers == read.layers),
        ("the width", own.hidden == read.hidden && own.embedding_width == read.embedding_width),
        ("the heads", (own.heads, own.head_dim) == (read.heads, read.head_dim)),
        ("the vocabulary", own.vocab == read.vocab),
        ("the positions", own.max_positions == read.max_positions),
        ("the activation", own.activation == read.activation),
        ("the output matrix", own.tied_embeddings == read.tied_embeddings),
        ("the biases", own.biases == read.biases),
        ("the rotary positions", ropes),
        ("the cap of scores", cap(own.score_cap, read.score_cap)),
        ("the cap of logits", cap(own.logit_cap, read.logit_cap)),
        ("the clipping", cap(own.clip, read.clip)),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}
