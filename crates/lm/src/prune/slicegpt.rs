//! Fewer dimensions of the residual stream, in one basis for all layers.

use super::pieces::{chosen, lockstep};
use super::{Cut, PruneError, PruneMethod, PruneProblem, SiteSize, narrowed};
use crate::LmError;
use linwright_compress::fit::Ridge;
use linwright_compress::fit::regression::multiply;
use linwright_compress::fit::ridge::Pulled;
use linwright_compress::methods::{Fit, FitProblem, FitReport};
use linwright_compress::pipeline::{Context, Edited, in_passes, put_fit};
use linwright_compress::{CompressError, FitError};
use linwright_measure::capture::{CaptureError, Evidence, Needs, Wanted};
use linwright_measure::stats::InputSums;
use linwright_model::{
    AttentionConfig, MlpConfig, ModelError, Role, Transformer, Windows, centred_basis,
};
use linwright_ops::{Dense, Examples, LinearSlot, Network, NoProbe, Op, SiteId, Sites};
use linwright_run::Monitor;
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::kernels::norm::{Norm, NormKind, norm};
use linwright_tensor::linalg::eigh_leading;
use linwright_tensor::{Mat, MatRef, RngKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A narrower residual stream: the directions in which it varies least are removed, and linear
/// layers are refitted to the outputs of the original model.
///
/// The basis consists of the leading eigenvectors of the second moments of the normalised stream,
/// averaged over the inputs of attention, MLPs and head. A model at keep 1 keeps its outputs. The
/// share of parameters applies to the linear layers of all layers; embedding and head shrink as
/// well. Directions are a multiple of the query heads, as other programs want it.
///
/// Source: SliceGPT (Ashkboos et al. 2024, arXiv:2401.15024). The paper has a basis for each block,
/// with matrices on the skip connections, which no ordinary class has; here all layers share one.
/// The paper does not refit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SliceGpt {
    /// Whether linear layers are refitted.
    pub refit: bool,
    /// Ridge of refitted weights towards the sliced ones.
    pub ridge: Ridge,
}

impl Default for SliceGpt {
    fn default() -> Self {
        Self { refit: true, ridge: Ridge::Auto }
    }
}

impl PruneMethod for SliceGpt {
    const ID: &'static str = "slicegpt";
    const SUMMARY: &'static str =
        "a narrower residual stream, in one basis for all layers; loads where head_dim is a field";

    fn needs_text(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), String> {
        self.ridge.check()
    }

    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
        let mut config = original.config().clone();
        config.hidden = kept_directions(original, cut)?;
        config.embedding_width = config.hidden;
        let shapes: BTreeMap<String, Vec<usize>> = config.tensor_shapes().into_iter().collect();
        let slots = original.slots().into_iter().filter(|slot| slot.layer().is_some());
        let size = |slot: &LinearSlot| SiteSize {
            site: slot.id().clone(),
            dense: slot.shape().dense_parameters(),
            kept: shapes[&format!("{}.weight", slot.id())].iter().product(),
        };
        Ok(slots.map(size).collect())
    }

    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError> {
        let PruneProblem { original, cut, .. } = *problem;
        let windows = problem.windows.ok_or(PruneError::NoText { method: Self::ID })?;
        let kept = kept_directions(original, cut)?;
        let hidden = original.config().hidden;
        if kept == hidden {
            let reports = BTreeMap::new();
            return Ok(narrowed::edited(original, original.clone(), Self::ID, |_| true, reports));
        }
        // Its norms have no weights, so what they give is the normalised stream.
        let base = original.in_basis(Mat::identity(hidden).view()).map_err(PruneError::from)?;
        monitor.step("directions of the residual stream");
        let moments = second_moments(&base, windows, monitor)?;
        let basis = principal(moments, kept, base.config().norm.kind)?;
        let (sliced, reports) = match self.refit {
            false => (original.in_basis(basis.view()).map_err(PruneError::from)?, BTreeMap::new()),
            true => {
                let needed = self.ridge == Ridge::Auto;
                let pass = |context: &Context<'_>, monitor: &mut dyn Monitor| {
                    self.refitted(context, (&base, windows), &basis, monitor)
                };
                let (fitted, reports) =
                    in_passes(problem.context, windows, needed, monitor, pass, |(_, reports)| {
                        chosen(reports)
                    })?;
                (fitted.in_basis(basis.view()).map_err(PruneError::from)?, reports)
            }
        };
        Ok(narrowed::edited(original, sliced, Self::ID, |_| true, reports))
    }
}

