//! Verification of a saved model against the one in memory.
//!
//! The saved model is run in parts, one layer or one block of the vocabulary in memory at a time,
//! so that the check of a large model needs no second copy in memory.

use super::error::CheckpointError;
use super::form::Form;
use super::native;
use super::reader::Reader;
use super::source::Source;
use crate::ModelError;
use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::transformer::{Held, Orientation, Shown, TensorSource, Transformer};
use linwright_files::Weights;
use linwright_ops::{Dense, LinearSlot, NoProbe, Op, OpSpec, Shape, SiteId, Sites};
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::gemm::Weight;
use linwright_tensor::{Mat, RngKey};
use std::ops::Range;
use std::path::Path;

/// Number of test sequences.
const PROMPTS: usize = 4;
/// Tokens of each.
const PROMPT_TOKENS: usize = 24;

/// Largest number of vocabulary rows in memory.
const VOCABULARY_ROWS: usize = 4096;

/// Tolerance, relative to the largest logit, between a dense form in `f32` and its operators, whose
/// products are rounded once more. All other forms run the very same numbers after rounding to the
/// storage type.
pub(super) const REORDERED: f32 = 1e-3;

/// Distance between two outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gap {
    /// Largest difference of two numbers.
    pub largest: f32,
    /// Root mean square of the differences, in standard deviations of the numbers themselves.
    pub relative: f64,
}

/// The test sequences: random, and fixed for a vocabulary.
#[must_use]
pub fn fixed_prompts(config: &TransformerConfig) -> Vec<Vec<u32>> {
    let mut stream = RngKey::new(0).fold("verify").stream();
    let tokens = PROMPT_TOKENS.min(config.max_positions);
    let mut prompt = || (0..tokens).map(|_| stream.below(config.vocab) as u32).collect();
    (0..PROMPTS).map(|_| prompt()).collect()
}

/// Loads the model saved in `dir` and compares its logits on token sequences with those of
/// `decoder` rounded to the storage type. Returns the difference from the unrounded `decoder`: the
/// effect of storage.
///
/// # Errors
/// [`CheckpointError::Differs`] if the saved model is not the one in memory, and errors of loading.
pub fn verify(
    dir: &Path,
    decoder: &Transformer,
    prompts: &[Vec<u32>],
    form: Form,
) -> Result<Gap, CheckpointError> {
    let sequences: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let batch = Batch::new(&sequences);
    let check = |source: ModelError| CheckpointError::Check { path: dir.into(), source };
    let mut hidden = decoder.embed(&batch).map_err(check)?;
    let layers = 0..decoder.config().layers.len();
    decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe).map_err(check)?;
    let exact = ends_of(decoder, hidden, &batch);
    let saved = Saved::open(dir)?;
    if &saved.config != decoder.config() {
        return Err(CheckpointError::Differs { path: dir.into(), found: f32::NAN, allowed: 0.0 });
    }
    let dtype = saved.weights.main_dtype();
    let rounded = || Rounded { decoder, dtype, vectors: dtype, tables: dtype, form };
    let off = embedding_difference(&saved.config, &mut saved.reader()?, &mut rounded())?;
    if off > 0.0 || off.is_nan() {
        return Err(CheckpointError::Differs { path: dir.into(), found: off, allowed: 0.0 });
    }
    let found = in_parts(dir, &saved.config, &batch, &|| saved.reader())?;
    let (of_storage, largest) = compare(&exact, &found);
    // In the same parts, so that equal numbers give equal bits.
    let again = || {
        let expected = in_parts(dir, &saved.config, &batch, &|| Ok(rounded()))?;
        Ok::<_, CheckpointError>(compare(&expected, &found).0)
    };
    let (gap, off, allowed) = match (dtype, form) {
        (DType::F32 | DType::F64, Form::Dense) => (of_storage, of_storage, REORDERED * largest),
        (DType::F32 | DType::F64, Form::Native | Form::Factored) => {
            let off = again()?;
            (off, off, 0.0)
        }
        (DType::F16 | DType::Bf16, _) => (of_storage, again()?, 0.0),
    };
    let off = off.largest;
    if off > allowed || off.is_nan() {
        return Err(CheckpointError::Differs { path: dir.into(), found: off, allowed });
    }
    Ok(gap)
}

