//! Fewer heads and features of the MLPs, the same number in every layer.

use super::branches::{Branch, Part, check_dense};
use super::eliminate::eliminate;
use super::pieces::{Pieces, chosen, lockstep};
use super::{Cut, PruneError, PruneMethod, PruneProblem, SiteSize, narrowed};
use crate::LmError;
use linwright_compress::fit::Ridge;
use linwright_compress::methods::{Fit, FitReport};
use linwright_compress::pipeline::{Context, Edited, in_passes, put_fit};
use linwright_compress::{CompressError, FitError};
use linwright_measure::capture::{Evidence, Needs, Wanted};
use linwright_model::{KeptHeads, KeptWidths, Transformer, Windows};
use linwright_ops::{Dense, LinearSlot, Network, Op, Shape, SiteId, Sites};
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Narrower attention and MLPs that stock runtimes load: groups of heads and features of MLPs are
/// removed by the optimal brain surgeon, and output projections are refitted to the outputs of the
/// original model.
///
/// A model at keep 1 keeps its outputs. Inputs are those of the model pruned so far, targets those
/// of the original. Heads leave as key-value groups with their query heads.
///
/// Source: the refit is that of MoDeGPT's MLPs (Lin et al. 2024, arXiv:2408.09632, algorithm 1,
/// Nyström), here to targets of the original model; the choice is that of ZipLM (arXiv:2302.04089),
/// which takes the weight into account, instead of MoDeGPT's leverage scores of the inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Width {
    /// Share of key-value groups that is kept. By default that of the cut, rounded down: MLPs make
    /// up for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub heads: Option<f64>,
    /// Ridge of refitted weights towards the original ones.
    pub ridge: Ridge,
}

impl Default for Width {
    fn default() -> Self {
        Self { heads: None, ridge: Ridge::Auto }
    }
}

/// Branches of a model with the number of groups that each keeps.
struct Budget {
    branches: Vec<Branch>,
    kept: Vec<usize>,
}

impl PruneMethod for Width {
    const ID: &'static str = "width";
    const SUMMARY: &'static str =
        "fewer heads and MLP features, chosen and refitted in closed form; loads everywhere";

    fn needs_text(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), String> {
        self.ridge.check()?;
        match self.heads.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            Some(share) => Err(format!("has heads {share}, expected above 0 and at most 1")),
            None => Ok(()),
        }
    }

    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
        let Budget { branches, kept } = self.budget(original, cut)?;
        let of = |(branch, kept): (&Branch, &usize)| -> Vec<SiteSize> {
            let size = |(site, shape): &(SiteId, Shape)| {
                let dense = shape.dense_parameters();
                SiteSize { site: site.clone(), dense, kept: dense / branch.groups * kept }
            };
            branch.slots.iter().map(size).collect()
        };
        Ok(branches.iter().zip(&kept).flat_map(of).collect())
    }

    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError> {
        let PruneProblem { original, cut, .. } = *problem;
        let windows = problem.windows.ok_or(PruneError::NoText { method: Self::ID })?;
        let budget = self.budget(original, cut)?;
        let needed = self.ridge == Ridge::Auto;
        let pass = |context: &Context<'_>, monitor: &mut dyn Monitor| {
            let problem = PruneProblem { context, ..*problem };
            self.narrowed(&problem, windows, &budget, monitor)
        };
        let (pruned, reports) =
            in_passes(problem.context, windows, needed, monitor, pass, |(_, reports)| {
                chosen(reports)
            })?;
        Ok(narrowed::edited(original, pruned, Self::ID, |layer| cut.has(layer), reports))
    }
}

impl Width {
    /// The narrowed model, with the reports of its output projections.
    fn narrowed(
        &self,
        problem: &PruneProblem<'_>,
        windows: &Windows,
        Budget { branches, kept }: &Budget,
        monitor: &mut dyn Monitor,
    ) -> Result<(Transformer, BTreeMap<SiteId, FitReport>), LmError> {
        let PruneProblem { original, context, .. } = *problem;
        let mut network = original.clone();
        let mut lockstep = lockstep(original, windows, context);
        let mut widths = vec![KeptWidths::default(); original.config().layers.len()];
        let mut reports = BTreeMap::new();
        let mut pieces = Pieces::new(problem, self);
        for (branch, &count) in branches.iter().zip(kept).filter(|(b, kept)| **kept < b.groups) {
            let (site, _) = branch.output();
            let fit = match pieces.next(std::slice::from_ref(site))?.and_then(|mut fits| fits.pop())
            {
                Some((_, fit)) => fit,
                None => {
                    monitor.step(&format!("{site}: keeping {count} of {}", branch.groups));
                    let wanted = [Wanted { site, needs: Needs::Stats }];
                    let captured = lockstep.capture(&network, &wanted, monitor)?;
                    let evidence = (&captured[0].evidence, context.fit_to.ridge(site));
                    let fit = self
                        .fit(original, branch, count, evidence)
                        .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
                    pieces.put(&[(site.clone(), fit.clone())])?;
                    fit
                }
            };
            reports.insert(site.clone(), fit.report.clone());
            monitor.whole(reports.len() as f64 / branches.len() as f64);
            let bias = original.slot(site).and_then(LinearSlot::bias);
            let slot = network.slot_mut(site).expect("it is a slot of the model");
            lockstep.note_edit(slot.stage().expect("a slot of a layer has a stage"));
            put_fit(slot, bias, fit)?;
            let weight = narrowed::weight_of(&network, site)?;
            let groups = narrowed::kept_groups(&weight, branch.group_size(), count);
            match branch.part {
                Part::Attention => {
                    widths[branch.layer].heads = Some(KeptHeads::Groups(groups));
                }
                Part::Mlp => widths[branch.layer].mlp = Some(groups),
            }
        }
        original.release_scratch();
        Ok((network.keep_widths(&widths).map_err(PruneError::from)?, reports))
    }