impl SliceGpt {
    /// The model without other directions than those of the basis, in its original width, with
    /// linear layers refitted in the order of computation.
    fn refitted(
        &self,
        context: &Context<'_>,
        (base, windows): (&Transformer, &Windows),
        basis: &Mat<f64>,
        monitor: &mut dyn Monitor,
    ) -> Result<(Transformer, BTreeMap<SiteId, FitReport>), LmError> {
        let mut network = base.within_basis(basis.view()).map_err(PruneError::from)?;
        let mut lockstep = lockstep(base, windows, context).begins_apart();
        let slots: Vec<&LinearSlot> =
            base.slots().into_iter().filter(|slot| slot.layer().is_some()).collect();
        let mut reports = BTreeMap::new();
        for group in slots.chunk_by(|a, b| a.reads() == b.reads()) {
            monitor.step(&format!("{}: refit", group[0].id()));
            monitor.whole(reports.len() as f64 / slots.len() as f64);
            let wanted = group.iter().map(|slot| Wanted { site: slot.id(), needs: Needs::Stats });
            let wanted: Vec<Wanted<'_>> = wanted.collect();
            let captures = lockstep.capture(&network, &wanted, monitor)?;
            for (slot, capture) in group.iter().zip(&captures) {
                let current = network.slot(slot.id()).expect("it is a slot of the model");
                let ridge = context.fit_to.ridge(slot.id());
                let fit =
                    self.fit(base, slot, current, basis.view(), (&capture.evidence, ridge))
                        .map_err(|source| CompressError::Fit { site: slot.id().clone(), source })?;
                reports.insert(slot.id().clone(), fit.report.clone());
                let into = network.slot_mut(slot.id()).expect("it is a slot of the model");
                lockstep.note_edit(into.stage().expect("a slot of a layer has a stage"));
                put_fit(into, slot.bias(), fit)?;
            }
        }
        base.release_scratch();
        Ok((network, reports))
    }

    /// The weight of a slot that comes closest to its original outputs, within the basis.
    fn fit(
        &self,
        base: &Transformer,
        slot: &LinearSlot,
        current: &LinearSlot,
        basis: MatRef<'_, f64>,
        (evidence, ridge): (&Evidence, Option<f64>),
    ) -> Result<Fit, FitError> {
        let problem = FitProblem {
            site: slot.id(),
            shape: slot.shape(),
            original: slot.op(),
            size: None,
            evidence: Some(evidence),
            components: None,
            bias: slot.bias(),
            key: RngKey::new(0),
            ridge,
            checkpoint: None,
            part_rows: None,
        };
        let weight: Mat<f64> = current.op().to_dense()?.cast();
        let sums = problem.sums()?;
        let pulled = match reads(base, slot) {
            false => problem.regression(sums, &weight, self.ridge)?,
            true => {
                // Its inputs have no other directions.
                let [train, held_out] = sums.map(|sums| sums.through(basis));
                let weight = multiply(weight.view().into(), basis.into());
                let pulled = problem.regression([&train, &held_out], &weight, self.ridge)?;
                let map = multiply(pulled.map.view().into(), Arg::Transposed(basis));
                Pulled { map, ..pulled }
            }
        };
        let best = match writes(slot) {
            false => pulled.map.clone(),
            true => {
                let inner = multiply(Arg::Transposed(basis), pulled.map.view().into());
                multiply(basis.into(), inner.view().into())
            }
        };
        let op = Op::Linear(Box::new(Dense::new(best.cast())));
        let mut fit = problem.closed(op, &best, &pulled)?;
        if let Some(shift) = fit.bias_shift.as_mut().filter(|_| writes(slot)) {
            let wide: Mat<f64> = MatRef::new(shift.as_slice(), 1, slot.shape().out).to_mat().cast();
            let inner = multiply(wide.view().into(), basis.into());
            *shift = multiply(inner.view().into(), Arg::Transposed(basis)).cast().into_vec();
        }
        Ok(fit)
    }
}

