//! Importance of rows and columns on examples of the calibration text, from one backward pass.

use super::Sample;
use super::salience::{Criterion, LossGradients};
use crate::LmError;
use linwright_compress::CompressError;
use linwright_model::{Batch, Role, Transformer, Windows};
use linwright_ops::{
    CrossEntropy, Differentiable, LinearSlot, Probe, Seen, SeenGradient, SiteId, Sites,
};
use linwright_run::Monitor;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef, RngKey};
use std::collections::{BTreeMap, BTreeSet};

/// Most tokens of a batch: a backward pass has the activations of all in memory.
const BATCH_TOKENS: usize = 4096;

/// Importance of the rows of input projections and of the columns of output projections.
pub(super) type Members = BTreeMap<SiteId, Vec<f64>>;

/// Random runs of tokens, each of another training window as long as there are such. Shorter
/// windows count only if no other exists.
pub(super) fn examples(windows: &Windows, sample: Sample, key: RngKey) -> Vec<&[u32]> {
    let training = &windows.windows()[..windows.training()];
    let longest = training.iter().map(Vec::len).max().unwrap_or(0);
    let length = sample.tokens.min(longest);
    let long: Vec<&Vec<u32>> = training.iter().filter(|window| window.len() >= length).collect();
    let mut stream = key.fold("examples").stream();
    let mut order: Vec<u32> = Vec::new();
    let mut one = || {
        let at = order.pop().unwrap_or_else(|| {
            order = stream.permutation(long.len());
            order.pop().expect("there is a training window")
        });
        let window = long[at as usize];
        let start = stream.below(window.len() - length + 1);
        &window[start..start + length]
    };
    (0..sample.examples).map(|_| one()).collect()
}

/// Importance of rows and columns of these sites by their weights alone.
pub(super) fn by_weights(
    criterion: Criterion,
    model: &Transformer,
    sites: &BTreeSet<SiteId>,
) -> Members {
    let slots = model.slots().into_iter().filter(|slot| sites.contains(slot.id()));
    slots.map(|slot| (slot.id().clone(), member(criterion, slot, None))).collect()
}

/// Examples of equal length, and how many of them go through the model at once.
#[derive(Clone, Copy)]
pub(super) struct Examples<'a> {
    pub(super) all: &'a [&'a [u32]],
    pub(super) at_once: usize,
}

impl<'a> Examples<'a> {
    /// As many at once as [`BATCH_TOKENS`] allow.
    pub(super) fn of(all: &'a [&'a [u32]]) -> Self {
        let tokens = all.first().map_or(1, |example| example.len().max(1));
        Self { all, at_once: (BATCH_TOKENS / tokens).max(1) }
    }
}

/// Importance of rows and columns of these sites on examples, whose labels are their next tokens.
pub(super) fn by_loss(
    criterion: Criterion,
    model: &Transformer,
    sites: &BTreeSet<SiteId>,
    examples: Examples<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Members, LmError> {
    let slots = model.slots().into_iter().filter(|slot| sites.contains(slot.id()));
    let slots = slots.map(|slot| (slot.id(), slot)).collect();
    let batches = examples.all.chunks(examples.at_once);
    let (count, total) = (batches.len(), examples.all.len());
    let mut probe = Summing { criterion, slots, total, ..Summing::default() };
    for (at, texts) in batches.enumerate() {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted.into());
        }
        let batch = Batch::new(texts);
        let targets = batch.next_tokens();
        probe.batch = texts.len();
        probe.is_last = at + 1 == count;
        model.loss_to_slots(&batch, &mut CrossEntropy::mean(&targets), &mut probe)?;
        if count > 1 {
            monitor.progress(at as u64 + 1, count as u64);
        }
    }
    Ok(probe.members)
}

/// Importance of the rows of an input projection, or of the columns of an output projection.
fn member(
    criterion: Criterion,
    slot: &LinearSlot,
    gradients: Option<LossGradients<'_>>,
) -> Vec<f64> {
    let weight = slot.op().to_dense().expect("dense weights were checked");
    match Role::of(slot).ends_branch() {
        true => criterion.of_columns(weight.view(), gradients),
        false => criterion.of_rows(weight.view(), gradients),
    }
}

/// Takes saliences in the backward pass of the last batch. If it is the only one, one gradient of a
/// weight is in memory at a time.
#[derive(Default)]
struct Summing<'a> {
    criterion: Criterion,
    slots: BTreeMap<&'a SiteId, &'a LinearSlot>,
    /// Examples of the batch and of all batches.
    batch: usize,
    total: usize,
    is_last: bool,
    /// Sums over the batches before.
    sums: BTreeMap<SiteId, Gradients>,
    members: Members,
}

/// Gradient of the mean loss, and mean of the squared gradients of single examples.
struct Gradients {
    mean: Mat<f32>,
    squares: Option<Mat<f32>>,
}

impl Gradients {
    fn add(&mut self, other: &Self) {
        let add = |sums: &mut Mat<f32>, other: &Mat<f32>| {
            sums.data_mut().iter_mut().zip(other.data()).for_each(|(sum, own)| *sum += own);
        };
        add(&mut self.mean, &other.mean);
        if let (Some(sums), Some(other)) = (&mut self.squares, &other.squares) {
            add(sums, other);
        }
    }
}

impl Probe for Summing<'_> {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _seen: Seen<'_>) {}

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.slots.contains_key(site)
    }

    fn wants_input_again(&self, site: &SiteId) -> bool {
        self.slots.contains_key(site)
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        let (Some(slot), Some(x)) = (self.slots.get(site), seen.x) else { return };
        // The loss of a batch is the mean over its examples, theirs that over their own tokens.
        let (batch, total) = (self.batch as f32, self.total as f32);
        let mut mean = weight_gradient(x, seen.dy);
        mean.data_mut().iter_mut().for_each(|own| *own *= batch / total);
        let squares = self.criterion.needs_squares().then(|| {
            let mut squares = Mat::zeros(mean.rows(), mean.cols());
            for example in seen.examples {
                let (start, count) = (example.rows.start, example.rows.len());
                let [x, dy] = [x, seen.dy].map(|mat| mat.rows_range(start, count));
                let own = weight_gradient(x, dy);
                let scale = batch * (batch / total);
                for (sum, own) in squares.data_mut().iter_mut().zip(own.data()) {
                    *sum += scale * own * own;
                }
            }
            squares
        });
        let mut gradients = Gradients { mean, squares };
        if let Some(before) = self.sums.remove(site) {
            gradients.add(&before);
        }
        if !self.is_last {
            self.sums.insert(site.clone(), gradients);
            return;
        }
        let squares = gradients.squares.as_ref().map(Mat::view);
        let gradients = LossGradients { mean: gradients.mean.view(), squares };
        let member = member(self.criterion, slot, Some(gradients));
        self.members.insert(site.clone(), member);
    }
}

/// Gradient (out, inp) of a weight: `dyᵀ x`.
fn weight_gradient(x: MatRef<'_, f32>, dy: MatRef<'_, f32>) -> Mat<f32> {
    let mut gradient = Mat::zeros(dy.cols(), x.cols());
    product(1.0, Arg::Transposed(dy), Arg::Plain(x), gradient.view_mut(), Write::Set);
    gradient
}
