//! Fewer transformer layers.

use super::{Cut, PruneError, PruneMethod, PruneProblem, SiteSize, narrowed};
use crate::LmError;
use linwright_compress::CompressError;
use linwright_compress::methods::FitReport;
use linwright_compress::pipeline::Edited;
use linwright_measure::capture::CaptureError;
use linwright_model::{Batch, ModelError, Transformer, Windows};
use linwright_ops::{Examples, LinearSlot, Network, NoProbe, Sites};
use linwright_run::Monitor;
use linwright_tensor::{Mat, MatRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calibration tokens by which a removal is judged, more or less: each removal judges all others.
const JUDGED_TOKENS: usize = 8192;

/// Whole layers are removed, those that change a text least. Their number is what the share allows,
/// rounded down. Sizes name the first layers as the kept ones, since the choice needs the text.
///
/// Source: ShortGPT (Men et al. 2024, arXiv:2403.03853), which is the order by influence: 1 - the
/// mean cosine of the residual stream before and after a layer. The order by loss is ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DropLayers {
    /// What decides.
    pub order: LayerOrder,
}

/// What decides which layers are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerOrder {
    /// The loss of the model without a layer, one removal after the other. Of a model that does
    /// not predict next tokens, one minus the mean cosine with the original's last layer.
    #[default]
    Loss,
    /// How little a layer turns the residual stream, in the whole model, as in the paper.
    Influence,
}

impl LayerOrder {
    /// All orders.
    pub const ALL: [Self; 2] = [Self::Loss, Self::Influence];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Influence => "influence",
        }
    }
}

impl PruneMethod for DropLayers {
    const ID: &'static str = "drop_layers";
    const SUMMARY: &'static str = "fewer layers; loads everywhere";

    fn is_uneven(&self, _original: &Transformer, _cut: &Cut) -> bool {
        false
    }

    fn needs_text(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
        let (selected, count) = selection(original, cut)?;
        let slots = original.slots().into_iter();
        let size = |slot: &LinearSlot| {
            let nth = selected.iter().position(|layer| Some(*layer) == slot.layer())?;
            let dense = slot.shape().dense_parameters();
            let kept = if nth < count { dense } else { 0 };
            Some(SiteSize { site: slot.id().clone(), dense, kept })
        };
        Ok(slots.filter_map(size).collect())
    }

    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError> {
        let PruneProblem { original, cut, .. } = *problem;
        let windows = problem.windows.ok_or(PruneError::NoText { method: Self::ID })?;
        let (selected, count) = selection(original, cut)?;
        let removals = selected.len() - count;
        let gone = match self.order {
            _ if removals == 0 => Vec::new(),
            LayerOrder::Influence => {
                monitor.step("influence of layers");
                let influence = influences(original, windows, monitor)?;
                let mut order = selected;
                order.sort_by(|a, b| influence[*a].total_cmp(&influence[*b]));
                order.truncate(removals);
                order
            }
            LayerOrder::Loss => least_missed(original, (windows, &selected), removals, monitor)?,
        };
        let kept: Vec<usize> =
            (0..original.config().layers.len()).filter(|layer| !gone.contains(layer)).collect();
        let pruned = original.keep_layers(&kept).map_err(PruneError::from)?;
        // Its layers have other names: outcomes are those of the original ones.
        let reports = BTreeMap::new();
        let has = |layer| cut.has(layer);
        let mut edited = narrowed::edited(original, original.clone(), Self::ID, has, reports);
        for outcome in edited.sites.iter_mut().filter(|site| gone.contains(&site.layer)) {
            outcome.parameters = 0;
            outcome.macs_per_row = 0;
            outcome.fit = FitReport::without_text(1.0);
        }
        original.release_scratch();
        Ok(Edited { network: pruned, ..edited })
    }
}

/// The layers of a cut, and how many of them are kept.
fn selection(original: &Transformer, cut: &Cut) -> Result<(Vec<usize>, usize), PruneError> {
    let layers = original.config().layers.len();
    let selected: Vec<usize> = (0..layers).filter(|layer| cut.has(*layer)).collect();
    let parameters = |layer: usize| {
        let slots = original.slots().into_iter().filter(|slot| slot.layer() == Some(layer));
        slots.map(|slot| slot.shape().dense_parameters()).sum::<usize>()
    };
    let first = selected.first().map(|layer| parameters(*layer));
    if let Some(other) = selected.iter().find(|layer| Some(parameters(**layer)) != first) {
        let reason = format!("layer {other} has another size than layer {}", selected[0]);
        return Err(PruneError::Model { method: DropLayers::ID, reason });
    }
    let count = (cut.keep * selected.len() as f64 + 1e-9) as usize;
    if count == 0 && selected.len() == layers {
        let least = 1.0 / layers as f64;
        return Err(PruneError::TooSmall { method: DropLayers::ID, keep: cut.keep, least });
    }
    Ok((selected, count))
}

