//! Comparing a saved model with the one in memory.
//!
//! The saved model is run layer by layer, with one layer in memory at a time, so that the check of a
//! large model costs its largest part and not a second copy.

use super::error::CheckpointError;
use super::load::Reader;
use super::native;
use super::save::Form;
use super::source::Source;
use super::weights::Weights;
use crate::ModelError;
use crate::batch::Batch;
use crate::config::{DecoderConfig, EMBEDDING, FINAL_NORM};
use crate::decoder::{Decoder, TensorSource};
use linwright_ops::{NoProbe, Op, Shape, SiteId};
use linwright_tensor::dtype::DType;
use linwright_tensor::{Mat, RngKey};
use std::path::Path;

/// Sequences of the usual check.
const PROMPTS: usize = 4;
/// Tokens of each.
const PROMPT_TOKENS: usize = 24;

/// Largest difference of logits that a storage type explains, as a share of the largest logit. A
/// native form in `f32` runs the very same numbers, a dense form rounds its products anew.
fn tolerance(dtype: DType, form: Form) -> f32 {
    match (dtype, form) {
        (DType::F32 | DType::F64, Form::Native) => 0.0,
        (DType::F32 | DType::F64, Form::Dense) => 1e-3,
        (DType::F16, _) => 2e-2,
        (DType::Bf16, _) => 1e-1,
    }
}

/// The token sequences of the usual check: random, always the same for a vocabulary.
#[must_use]
pub fn fixed_prompts(config: &DecoderConfig) -> Vec<Vec<u32>> {
    let mut stream = RngKey::new(0).fold("verify").stream();
    let tokens = PROMPT_TOKENS.min(config.max_positions);
    let mut prompt = || (0..tokens).map(|_| stream.below(config.vocab) as u32).collect();
    (0..PROMPTS).map(|_| prompt()).collect()
}

/// Loads the model that was saved in `dir` and compares its logits on token sequences with those of
/// `decoder`. Returns the largest difference.
///
/// # Errors
/// [`CheckpointError::Differs`] if the difference is larger than the storage type explains, and the
/// errors of loading.
pub fn verify(
    dir: &Path,
    decoder: &Decoder,
    prompts: &[Vec<u32>],
    form: Form,
) -> Result<f32, CheckpointError> {
    let sequences: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let batch = Batch::new(&sequences);
    let check = |source: ModelError| CheckpointError::Check { path: dir.into(), source };
    let mut hidden = decoder.embed(&batch).map_err(check)?;
    let layers = 0..decoder.config().layers;
    decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe).map_err(check)?;
    let expected = decoder.logits(hidden.view());
    let saved = Saved::open(dir)?;
    let found = saved.logits(&batch)?;
    let (mut largest, mut difference) = (0.0f32, 0.0f32);
    for (a, b) in expected.data().iter().zip(found.data()) {
        largest = largest.max(a.abs());
        // `max` would drop a NaN.
        let gap = (a - b).abs();
        difference = if gap > difference || gap.is_nan() { gap } else { difference };
    }
    let allowed = tolerance(saved.weights.main_dtype(), form) * largest;
    if difference > allowed || difference.is_nan() || expected.rows() != found.rows() {
        return Err(CheckpointError::Differs { path: dir.into(), found: difference, allowed });
    }
    Ok(difference)
}

/// A saved model of which one part is in memory at a time.
struct Saved<'a> {
    dir: &'a Path,
    source: Source,
    config: DecoderConfig,
    weights: Weights,
}

impl<'a> Saved<'a> {
    fn open(dir: &'a Path) -> Result<Self, CheckpointError> {
        let (source, _) = Source::read(dir)?;
        let config = source.decoder_config()?;
        source.tokenizer(&config)?;
        Ok(Self { dir, source, config, weights: Weights::open(dir)? })
    }

    fn logits(&self, batch: &Batch) -> Result<Mat<f32>, CheckpointError> {
        let check = |source: ModelError| CheckpointError::Check { path: self.dir.into(), source };
        let mut hidden = self.ends()?.embed(batch).map_err(check)?;
        for layer in 0..self.config.layers {
            let part = self.layer(layer)?;
            part.run_layers(&mut hidden, batch, 0..1, &mut NoProbe).map_err(check)?;
        }
        Ok(self.ends()?.logits(hidden.view()))
    }

    /// Embedding, last norm and head: a decoder without layers.
    fn ends(&self) -> Result<Decoder, CheckpointError> {
        let config = DecoderConfig { layers: 0, ..self.config.clone() };
        Decoder::from_source(config, &mut self.reader()?)
    }

    /// A decoder of the one layer, with a token vocabulary that is never used.
    fn layer(&self, layer: usize) -> Result<Decoder, CheckpointError> {
        let config =
            DecoderConfig { layers: 1, vocab: 1, tied_embeddings: true, ..self.config.clone() };
        let mut source = OneLayer { reader: self.reader()?, layer };
        Decoder::from_source(config, &mut source)
    }

    fn reader(&self) -> Result<Reader<'_>, CheckpointError> {
        let headers = native::read(self.dir, &self.source.config)?;
        Ok(Reader::new(self.dir, &self.weights, headers))
    }
}

/// Gives the parts of layer `layer` to a decoder that asks for layer 0.
struct OneLayer<'a> {
    reader: Reader<'a>,
    layer: usize,
}

impl OneLayer<'_> {
    fn renamed(&self, name: &str) -> String {
        name.replacen("model.layers.0.", &format!("model.layers.{}.", self.layer), 1)
    }
}

impl TensorSource for OneLayer<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        if name == EMBEDDING || name == FINAL_NORM {
            return Ok(vec![0.0; shape.iter().product()]);
        }
        let name = self.renamed(name);
        self.reader.tensor(&name, shape)
    }

    fn operator(&mut self, site: &SiteId, shape: Shape) -> Result<Op<f32>, CheckpointError> {
        let site = SiteId(self.renamed(&site.0));
        self.reader.operator(&site, shape)
    }
}