/// The output of a model for the last layer's rows: logits, or the rows themselves if there is no
/// head; and the output of the pooler.
pub(super) fn ends_of(model: &Transformer, hidden: Mat<f32>, batch: &Batch) -> Vec<Mat<f32>> {
    let pooled = model.pooler_output(hidden.view(), batch);
    let end = if model.has_head() { model.logits(hidden.view()) } else { hidden };
    [Some(end), pooled].into_iter().flatten().collect()
}

/// The difference between two outputs, and the largest number of the first.
pub(super) fn compare(expected: &[Mat<f32>], found: &[Mat<f32>]) -> (Gap, f32) {
    const UNLIKE: Gap = Gap { largest: f32::NAN, relative: f64::NAN };
    let (mut largest, mut difference) = (0.0f32, 0.0f32);
    let (mut count, mut sum, mut squares, mut gaps) = (0.0, 0.0, 0.0, 0.0);
    if expected.len() != found.len() {
        return (UNLIKE, 0.0);
    }
    for (expected, found) in expected.iter().zip(found) {
        if expected.rows() != found.rows() || expected.cols() != found.cols() {
            return (UNLIKE, 0.0);
        }
        for (a, b) in expected.data().iter().zip(found.data()) {
            largest = largest.max(a.abs());
            // `max` would drop a NaN.
            let gap = (a - b).abs();
            difference = if gap > difference || gap.is_nan() { gap } else { difference };
            let value = f64::from(*a);
            count += 1.0;
            sum += value;
            squares += value * value;
            gaps += f64::from(gap).powi(2);
        }
    }
    // Equal outputs have no difference, regardless of their spread.
    let spread: f64 = squares - sum * sum / count;
    let relative = if gaps == 0.0 { 0.0 } else { (gaps / spread.max(f64::MIN_POSITIVE)).sqrt() };
    (Gap { largest: difference, relative }, largest)
}

/// The largest difference between the stored embedding and that in memory: the test sequences may
/// not use all of its rows.
pub(super) fn embedding_difference(
    config: &TransformerConfig,
    reader: &mut impl RowSource,
    expected: &mut Rounded<'_>,
) -> Result<f32, CheckpointError> {
    let shape = [config.vocab, config.embedding_width];
    let (name, mut difference) = (embedding(config), 0.0f32);
    for rows in vocabulary_blocks(shape[0]) {
        let len = rows.len();
        let of = |values| Mat::from_vec(len, shape[1], values);
        let found = of(reader.rows(&name, shape, rows.clone())?);
        let gap = compare(&[of(expected.rows(&name, shape, rows)?)], &[found]).0.largest;
        difference = if gap > difference || gap.is_nan() { gap } else { difference };
    }
    Ok(difference)
}

/// Name of the embedding of tokens.
fn embedding(config: &TransformerConfig) -> String {
    config.layout().embedding.name
}

/// Site of the output matrix, unless it is tied.
fn head(config: &TransformerConfig) -> Option<SiteId> {
    config.layout().head.map(|linear| SiteId(linear.site))
}

/// Blocks of equal length, except the last.
fn vocabulary_blocks(vocab: usize) -> impl Iterator<Item = Range<usize>> {
    let step = vocab.div_ceil(vocab.div_ceil(VOCABULARY_ROWS).max(1)).max(1);
    (0..vocab).step_by(step).map(move |start| start..vocab.min(start + step))
}

/// A source of tensors that also yields rows of them.
pub(super) trait RowSource: TensorSource<Error = CheckpointError> {
    /// Some rows of a tensor.
    fn rows(
        &mut self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError>;

    /// Whether a site holds an operator other than a dense matrix.
    fn is_structured(&self, site: &SiteId) -> bool;
}

/// The head of a model whose vocabulary is `embedding`, a block of the whole one.
struct Ends<'a, S> {
    source: &'a mut S,
    config: &'a TransformerConfig,
    embedding: Vec<f32>,
    block: Range<usize>,
    asked_bias: Option<String>,
}