/// One minus the mean cosine of the residual stream before and after each layer.
pub(super) fn influences(
    model: &Transformer,
    windows: &Windows,
    monitor: &mut dyn Monitor,
) -> Result<Vec<f64>, LmError> {
    let layers = model.config().layers.len();
    let (mut sums, mut rows) = (vec![0.0; layers], 0usize);
    let batches = windows.training_batches();
    for index in 0..batches {
        check_interrupted(monitor)?;
        let batch = windows.batch(index);
        let mut hidden = model.embed(&batch).map_err(network)?;
        for (layer, sum) in sums.iter_mut().enumerate() {
            let before = hidden.clone();
            model
                .run_layers(&mut hidden, &batch, layer..layer + 1, &mut NoProbe)
                .map_err(network)?;
            *sum += cosines(before.view(), hidden.view());
        }
        rows += hidden.rows();
        monitor.progress(index as u64 + 1, batches as u64);
    }
    Ok(sums.into_iter().map(|sum| 1.0 - sum / rows.max(1) as f64).collect())
}

/// Sum of the cosines between rows of two matrices; that with a zero is zero.
fn cosines(a: MatRef<'_, f32>, b: MatRef<'_, f32>) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let cosine = |i: usize| {
        let (a, b) = (a.row(i), b.row(i));
        let lengths = (dot(a, a) * dot(b, b)).sqrt();
        if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
    };
    (0..a.rows()).map(cosine).sum()
}

/// Layers whose removal raises the loss least, one after the other.
fn least_missed(
    model: &Transformer,
    (windows, selected): (&Windows, &[usize]),
    removals: usize,
    monitor: &mut dyn Monitor,
) -> Result<Vec<usize>, LmError> {
    let layers = model.config().layers.len();
    let mut gone: Vec<usize> = Vec::new();
    let judged: usize = (0..removals).map(|before| selected.len() - before).sum();
    let mut done = 0;
    for nth in 0..removals {
        monitor.step(&format!("removing layer {} of {removals}", nth + 1));
        let mut best: Option<(f64, usize)> = None;
        for layer in selected.iter().copied().filter(|layer| !gone.contains(layer)) {
            let stays = |other: &usize| *other != layer && !gone.contains(other);
            let kept: Vec<usize> = (0..layers).filter(stays).collect();
            let loss = match kept.is_empty() {
                true => f64::INFINITY,
                false => {
                    let short = model.keep_layers(&kept).map_err(PruneError::from)?;
                    loss(&short, model, windows, monitor)?
                }
            };
            if best.is_none_or(|(least, _)| loss < least) {
                best = Some((loss, layer));
            }
            done += 1;
            monitor.progress(done, judged as u64);
        }
        gone.extend(best.map(|(_, layer)| layer));
    }
    Ok(gone)
}

/// Mean loss of a shortened model on the first calibration tokens, see [`LayerOrder::Loss`].
fn loss(
    short: &Transformer,
    original: &Transformer,
    windows: &Windows,
    monitor: &mut dyn Monitor,
) -> Result<f64, LmError> {
    let predicts = original.config().is_causal() && original.has_head();
    let (mut sum, mut count, mut tokens) = (0.0, 0usize, 0);
    for index in 0..windows.training_batches() {
        if tokens >= JUDGED_TOKENS {
            break;
        }
        check_interrupted(monitor)?;
        let batch = windows.batch(index);
        let hidden = last_layer(short, &batch)?;
        if predicts {
            let firsts = vec![1; batch.spans().len()];
            let scores = short.token_nll(&hidden, &batch, &firsts).map_err(network)?;
            sum += scores.iter().flatten().map(|score| score.nll).sum::<f64>();
            count += scores.iter().flatten().count();
        } else {
            let wanted = last_layer(original, &batch)?;
            sum += hidden.rows() as f64 - cosines(hidden.view(), wanted.view());
            count += hidden.rows();
        }
        tokens += batch.len();
    }
    Ok(sum / count.max(1) as f64)
}