    /// Groups that each branch keeps: as many key-value groups as their share says, and MLP
    /// features for the rest of the parameters.
    fn budget(&self, original: &Transformer, cut: &Cut) -> Result<Budget, PruneError> {
        let branches = Branch::all(original, cut);
        check_dense(original, &branches)?;
        let parameters = |part: Part| {
            let of_part = branches.iter().filter(move |branch| branch.part == part);
            of_part.map(Branch::parameters).sum::<usize>() as f64
        };
        let (attention, mlp) = (parameters(Part::Attention), parameters(Part::Mlp));
        let groups = self.groups(original, &branches, cut)?;
        let group = branches.iter().find(|branch| branch.part == Part::Attention);
        let share = group.map_or(1.0, |branch| groups as f64 / branch.groups as f64);
        let left = (cut.keep * (attention + mlp) - share * attention) / mlp;
        let kept = |branch: &Branch| match branch.part {
            Part::Attention => groups,
            Part::Mlp => {
                let align = cut.alignment(branch.groups).min(branch.groups);
                let features = left * branch.groups as f64 + 1e-9;
                (features as usize / align * align).min(branch.groups)
            }
        };
        let kept: Vec<usize> = branches.iter().map(kept).collect();
        if kept.contains(&0) {
            let least = share * attention / (attention + mlp);
            return Err(PruneError::TooSmall { method: Self::ID, keep: cut.keep, least });
        }
        Ok(Budget { branches, kept })
    }

    /// Key-value groups that every layer keeps.
    fn groups(
        &self,
        original: &Transformer,
        branches: &[Branch],
        cut: &Cut,
    ) -> Result<usize, PruneError> {
        let mut attention = branches.iter().filter(|branch| branch.part == Part::Attention);
        let Some(first) = attention.next() else { return Ok(0) };
        let same = attention.all(|branch| branch.groups == first.groups);
        let everywhere = cut.has_all(original);
        let separate = original.config().heads_can_leave();
        match self.heads {
            _ if same && everywhere && separate => {}
            Some(share) if share < 1.0 => {
                let reason = "heads can leave only if every layer is pruned, all have equally \
                              many, no norm spans several, and the size of a head is a field";
                return Err(PruneError::Model { method: Self::ID, reason: reason.into() });
            }
            _ => return Ok(first.groups),
        }
        if let Some(share) = self.heads {
            let groups = (share * first.groups as f64).round() as usize;
            return Ok(groups.clamp(1, first.groups));
        }
        // MLPs keep at most all of their features.
        let sum = |part: Part| {
            let of_part = branches.iter().filter(move |branch| branch.part == part);
            of_part.map(Branch::parameters).sum::<usize>() as f64
        };
        let (attention, mlp) = (sum(Part::Attention), sum(Part::Mlp));
        let least = (cut.keep * (attention + mlp) - mlp) / attention;
        let groups = (least * first.groups as f64).ceil() as usize;
        let rounded = (cut.keep * first.groups as f64 + 1e-9) as usize;
        Ok(rounded.max(groups).clamp(1, first.groups))
    }

    /// The output projection of a branch with only `count` groups of inputs.
    fn fit(
        &self,
        original: &Transformer,
        branch: &Branch,
        count: usize,
        (evidence, ridge): (&Evidence, Option<f64>),
    ) -> Result<Fit, FitError> {
        let problem = branch.problem(original, evidence, ridge);
        let target = problem.target(self.ridge)?;
        let gram = target.inputs.sxx.view();
        let weight = eliminate(&target.pulled.map, gram, branch.group_size(), count)?;
        let op = Op::Linear(Box::new(Dense::new(weight.cast())));
        problem.closed(op, &weight, &target.pulled)
    }
}
