//! Importance of rows and columns on examples of the calibration text, from one backward pass.

use super::Sample;
use super::salience::{Criterion, LossGradients};
use linwright_model::{Batch, ModelError, Role, Transformer, Windows};
use linwright_ops::{
    CrossEntropy, Differentiable, LinearSlot, Probe, Seen, SeenGradient, SiteId, Sites,
};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef, RngKey};
use std::collections::{BTreeMap, BTreeSet};

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

/// Importance of rows and columns of these sites on examples of equal length, whose labels are
/// their next tokens.
pub(super) fn by_loss(
    criterion: Criterion,
    model: &Transformer,
    sites: &BTreeSet<SiteId>,
    examples: &[&[u32]],
) -> Result<Members, ModelError> {
    let batch = Batch::new(examples);
    let targets = batch.next_tokens();
    let slots = model.slots().into_iter().filter(|slot| sites.contains(slot.id()));
    let slots = slots.map(|slot| (slot.id(), slot)).collect();
    let examples = examples.len();
    let mut probe = Summing { criterion, slots, examples, members: Members::new() };
    model.loss_to_slots(&batch, &mut CrossEntropy::mean(&targets), &mut probe)?;
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

/// Sums saliences in the backward pass, so that only one gradient of a weight is in memory.
struct Summing<'a> {
    criterion: Criterion,
    slots: BTreeMap<&'a SiteId, &'a LinearSlot>,
    /// Number of examples of the batch.
    examples: usize,
    members: Members,
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
        let mean = weight_gradient(x, seen.dy);
        let squares = self.criterion.needs_squares().then(|| {
            let mut squares = Mat::zeros(mean.rows(), mean.cols());
            for example in seen.examples {
                let (start, count) = (example.rows.start, example.rows.len());
                let [x, dy] = [x, seen.dy].map(|mat| mat.rows_range(start, count));
                let own = weight_gradient(x, dy);
                // The loss is the mean over the examples, theirs that over their own tokens.
                let scale = self.examples as f32;
                for (sum, own) in squares.data_mut().iter_mut().zip(own.data()) {
                    *sum += scale * own * own;
                }
            }
            squares
        });
        let squares = squares.as_ref().map(Mat::view);
        let gradients = LossGradients { mean: mean.view(), squares };
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
