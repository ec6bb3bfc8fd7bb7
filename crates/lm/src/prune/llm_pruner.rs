//! LLM-Pruner: whole heads and MLP channels leave by their importance for the loss.

mod quota;
mod salience;
mod sampled;

pub use quota::{kept_channels, kept_heads};
pub use salience::{Criterion, LossGradients, Pairing, most_important, of_groups, of_kv_heads};

use super::branches::{Branch, Part, check_dense};
use super::eliminate::columns;
use super::pieces::{chosen, lockstep};
use super::refit::refit;
use super::{Cut, PruneError, PruneMethod, PruneProblem, SiteSize, narrowed};
use crate::LmError;
use linwright_compress::fit::Ridge;
use linwright_compress::methods::{Fit, FitReport};
use linwright_compress::pipeline::{Context, Edited, in_passes, put_fit};
use linwright_compress::{CompressError, FitError};
use linwright_measure::capture::{Evidence, Needs, Wanted};
use linwright_model::{AttentionConfig, KeptHeads, KeptWidths, Role, Transformer, Windows};
use linwright_ops::{Dense, LinearSlot, Network, Op, SiteId, Sites};
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use quota::Quota;
use sampled::{Examples, Members, by_loss, by_weights, examples};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Heads and MLP channels are removed by their importance, with which the loss on a few examples
/// changes to first or second order, or by magnitude or at random. Key-value heads leave with their
/// query heads.
///
/// All branches lose the same share, or `global` ranks heads and channels of all layers together,
/// and layers differ then. Biases and norms do not count. Of every branch at least one head or
/// channel stays.
///
/// Source: Ma, Fang and Wang 2023, arXiv:2305.11627, and its code. Deviations: the importance of
/// query heads counts for the key-value heads that they read ([`Self::compat`]: for others, as
/// released), examples are of the calibration text instead of BookCorpus, and gradients are in f32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LlmPruner {
    /// Importance of a head or channel.
    pub criterion: Criterion,
    /// What gradients are computed on.
    #[serde(skip_serializing_if = "Sample::is_default")]
    pub sample: Sample,
    /// Layers that lose heads and channels.
    #[serde(skip_serializing_if = "Blocks::is_default")]
    pub blocks: Blocks,
    /// Whether one threshold holds for heads and channels of all layers. Sizes of layers are known
    /// only afterwards then.
    pub global: bool,
    /// Number of steps, each with new gradients of the model pruned so far.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub steps: usize,
    /// Share of channels that leaves, as LLM-Pruner counts: n - trunc(n (1 - ratio)) of n, and as
    /// many whole heads as fit. Replaces the share of parameters that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ratio: Option<f64>,
    /// Whether query heads count for key-value heads as in the released code, see
    /// [`Pairing::Released`].
    pub compat: bool,
    /// Refits the output projections to the outputs of the original model, which LLM-Pruner does
    /// not, with this ridge towards the original weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refit: Option<Ridge>,
}

/// Examples for gradients: random parts of the training windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sample {
    /// Number of examples.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub examples: usize,
    /// Tokens of an example; fewer where every window has fewer.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub tokens: usize,
}

impl Sample {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Sample {
    fn default() -> Self {
        Self { examples: 10, tokens: 64 }
    }
}

/// Layers whose parts are pruned, of those that a cut selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Blocks {
    /// Layers that lose heads; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Vec<usize>>,
    /// Layers that lose MLP channels; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlp: Option<Vec<usize>>,
}

impl Blocks {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for LlmPruner {
    fn default() -> Self {
        Self {
            criterion: Criterion::default(),
            sample: Sample::default(),
            blocks: Blocks::default(),
            global: false,
            steps: 1,
            ratio: None,
            compat: false,
            refit: None,
        }
    }
}

impl PruneMethod for LlmPruner {
    const ID: &'static str = "llm_pruner";
    const SUMMARY: &'static str = "fewer heads and MLP channels by gradients, as LLM-Pruner";