/// Number of directions that are kept: the largest multiple of the alignment within the share.
fn kept_directions(original: &Transformer, cut: &Cut) -> Result<usize, PruneError> {
    original.check_basis()?;
    let config = original.config();
    if !(0..config.layers.len()).all(|layer| cut.has(layer)) {
        let reason = "all layers share one residual stream: prune all of them";
        return Err(PruneError::Model { method: SliceGpt::ID, reason: reason.into() });
    }
    let hidden = config.hidden;
    let least = if config.norm.kind == NormKind::Layer { 2 } else { 1 };
    // Classes of other programs want a multiple of the heads, whatever the width of a head is.
    let heads = if hidden.is_multiple_of(config.heads) { config.heads } else { 1 };
    let align = common_multiple(cut.alignment(hidden).max(1), heads);
    let share = (cut.keep * hidden as f64 + 1e-9) as usize;
    let kept = if cut.keep == 1.0 { hidden } else { share / align * align };
    if kept < least {
        let least = least.next_multiple_of(align) as f64 / hidden as f64;
        return Err(PruneError::TooSmall { method: SliceGpt::ID, keep: cut.keep, least });
    }
    Ok(kept)
}

/// The least common multiple.
fn common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

/// Whether a slot writes to the residual stream.
fn writes(slot: &LinearSlot) -> bool {
    Role::of(slot).ends_branch()
}

/// Whether a slot reads the residual stream.
fn reads(model: &Transformer, slot: &LinearSlot) -> bool {
    let layer = slot.layer().map(|layer| model.config().layers[layer]);
    let role = Role::of(slot);
    if !role.ends_branch() {
        return true;
    }
    layer.is_some_and(|layer| match role.is_in_attention() {
        true => layer.attention == AttentionConfig::Linear,
        false => layer.mlp == MlpConfig::Linear,
    })
}

/// Sums of the products of the normalised residual stream before every block and before the head.
fn second_moments(
    base: &Transformer,
    windows: &Windows,
    monitor: &mut dyn Monitor,
) -> Result<Mat<f64>, LmError> {
    let config = base.config();
    let mut sums = InputSums::new(config.hidden);
    let network = |error: ModelError| CompressError::Network(Box::new(error));
    let (kind, epsilon) = (config.norm.kind, config.norm.epsilon);
    let group = config.hidden;
    let plain = Norm { kind, epsilon, weight: None, bias: None, offset: 0.0, group };
    let batches = windows.training_batches();
    for index in 0..batches {
        if monitor.interrupted() {
            return Err(CaptureError::Interrupted.into());
        }
        let batch = windows.batch(index);
        let mut stream = base.begin(&batch).map_err(network)?;
        for stage in 0..=base.stages() {
            // Between them, parallel blocks hold an output that is not added yet.
            if config.parallel.is_none() || stage % 2 == 0 {
                let rows = stream.clone().into_rows();
                let mut normed = Mat::zeros(rows.rows(), rows.cols());
                norm(rows.view(), &plain, normed.view_mut());
                sums.add(normed.view());
            }
            if stage < base.stages() {
                let run = base.run_stages(&mut stream, &batch, stage..stage + 1, &mut NoProbe);
                run.map_err(network)?;
            }
        }
        monitor.progress(index as u64 + 1, batches as u64);
    }
    base.release_scratch();
    Ok(sums.finish().sxx)
}

