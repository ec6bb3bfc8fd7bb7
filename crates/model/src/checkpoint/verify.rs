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
use linwright_ops::{Dense, LinearSlot, NoProbe, Op, Shape, SiteId, Sites};
use linwright_tensor::dtype::DType;
use linwright_tensor::{Mat, RngKey};
use std::path::Path;

/// Sequences of the usual check.
const PROMPTS: usize = 4;
/// Tokens of each.
const PROMPT_TOKENS: usize = 24;

/// Largest difference, as a share of the largest logit, between a dense form in `f32` and the
/// operators it came from: products are rounded anew. Everything else runs the very same numbers,
/// once they are rounded to the storage type.
const REORDERED: f32 = 1e-3;

/// The token sequences of the usual check: random, always the same for a vocabulary.
#[must_use]
pub fn fixed_prompts(config: &DecoderConfig) -> Vec<Vec<u32>> {
    let mut stream = RngKey::new(0).fold("verify").stream();
    let tokens = PROMPT_TOKENS.min(config.max_positions);
    let mut prompt = || (0..tokens).map(|_| stream.below(config.vocab) as u32).collect();
    (0..PROMPTS).map(|_| prompt()).collect()
}

/// Loads the model that was saved in `dir` and compares its logits on token sequences with those of
/// `decoder`, rounded to the storage type as the file is. Returns the largest difference from
/// `decoder` as it is: what storage changed.
///
/// # Errors
/// [`CheckpointError::Differs`] if the saved model is not the one in memory, and the errors of
/// loading.
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
    let exact = decoder.logits(hidden.view());
    drop(hidden);
    let saved = Saved::open(dir)?;
    let found = logits_in_parts(dir, &saved.config, &batch, &|| saved.reader())?;
    let (difference, largest) = compare(&exact, &found);
    let dtype = saved.weights.main_dtype();
    let (off, allowed) = match (dtype, form) {
        (DType::F32 | DType::F64, Form::Native) => (difference, 0.0),
        (DType::F32 | DType::F64, Form::Dense) => (difference, REORDERED * largest),
        (DType::F16 | DType::Bf16, _) => {
            let rounded = || Ok(Rounded { decoder, dtype, form });
            let expected = logits_in_parts(dir, &saved.config, &batch, &rounded)?;
            (compare(&expected, &found).0, 0.0)
        }
    };
    if off > allowed || off.is_nan() {
        return Err(CheckpointError::Differs { path: dir.into(), found: off, allowed });
    }
    Ok(difference)
}

/// The largest difference of two sets of logits, and the largest logit of the first.
fn compare(expected: &Mat<f32>, found: &Mat<f32>) -> (f32, f32) {
    if expected.rows() != found.rows() || expected.cols() != found.cols() {
        return (f32::NAN, 0.0);
    }
    let (mut largest, mut difference) = (0.0f32, 0.0f32);
    for (a, b) in expected.data().iter().zip(found.data()) {
        largest = largest.max(a.abs());
        // `max` would drop a NaN.
        let gap = (a - b).abs();
        difference = if gap > difference || gap.is_nan() { gap } else { difference };
    }
    (difference, largest)
}

/// Logits of a model of which one part is in memory at a time.
fn logits_in_parts<S: TensorSource<Error = CheckpointError>>(
    dir: &Path,
    config: &DecoderConfig,
    batch: &Batch,
    open: &dyn Fn() -> Result<S, CheckpointError>,
) -> Result<Mat<f32>, CheckpointError> {
    let check = |source: ModelError| CheckpointError::Check { path: dir.into(), source };
    // Embedding, last norm and head: a decoder without layers.
    let ends = || {
        let config = DecoderConfig { layers: 0, ..config.clone() };
        Decoder::from_source(config, &mut open()?)
    };
    let mut hidden = ends()?.embed(batch).map_err(check)?;
    for layer in 0..config.layers {
        // A decoder of the one layer, with a token vocabulary that is never used.
        let config = DecoderConfig { layers: 1, vocab: 1, tied_embeddings: true, ..config.clone() };
        let part = Decoder::from_source(config, &mut OneLayer { source: open()?, layer })?;
        part.run_layers(&mut hidden, batch, 0..1, &mut NoProbe).map_err(check)?;
    }
    Ok(ends()?.logits(hidden.view()))
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

    fn reader(&self) -> Result<Reader<'_>, CheckpointError> {
        let headers = native::read(self.dir, &self.source.config)?;
        Ok(Reader::new(self.dir, &self.weights, headers))
    }
}

/// The model in memory as its file holds it: every number rounded to the storage type.
struct Rounded<'a> {
    decoder: &'a Decoder,
    dtype: DType,
    form: Form,
}

impl Rounded<'_> {
    fn round(&self, values: &mut [f32]) {
        // In pieces: a whole embedding would be held twice.
        for piece in values.chunks_mut(1 << 16) {
            self.dtype.decode_into(&self.dtype.encode(piece), piece);
        }
    }
}

impl TensorSource for Rounded<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let mut found = Vec::new();
        self.decoder.for_each_tensor(&mut |other, _, values| {
            if other == name {
                found = values.to_vec();
            }
        });
        let biased = |slot: &&LinearSlot| name.strip_suffix(".bias") == Some(slot.id().0.as_str());
        if let Some(bias) = self.decoder.slots().into_iter().find(biased).and_then(LinearSlot::bias)
        {
            found = bias.to_vec();
        }
        assert_eq!(found.len(), shape.iter().product::<usize>(), "numbers of {name} in memory");
        self.round(&mut found);
        Ok(found)
    }

    fn operator(&mut self, site: &SiteId, _shape: Shape) -> Result<Op<f32>, CheckpointError> {
        let slot = self.decoder.slot(site).expect("the saved model has the sites of this one");
        let failed = |source| CheckpointError::Operator { site: site.clone(), source };
        if self.form == Form::Dense {
            let mut weight = slot.op().to_dense().map_err(failed)?;
            self.round(weight.data_mut());
            return Ok(Op::Linear(Box::new(Dense::new(weight))));
        }
        let mut op = slot.op().clone();
        for param in op.map_mut().params_mut() {
            self.round(param.values);
        }
        Ok(op)
    }
}

/// Gives the parts of layer `layer` to a decoder that asks for layer 0.
struct OneLayer<S> {
    source: S,
    layer: usize,
}

impl<S> OneLayer<S> {
    fn renamed(&self, name: &str) -> String {
        name.replacen("model.layers.0.", &format!("model.layers.{}.", self.layer), 1)
    }
}

impl<S: TensorSource> TensorSource for OneLayer<S> {
    type Error = S::Error;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, S::Error> {
        if name == EMBEDDING || name == FINAL_NORM {
            return Ok(vec![0.0; shape.iter().product()]);
        }
        let name = self.renamed(name);
        self.source.tensor(&name, shape)
    }

    fn operator(&mut self, site: &SiteId, shape: Shape) -> Result<Op<f32>, S::Error> {
        let site = SiteId(self.renamed(&site.0));
        self.source.operator(&site, shape)
    }
}