    fn is_uneven(&self, original: &Transformer, cut: &Cut) -> bool {
        let is_part = |layers: &Option<Vec<usize>>| {
            let has = |layer| layers.as_ref().is_none_or(|layers| layers.contains(&layer));
            !(0..original.config().layers.len()).all(has)
        };
        let Blocks { attention, mlp } = &self.blocks;
        self.global || is_part(attention) || is_part(mlp) || !cut.has_all(original)
    }

    fn needs_text(&self) -> bool {
        self.criterion.needs_gradients() || self.refit.is_some()
    }

    fn check(&self) -> Result<(), String> {
        let Sample { examples, tokens } = self.sample;
        if let Some(ratio) = self.ratio.filter(|ratio| !(0.0..1.0).contains(ratio)) {
            return Err(format!("has ratio {ratio}, expected at least 0 and less than 1"));
        }
        self.refit.map_or(Ok(()), Ridge::check)?;
        for (what, count, least) in
            [("examples", examples, 1), ("tokens", tokens, 2), ("steps", self.steps, 1)]
        {
            if count < least {
                return Err(format!("has {what} {count}, expected at least {least}"));
            }
        }
        Ok(())
    }

    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
        let quota = self.quota(original, cut)?;
        let counts = quota.local(self.steps, self.steps)?;
        let kept = quota.branches.iter().zip(counts);
        let kept = kept.flat_map(|(b, kept)| b.slots.iter().map(move |(id, _)| (id, (b, kept))));
        let kept: BTreeMap<&SiteId, (&Branch, usize)> = kept.collect();
        let slots = original.slots().into_iter();
        let slots = slots.filter(|slot| slot.layer().is_some_and(|layer| cut.has(layer)));
        let size = |slot: &LinearSlot| {
            let (site, dense) = (slot.id().clone(), slot.shape().dense_parameters());
            let kept = kept.get(&site).map_or(dense, |(b, kept)| dense / b.groups * kept);
            SiteSize { site, dense, kept }
        };
        Ok(slots.map(size).collect())
    }

    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError> {
        let PruneProblem { original, cut, .. } = *problem;
        let quota = self.quota(original, cut)?;
        let left = self.choose(problem, &quota, monitor)?;
        let (network, reports) = match (self.refit, problem.windows) {
            (None, _) => (original.clone(), BTreeMap::new()),
            (Some(_), None) => return Err(PruneError::NoText { method: Self::ID }.into()),
            (Some(ridge), Some(windows)) => {
                let pass = |context: &Context<'_>, monitor: &mut dyn Monitor| {
                    refitted(original, windows, (&quota, &left, ridge), context, monitor)
                };
                let needed = ridge == Ridge::Auto;
                in_passes(problem.context, windows, needed, monitor, pass, |(_, reports)| {
                    chosen(reports)
                })?
            }
        };
        let widths = widths(original, &quota.branches, &left);
        let pruned = network.keep_widths(&widths).map_err(PruneError::from)?;
        Ok(narrowed::edited(original, pruned, Self::ID, |layer| cut.has(layer), reports))
    }
}

/// The model with output projections refitted to the groups that are left.
fn refitted(
    original: &Transformer,
    windows: &Windows,
    (quota, left, ridge): (&Quota, &[Vec<usize>], Ridge),
    context: &Context<'_>,
    monitor: &mut dyn Monitor,
) -> Result<(Transformer, BTreeMap<SiteId, FitReport>), LmError> {
    let (mut network, mut reports) = (original.clone(), BTreeMap::new());
    let mut lockstep = lockstep(original, windows, context);
    let cut = quota.branches.iter().zip(left).filter(|(b, left)| left.len() < b.groups);
    for (branch, left) in cut {
        let (site, _) = branch.output();
        monitor.step(&format!("{site}: refitting to {} of {}", left.len(), branch.groups));
        monitor.whole(reports.len() as f64 / quota.branches.len() as f64);
        let wanted = [Wanted { site, needs: Needs::Stats }];
        let captured = lockstep.capture(&network, &wanted, monitor)?;
        let evidence = (&captured[0].evidence, context.fit_to.ridge(site));
        let fit = refit_to(original, branch, left, ridge, evidence)
            .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
        let bias = original.slot(site).and_then(LinearSlot::bias);
        let slot = network.slot_mut(site).expect("it is a slot of the model");
        lockstep.note_edit(slot.stage().expect("a slot of a layer has a stage"));
        reports.insert(site.clone(), put_fit(slot, bias, fit)?);
    }
    original.release_scratch();
    Ok((network, reports))
}