/// The residual stream after the last layer.
fn last_layer(model: &Transformer, batch: &Batch) -> Result<Mat<f32>, LmError> {
    let mut hidden = model.embed(batch).map_err(network)?;
    let layers = 0..model.config().layers.len();
    model.run_layers(&mut hidden, batch, layers, &mut NoProbe).map_err(network)?;
    Ok(hidden)
}

fn check_interrupted(monitor: &mut dyn Monitor) -> Result<(), LmError> {
    match monitor.interrupted() {
        true => Err(CaptureError::Interrupted.into()),
        false => Ok(()),
    }
}

fn network(error: ModelError) -> LmError {
    CompressError::Network(Box::new(error)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny;
    use linwright_compress::pipeline::Context;
    use linwright_run::Silent;

    /// A model of four layers of which the second does nothing.
    fn model() -> Transformer {
        let two = tiny::checkpoint("llama-head-dim-biases").decoder;
        let mut config = two.config().clone();
        config.layers = [config.layers[0]; 4].to_vec();
        let mut model = Transformer::random(config, linwright_tensor::RngKey::new(4));
        model.for_each_param_mut(&mut |name, values| {
            let scale = if name.contains("layers.1.") { 0.0 } else { 5.0 };
            values.iter_mut().for_each(|value| *value *= scale);
        });
        model
    }

    fn pruned(order: LayerOrder, cut: &Cut) -> Result<Edited<Transformer>, LmError> {
        let model = model();
        let windows = tiny::calibration(&model, 400);
        let context = Context::new("a model");
        let problem = PruneProblem {
            original: &model,
            windows: Some(&windows),
            cut,
            seed: 0,
            context: &context,
        };
        DropLayers { order }.prune(&problem, &mut Silent)
    }

    #[test]
    fn a_layer_that_does_nothing_is_removed_first() {
        let cut = Cut { keep: 0.75, align: None, layers: None };
        let edited = pruned(LayerOrder::Influence, &cut).unwrap();
        assert_eq!(edited.network.config().layers.len(), 3);
        let gone = |site: &&linwright_compress::pipeline::SiteOutcome| site.parameters == 0;
        assert!(edited.sites.iter().filter(gone).all(|site| site.layer == 1));
        let sizes = DropLayers::default().sizes(&model(), &cut).unwrap();
        let (sum, outcomes) = (
            sizes.iter().map(|size| size.kept).sum::<usize>(),
            edited.sites.iter().map(|site| site.parameters).sum::<usize>(),
        );
        assert_eq!(sum, outcomes);
    }

    #[test]
    fn the_order_by_loss_is_at_least_as_good_on_its_text() {
        let (model, cut) = (model(), Cut { keep: 0.5, align: None, layers: None });
        let windows = tiny::calibration(&model, 400);
        let of = |order| {
            let edited = pruned(order, &cut).unwrap();
            assert_eq!(edited.network.config().layers.len(), 2);
            loss(&edited.network, &model, &windows, &mut Silent).unwrap()
        };
        assert!(of(LayerOrder::Loss) <= of(LayerOrder::Influence));
    }

    #[test]
    fn selected_layers_alone_are_removed() {
        let cut = Cut { keep: 0.5, align: None, layers: Some(vec![0, 3]) };
        let edited = pruned(LayerOrder::Loss, &cut).unwrap();
        assert_eq!(edited.network.config().layers.len(), 3);
        assert!(edited.sites.iter().all(|site| [0, 3].contains(&site.layer)));
    }

    #[test]
    fn an_encoder_without_a_head_loses_the_layer_that_changes_its_output_least() {
        let mut model = tiny::checkpoint_in("encoder", "minilm-shaped").decoder;
        model.for_each_param_mut(&mut |name, values| {
            if name.contains("layers.0.") && name.contains("weight") && !name.contains("norm") {
                values.fill(0.0);
            }
        });
        assert!(!model.has_head());
        let windows = tiny::calibration(&model, 200);
        let selected: Vec<usize> = (0..model.config().layers.len()).collect();
        let gone = least_missed(&model, (&windows, &selected), 1, &mut Silent).unwrap();
        assert_eq!(gone, [0]);
    }

    #[test]
    fn one_layer_stays() {
        let cut = Cut { keep: 0.2, align: None, layers: None };
        let error = pruned(LayerOrder::Loss, &cut).unwrap_err();
        let expected = "keep 0.2: drop_layers cannot keep less than 0.2500 of this model";
        assert_eq!(error.to_string(), expected);
    }
}