impl<S: RowSource> TensorSource for Ends<'_, S> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        if name == embedding(self.config) {
            return Ok(std::mem::take(&mut self.embedding));
        }
        // A tied block looks up its bias under the name of a tied head.
        if Some(name) == self.asked_bias.as_deref()
            && let Some(bias) = bias_of_logits(self.config)
        {
            let whole = self.source.tensor(&bias, &[self.config.vocab])?;
            return Ok(whole[self.block.clone()].to_vec());
        }
        self.source.tensor(name, shape)
    }

    fn operator(
        &mut self,
        site: &SiteId,
        shape: Shape,
        orientation: Orientation,
    ) -> Result<Op<f32>, CheckpointError> {
        self.source.operator(site, shape, orientation)
    }
}

/// Name of the bias of the logits.
fn bias_of_logits(config: &TransformerConfig) -> Option<String> {
    let layout = config.layout();
    let head = layout.head.filter(|head| head.bias).map(|head| format!("{}.bias", head.site));
    head.or(layout.tied_bias.map(|table| table.name))
}

/// A model without layers, for a block of the vocabulary.
fn ends<S: RowSource>(
    config: &TransformerConfig,
    source: &mut S,
    embedding: Vec<f32>,
    block: Range<usize>,
) -> Result<Transformer, CheckpointError> {
    let vocab = embedding.len() / config.embedding_width;
    let part = TransformerConfig {
        layers: Vec::new(),
        vocab,
        tied_embeddings: true,
        pooler: false,
        ..config.clone()
    };
    let asked_bias = bias_of_logits(&part);
    Transformer::from_source(part, &mut Ends { source, config, embedding, block, asked_bias })
}

/// The embeddings of a batch, from the rows of its tokens only.
fn embed_in_parts<S: RowSource>(
    dir: &Path,
    config: &TransformerConfig,
    batch: &Batch,
    source: &mut S,
) -> Result<Mat<f32>, CheckpointError> {
    let (shape, mut rows) = ([config.vocab, config.embedding_width], Vec::new());
    let name = embedding(config);
    for &token in batch.tokens() {
        rows.extend(source.rows(&name, shape, token as usize..token as usize + 1)?);
    }
    let own: Vec<u32> = (0..batch.len() as u32).collect();
    let sequences: Vec<&[u32]> = batch.spans().iter().map(|span| &own[span.clone()]).collect();
    let check = |source: ModelError| CheckpointError::Check { path: dir.into(), source };
    let mut biases = config.biases;
    biases.head = false;
    let config = TransformerConfig { masked_head: false, biases, ..config.clone() };
    ends(&config, source, rows, 0..batch.len())?.embed(&Batch::new(&sequences)).map_err(check)
}

/// Logits from the last layer's rows, one block of the vocabulary at a time.
fn head_in_parts<S: RowSource>(
    config: &TransformerConfig,
    hidden: &Mat<f32>,
    source: &mut S,
) -> Result<Mat<f32>, CheckpointError> {
    let site = head(config);
    if site.as_ref().is_some_and(|site| source.is_structured(site)) {
        let part = TransformerConfig { layers: Vec::new(), ..config.clone() };
        // Zeros that are never read and take no memory.
        let embedding = vec![0.0; config.vocab * config.embedding_width];
        let block = 0..config.vocab;
        let mut source = Ends { source, config, embedding, block, asked_bias: None };
        return Ok(Transformer::from_source(part, &mut source)?.logits(hidden.view()));
    }
    let name = site.map_or_else(|| embedding(config), |site| format!("{site}.weight"));
    let mut logits = Mat::zeros(hidden.rows(), config.vocab);
    for block in vocabulary_blocks(config.vocab) {
        let rows = source.rows(&name, [config.vocab, config.embedding_width], block.clone())?;
        let part = ends(config, source, rows, block.clone())?.logits(hidden.view());
        logits.view_mut().columns(block.start, block.len()).copy_from(part.view());
    }
    Ok(logits)
}