/// A basis of the directions with the largest moments; with layer norms that of the mean is one.
fn principal(moments: Mat<f64>, kept: usize, kind: NormKind) -> Result<Mat<f64>, PruneError> {
    let hidden = moments.rows();
    let failed = |error: linwright_tensor::linalg::NoConvergence| PruneError::Basis {
        reason: error.to_string(),
    };
    if kind == NormKind::Rms {
        return Ok(eigh_leading(moments, kept).map_err(failed)?.rows.transpose());
    }
    // The stream has no mean; with a large one, the others are orthogonal to it.
    let trace: f64 = (0..hidden).map(|i| moments.at(i, i)).sum();
    let mean = (2.0 * trace + 1.0) / hidden as f64;
    let moments = Mat::from_fn(hidden, hidden, |i, j| moments.at(i, j) + mean);
    let rows = eigh_leading(moments, kept).map_err(failed)?.rows;
    Ok(centred_basis(rows.view().rows_range(1, kept - 1).to_mat().transpose().view()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny;
    use linwright_compress::fit::regression::subtract;
    use linwright_compress::pipeline::Context;
    use linwright_run::Silent;

    fn cut(keep: f64) -> Cut {
        Cut { keep, align: None, layers: None }
    }

    fn pruned(model: &Transformer, method: &SliceGpt, keep: f64) -> Edited<Transformer> {
        let windows = tiny::calibration(model, 2000);
        let context = Context::new("a model");
        let problem = PruneProblem {
            original: model,
            windows: Some(&windows),
            cut: &cut(keep),
            seed: 0,
            context: &context,
        };
        method.prune(&problem, &mut Silent).unwrap()
    }

    /// Mean squared difference of the logits of two models on a text, relative to the first.
    fn gap(a: &Transformer, b: &Transformer) -> f64 {
        let windows = tiny::calibration(a, 300);
        let batch = windows.batch(0);
        let logits = |model: &Transformer| {
            let mut hidden = model.embed(&batch).unwrap();
            let layers = 0..model.config().layers.len();
            model.run_layers(&mut hidden, &batch, layers, &mut NoProbe).unwrap();
            model.logits(hidden.view()).cast::<f64>()
        };
        let (a, mut b) = (logits(a), logits(b));
        subtract(&mut b, &a);
        let squares = |m: &Mat<f64>| m.data().iter().map(|v| v * v).sum::<f64>();
        squares(&b) / squares(&a)
    }

    #[test]
    fn sizes_are_those_of_the_pruned_model() {
        for stem in ["llama-head-dim-biases", "phi-parallel", "gpt2-plain", "gemma-tied"] {
            let model = tiny::checkpoint(stem).decoder;
            let sizes = SliceGpt::default().sizes(&model, &cut(0.6)).unwrap();
            let edited = pruned(&model, &SliceGpt::default(), 0.6);
            let found: Vec<usize> = edited.sites.iter().map(|site| site.parameters).collect();
            assert_eq!(sizes.iter().map(|size| size.kept).collect::<Vec<_>>(), found, "{stem}");
            let dense: usize = sizes.iter().map(|size| size.dense).sum();
            assert!(found.iter().sum::<usize>() as f64 <= 0.6 * dense as f64, "{stem}");
        }
    }

    #[test]
    fn a_whole_stream_is_the_original_model() {
        let model = tiny::checkpoint("llama-tied").decoder;
        let edited = pruned(&model, &SliceGpt::default(), 1.0);
        assert_eq!(gap(&model, &edited.network), 0.0);
    }

    #[test]
    fn a_stream_in_few_directions_loses_nothing_in_the_others() {
        for stem in ["llama-head-dim-biases", "phi-parallel"] {
            let model = tiny::checkpoint(stem).decoder;
            let hidden = model.config().hidden;
            let directions = Mat::from_fn(hidden, hidden / 4, |i, j| f64::from(i == j));
            let mut flat = directions;
            if model.config().norm.kind == NormKind::Layer {
                // Differences of neighbours have no mean.
                flat = Mat::from_fn(hidden, hidden / 4, |i, j| match i {
                    _ if i == 2 * j => 0.5f64.sqrt(),
                    _ if i == 2 * j + 1 => -0.5f64.sqrt(),
                    _ => 0.0,
                });
                flat = centred_basis(flat.view());
            }
            let flat = model.within_basis(flat.view()).unwrap();
            for refit in [false, true] {
                let method = SliceGpt { refit, ..SliceGpt::default() };
                let off = gap(&flat, &pruned(&flat, &method, 0.5).network);
                assert!(off < 1e-6, "{stem}, refit {refit}: off by {off:e}");
            }
        }
    }

    #[test]
    fn a_refit_comes_closer_to_the_original() {
        let model = tiny::checkpoint("llama-head-dim-biases").decoder;
        let of = |refit| {
            let method = SliceGpt { refit, ..SliceGpt::default() };
            gap(&model, &pruned(&model, &method, 0.6).network)
        };
        let (refitted, sliced) = (of(true), of(false));
        assert!(refitted < sliced, "{refitted:.4} instead of {sliced:.4}");
    }

    #[test]
    fn what_cannot_be_sliced_is_refused() {
        let model = tiny::checkpoint("llama-tied").decoder;
        let some = Cut { layers: Some(vec![0]), ..cut(0.5) };
        let error = SliceGpt::default().sizes(&model, &some).unwrap_err().to_string();
        assert!(error.contains("all layers share one residual stream"), "{error}");
        assert_eq!([common_multiple(8, 12), common_multiple(1, 5)], [24, 5]);
        let error = SliceGpt::default().sizes(&model, &cut(0.01)).unwrap_err();
        assert!(matches!(error, PruneError::TooSmall { .. }), "{error}");
        let post_norms = tiny::checkpoint("olmo2-post-norms").decoder;
        let error = SliceGpt::default().sizes(&post_norms, &cut(0.5)).unwrap_err().to_string();
        assert!(error.contains("a norm after a block"), "{error}");
    }
}