impl LlmPruner {
    /// Groups of every branch that are kept.
    fn choose(
        &self,
        problem: &PruneProblem<'_>,
        quota: &Quota,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<Vec<usize>>, LmError> {
        let original = problem.original;
        let mut left: Vec<Vec<usize>> =
            quota.branches.iter().map(|branch| (0..branch.groups).collect()).collect();
        let key = RngKey::new(problem.seed).fold(Self::ID);
        let steps = if self.keeps_all(problem.cut) { 0 } else { self.steps };
        for step in 1..=steps {
            if monitor.interrupted() {
                return Err(CompressError::Interrupted.into());
            }
            monitor.step(&format!("importance of heads and channels, step {step} of {steps}"));
            monitor.whole((step - 1) as f64 / steps as f64);
            let widths = widths(original, &quota.branches, &left);
            let model = original.keep_widths(&widths).map_err(PruneError::from)?;
            let importance =
                self.importance(&model, quota, problem, key.fold_index(step as u64), monitor)?;
            let picked = match self.global {
                true => quota.pick_global(&importance, step, steps)?,
                false => quota.pick_local(&importance, step, steps)?,
            };
            for (left, picked) in left.iter_mut().zip(picked) {
                *left = picked.into_iter().map(|at| left[at]).collect();
            }
            monitor.progress(step as u64, steps as u64);
        }
        Ok(left)
    }

    fn quota(&self, original: &Transformer, cut: &Cut) -> Result<Quota, PruneError> {
        let layers = original.config().layers.len();
        let Blocks { attention, mlp } = &self.blocks;
        let mut named = [attention, mlp].into_iter().flatten().flatten();
        if let Some(&layer) = named.find(|layer| **layer >= layers) {
            return Err(PruneError::Layer { layer, layers });
        }
        let gradients = self.criterion.needs_gradients();
        if gradients && !(original.config().is_causal() && original.has_head()) {
            let reason = "gradients need a loss of next tokens; criterion l1, l2 or random reads \
                          no text";
            return Err(PruneError::Model { method: Self::ID, reason: reason.into() });
        }
        let quota = Quota::new(original, cut, &self.blocks, self.ratio);
        check_dense(original, &quota.branches)?;
        Ok(quota)
    }

    fn keeps_all(&self, cut: &Cut) -> bool {
        self.ratio.map_or(cut.keep == 1.0, |ratio| ratio == 0.0)
    }

    /// Importance of every group of the branches of a model that was pruned so far.
    fn importance(
        &self,
        model: &Transformer,
        quota: &Quota,
        problem: &PruneProblem<'_>,
        key: RngKey,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<Vec<f64>>, LmError> {
        let sites: BTreeSet<SiteId> =
            quota.branches.iter().flat_map(|b| &b.slots).map(|(site, _)| site.clone()).collect();
        let members = if self.criterion.needs_gradients() {
            let windows = problem.windows.ok_or(PruneError::NoText { method: Self::ID })?;
            let examples = examples(windows, self.sample, key);
            by_loss(self.criterion, model, &sites, Examples::of(&examples), monitor)?
        } else {
            by_weights(self.criterion, model, &sites)
        };
        let of = |(at, branch): (usize, &Branch)| {
            let shape = BranchShape::of(model, branch);
            let channels = if self.criterion == Criterion::Random {
                let mut stream = key.fold("random").fold_index(at as u64).stream();
                (0..shape.channels).map(|_| stream.uniform()).collect()
            } else {
                self.channels(model, branch, &shape, &members)
            };
            of_groups(&channels, shape.size)
        };
        Ok(quota.branches.iter().enumerate().map(of).collect())
    }

    /// Importance of every channel of a branch: a feature of an MLP or of a key-value head.
    fn channels(
        &self,
        model: &Transformer,
        branch: &Branch,
        shape: &BranchShape,
        members: &Members,
    ) -> Vec<f64> {
        let pairing = if self.compat { Pairing::Released } else { Pairing::Readers };
        let mut joined: Vec<Vec<f64>> = Vec::new();
        for (site, _) in &branch.slots {
            let (values, slot) = (&members[site], model.slot(site).expect("a slot of the model"));
            let role = Role::of(slot);
            let parts = if role == Role::QueryKeyValue {
                shape.split(values, model)
            } else if role == Role::GateUp {
                values.chunks_exact(shape.channels).map(<[f64]>::to_vec).collect()
            } else {
                vec![values.clone()]
            };
            for (at, part) in parts.into_iter().enumerate() {
                let queries = matches!(role, Role::Query | Role::Output)
                    || (role == Role::QueryKeyValue && at == 0);
                joined.push(match queries {
                    true => of_kv_heads(&part, shape.size, shape.channels / shape.size, pairing),
                    false => part,
                });
            }
        }
        self.criterion.joined(&joined)
    }
}

/// The output projection of a branch that reads these groups of features alone.
fn refit_to(
    original: &Transformer,
    branch: &Branch,
    kept: &[usize],
    ridge: Ridge,
    (evidence, known): (&Evidence, Option<f64>),
) -> Result<Fit, FitError> {
    let problem = branch.problem(original, evidence, known);
    let weight = problem.original.to_dense()?.cast();
    let op = |weight| Ok(Op::Linear(Box::new(Dense::new(weight))));
    refit(&problem, &weight, &columns(kept, branch.group_size()), ridge, op)
}

/// Channels of a branch and how many make a group.
struct BranchShape {
    channels: usize,
    size: usize,
    query_width: usize,
}

impl BranchShape {
    fn of(model: &Transformer, branch: &Branch) -> Self {
        let config = model.config();
        let inp = model.slot(&branch.output().0).expect("a slot of the model").shape().inp;
        let attention = config.layers[branch.layer].attention;
        if let (Part::Attention, AttentionConfig::Heads(heads)) = (branch.part, attention) {
            let size = config.head_dim;
            return Self { channels: heads.kv_heads * size, size, query_width: inp };
        }
        Self { channels: inp, size: 1, query_width: 0 }
    }

    /// Rows of queries, keys and values in one matrix.
    fn split(&self, rows: &[f64], model: &Transformer) -> Vec<Vec<f64>> {
        if model.config().stacks_by_head() {
            let heads = rows.chunks_exact(3 * self.size);
            let part = |nth: usize| {
                heads.clone().flat_map(move |head| &head[nth * self.size..][..self.size]).copied()
            };
            return (0..3).map(|nth| part(nth).collect()).collect();
        }
        let (queries, others) = rows.split_at(self.query_width);
        let (keys, values) = others.split_at(self.channels);
        [queries, keys, values].map(<[f64]>::to_vec).into()
    }
}

/// Widths of the layers of a model of whose branches these groups are left.
fn widths(original: &Transformer, branches: &[Branch], left: &[Vec<usize>]) -> Vec<KeptWidths> {
    let mut widths = vec![KeptWidths::default(); original.config().layers.len()];
    for (branch, left) in branches.iter().zip(left).filter(|(b, left)| left.len() < b.groups) {
        let width = &mut widths[branch.layer];
        match branch.part {
            Part::Attention => width.heads = Some(KeptHeads::Groups(left.clone())),
            Part::Mlp => width.mlp = Some(left.clone()),
        }
    }
    widths
}

#[cfg(test)]
mod tests;