/// The output of a model with one part in memory at a time, as in [`ends_of`].
pub(super) fn in_parts<S: RowSource>(
    dir: &Path,
    config: &TransformerConfig,
    batch: &Batch,
    open: &dyn Fn() -> Result<S, CheckpointError>,
) -> Result<Vec<Mat<f32>>, CheckpointError> {
    let check = |source: ModelError| CheckpointError::Check { path: dir.into(), source };
    let mut hidden = embed_in_parts(dir, config, batch, &mut open()?)?;
    for (layer, kind) in config.layers.iter().enumerate() {
        let part = TransformerConfig { layers: vec![*kind], ..without_ends(config) };
        let mut source = OneLayer { source: open()?, config, layer };
        let part = Transformer::from_source(part, &mut source)?;
        part.run_layers(&mut hidden, batch, 0..1, &mut NoProbe).map_err(check)?;
    }
    let pooled = if config.pooler {
        let part = TransformerConfig { layers: Vec::new(), pooler: true, ..without_ends(config) };
        let mut source = OneLayer { source: open()?, config, layer: 0 };
        Transformer::from_source(part, &mut source)?.pooler_output(hidden.view(), batch)
    } else {
        None
    };
    let has_head = config.is_causal() || config.masked_head;
    let end = if has_head { head_in_parts(config, &hidden, &mut open()?)? } else { hidden };
    Ok([Some(end), pooled].into_iter().flatten().collect())
}

/// A model with an unused vocabulary.
fn without_ends(config: &TransformerConfig) -> TransformerConfig {
    TransformerConfig {
        vocab: 1,
        tied_embeddings: true,
        masked_head: false,
        pooler: false,
        ..config.clone()
    }
}

/// A saved model with one part in memory at a time.
struct Saved<'a> {
    dir: &'a Path,
    source: Source,
    config: TransformerConfig,
    weights: Weights,
}

impl<'a> Saved<'a> {
    fn open(dir: &'a Path) -> Result<Self, CheckpointError> {
        let (source, _) = Source::read(dir)?;
        let config = source.decoder_config()?;
        source.tokenizer(&config)?;
        let weights = Weights::open(dir)?;
        let saved = Self { dir, source, config, weights };
        let reader = saved.reader()?;
        let config = saved.config.clone().with_ends(|name| reader.has(name));
        Ok(Self { config, ..saved })
    }

    fn reader(&self) -> Result<Reader<'_>, CheckpointError> {
        let headers = native::read(self.dir, &self.source.config)?;
        Ok(Reader::new(self.dir, &self.weights, self.config.family, headers))
    }
}

/// The model in memory as saved: every number rounded to the storage type.
pub(super) struct Rounded<'a> {
    pub(super) decoder: &'a Transformer,
    /// Type of matrices.
    pub(super) dtype: DType,
    /// Type of vectors.
    pub(super) vectors: DType,
    /// Type of tables of positions and of token types.
    pub(super) tables: DType,
    pub(super) form: Form,
}

fn round(dtype: DType, values: &mut [f32]) {
    // In pieces: otherwise a whole embedding would be held twice.
    for piece in values.chunks_mut(1 << 16) {
        dtype.decode_into(&dtype.encode(piece), piece);
    }
}

impl TensorSource for Rounded<'_> {
    type Error = CheckpointError;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let mut numbers = Vec::new();
        self.decoder.for_each_tensor(&mut |other, _, values| {
            if other == name {
                numbers = values.numbers().into_owned();
            }
        });
        let biased = |slot: &&LinearSlot| name.strip_suffix(".bias") == Some(slot.id().0.as_str());
        if let Some(bias) = self.decoder.slots().into_iter().find(biased).and_then(LinearSlot::bias)
        {
            numbers = bias.to_vec();
        }
        assert_eq!(numbers.len(), shape.iter().product::<usize>(), "numbers of {name} in memory");
        round(if shape.len() == 2 { self.tables } else { self.vectors }, &mut numbers);
        Ok(numbers)
    }

    fn operator(
        &mut self,
        site: &SiteId,
        _shape: Shape,
        _orientation: Orientation,
    ) -> Result<Op<f32>, CheckpointError> {
        let slot = self.decoder.slot(site).expect("the saved model has the sites of this one");
        let failed = |source| CheckpointError::Operator { site: site.clone(), source };
        let held_in_half = matches!(slot.op().map().weight(), Some(Weight::Half(_)));
        if self.form == Form::Dense || held_in_half {
            let mut weight = slot.op().to_dense().map_err(failed)?;
            round(self.dtype, weight.data_mut());
            slot.op().map().release();
            return Ok(Op::Linear(Box::new(Dense::new(weight))));
        }
        let mut op = slot.op().clone();
        for param in op.map_mut().params_mut() {
            round(self.dtype, param.values);
        }
        slot.op().map().release();
        Ok(op)
    }
}

impl RowSource for Rounded<'_> {
    fn rows(
        &mut self,
        name: &str,
        [_, cols]: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        let (numbers, mut found) = (rows.start * cols..rows.end * cols, Vec::new());
        self.decoder.for_each_tensor(&mut |other, _, values| {
            if other == name {
                found = values.part(numbers.clone());
            }
        });
        let is_asked = |site: &SiteId| name.strip_suffix(".weight") == Some(&site.0);
        let head = head(self.decoder.config()).filter(is_asked);
        if let Some(head) = head.and_then(|site| self.decoder.slot(&site)) {
            let failed = |source| CheckpointError::Operator { site: head.id().clone(), source };
            found = match head.op().map().weight() {
                Some(Weight::Full(weight)) => weight.data()[numbers].to_vec(),
                Some(Weight::Half(weight)) => Shown::Half(weight).part(numbers),
                None => head.op().to_dense().map_err(failed)?.data()[numbers].to_vec(),
            };
            head.op().map().release();
        }
        assert_eq!(found.len(), rows.len() * cols, "rows of {name} in memory");
        round(self.dtype, &mut found);
        Ok(found)
    }

    fn is_structured(&self, site: &SiteId) -> bool {
        let slot = self.decoder.slot(site);
        self.form != Form::Dense && slot.is_some_and(|slot| !is_dense(slot))
    }
}

fn is_dense(slot: &LinearSlot) -> bool {
    matches!(slot.op().map().spec(), OpSpec::Dense(_))
}

impl RowSource for Reader<'_> {
    fn rows(
        &mut self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        self.some_rows(name, shape, rows)
    }

    fn is_structured(&self, site: &SiteId) -> bool {
        Reader::is_structured(self, site)
    }
}

/// Passes the parts of layer `layer`, or of the pooler, to a model without other parts, which are
/// zeros.
struct OneLayer<'a, S> {
    source: S,
    config: &'a TransformerConfig,
    layer: usize,
}

impl<S> OneLayer<'_, S> {
    /// The name in the whole model, if the tensor belongs to the requested part.
    fn whole(&self, name: &str) -> Option<String> {
        let names = &self.config.family.names;
        let of = |layer: usize| format!("{}{}.{layer}.", names.prefix, names.layer);
        if let Some(rest) = name.strip_prefix(&of(0)) {
            return Some(of(self.layer) + rest);
        }
        let pooler = format!("{}{}.", names.prefix, names.pooler?);
        format!("{name}.").starts_with(&pooler).then(|| name.to_owned())
    }
}

impl<S: TensorSource> TensorSource for OneLayer<'_, S> {
    type Error = S::Error;

    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, S::Error> {
        match self.whole(name) {
            Some(name) => self.source.tensor(&name, shape),
            None => Ok(vec![0.0; shape.iter().product()]),
        }
    }

    fn operator(
        &mut self,
        site: &SiteId,
        shape: Shape,
        orientation: Orientation,
    ) -> Result<Op<f32>, S::Error> {
        match self.whole(&site.0) {
            Some(site) => self.source.operator(&SiteId(site), shape, orientation),
            None => {
                let zeros = vec![0.0; shape.out * shape.inp];
                Ok(orientation.dense(shape, Held::Full(zeros)))
            }
        }
    }
}
