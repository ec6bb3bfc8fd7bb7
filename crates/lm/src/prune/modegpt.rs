//! Pairs of matrices that share features, each narrowed in closed form (MoDeGPT).

use super::branches::{Branch, Part, check_dense};
use super::drop_layers::influences;
use super::eliminate::refitted;
use super::head_pairs::{self, HeadRows, by_leverage, matching, narrowed, rotating};
use super::narrowed::{self as sites, weight_of};
use super::pieces::{Pieces, SiteFits, chosen, inputs_of, lockstep};
use super::refit::refit;
use super::{Cut, PruneError, PruneMethod, PruneProblem, SiteSize};
use crate::LmError;
use linwright_compress::fit::Ridge;
use linwright_compress::fit::regression::{mean_moment, squares};
use linwright_compress::methods::{Fit, FitReport};
use linwright_compress::pipeline::{Context, Edited, in_passes, put_fit};
use linwright_compress::{CompressError, FitError};
use linwright_measure::capture::{Lockstep, Needs, Wanted};
use linwright_measure::stats::InputStats;
use linwright_model::{AttentionConfig, KeptWidths, Role, Transformer};
use linwright_ops::{Dense, LinearSlot, Network, Op, Shape, SiteId, Sites, Submatrix};
use linwright_run::Monitor;
use linwright_tensor::Mat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of matrices narrowed in closed form: MLP features by leverage scores with a Nyström refit,
/// query and key features by their root mean squares (CR), values with outputs by SVD.
///
/// MLPs become narrower dense matrices. Heads keep their width, since rotary positions belong to
/// features: queries, keys, values and outputs become submatrices with the kept rows or columns,
/// which the native and the factored form hold.
///
/// Layers that turn the residual stream little lose more: the removed shares are proportional to a
/// softmax of minus their influence over the temperature. Sizes without text are those of equal
/// shares.
///
/// Source: Lin et al. 2024 (arXiv:2408.09632), algorithms 1 to 3 and the global allocation of
/// section 3.3. Deviations: a layer keeps at least a tenth; output projections are refitted to the
/// inputs in the narrowed model ([`Self::refit`]); rotary pairs
/// leave together; heads that share keys and values are narrowed together; values are weighted by
/// second moments of attended values instead of those of the layer's inputs. Norms of queries and
/// keys span a whole head, so models that have them keep both, and the rest gives more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Modegpt {
    /// Ridge of the refit towards the narrowed weights.
    pub ridge: Ridge,
    /// Temperature of the division over layers; 0 gives each layer the same share.
    #[schemars(range(min = 0.0, max = 1e12))]
    pub temperature: f64,
    /// Whether output projections are refitted to the outputs of the original model, which MoDeGPT
    /// does not.
    pub refit: bool,
}

impl Default for Modegpt {
    fn default() -> Self {
        Self { ridge: Ridge::Auto, temperature: 0.3, refit: true }
    }
}

/// Ridge of leverage scores and of the MLP that they choose, as a share of the mean second moment
/// of a feature.
const LEVERAGE_RIDGE: f64 = 1e-4;
/// Least share that a division leaves to a layer.
const LEAST: f64 = 0.1;
/// Steps by which a division starts above its share, for what rounding down loses.
const ROUNDING_STEPS: u32 = 80;
/// Length of such a step.
const ROUNDING_STEP: f64 = 0.001;

/// What each part keeps.
struct Budget {
    branches: Vec<Branch>,
    /// Share of features that stay, of each layer.
    shares: Vec<f64>,
    /// Whether queries and keys are narrowed.
    pairs: bool,
    align: Option<usize>,
}

impl Budget {
    /// Features of a head that stay, of queries with keys, and of values with outputs.
    fn head_features(&self, layer: usize, size: usize) -> [usize; 2] {
        let features = self.shares[layer] * size as f64 + 1e-9;
        let even = (features / 2.0) as usize * 2;
        [if self.pairs { even.max(2) } else { size }, (features as usize).max(1)]
    }

    /// Sizes of all sites.
    fn sizes(&self, original: &Transformer, cut: &Cut) -> Vec<SiteSize> {
        let head = original.config().head_dim;
        let of = |branch: &Branch| -> Vec<SiteSize> {
            let size = |(site, shape): &(SiteId, Shape)| {
                let dense = shape.dense_parameters();
                let slot = original.slot(site).expect("it is a slot of the model");
                let [matched, valued] = self.head_features(branch.layer, head);
                let kept = match (branch.part, Role::of(slot)) {
                    (Part::Mlp, _) => {
                        dense / branch.groups * self.mlp_features(cut, branch.layer, branch.groups)
                    }
                    (Part::Attention, Role::Query | Role::Key) => dense / head * matched,
                    (Part::Attention, _) => dense / head * valued,
                };
                SiteSize { site: site.clone(), dense, kept }
            };
            branch.slots.iter().map(size).collect()
        };
        self.branches.iter().flat_map(of).collect()
    }

    /// Divides what is removed over the layers by their influence, so that no more stays than the
    /// share of the cut. Rounding down loses some, so the division starts above that share.
    fn divide(&mut self, original: &Transformer, cut: &Cut, influence: &[f64], temperature: f64) {
        let layers: BTreeSet<usize> = self.branches.iter().map(|branch| branch.layer).collect();
        let layers: Vec<usize> = layers.into_iter().collect();
        let Some(equal) = layers.first().map(|layer| self.shares[*layer]) else { return };
        for above in (0..=ROUNDING_STEPS).rev() {
            let share = (equal + f64::from(above) * ROUNDING_STEP).min(1.0);
            for (layer, share) in divided(&layers, influence, share, temperature) {
                self.shares[layer] = share;
            }
            let sizes = self.sizes(original, cut);
            let kept: usize = sizes.iter().map(|size| size.kept).sum();
            let dense: usize = sizes.iter().map(|size| size.dense).sum();
            if kept as f64 <= cut.keep * dense as f64 + 1e-6 {
                return;
            }
        }
    }

    /// Sites of a branch that change; `kept` features stay if it is an MLP.
    fn changed(&self, original: &Transformer, branch: &Branch, kept: usize) -> Vec<SiteId> {
        let size = original.config().head_dim;
        let [matched, valued] = self.head_features(branch.layer, size);
        let is_changed = |site: &SiteId| match original.slot(site).map(Role::of) {
            Some(Role::Query | Role::Key) => matched < size,
            Some(Role::Value | Role::Output) => valued < size,
            _ => kept < branch.groups && *site == branch.output().0,
        };
        let sites = branch.slots.iter().map(|(site, _)| site);
        sites.filter(|site| is_changed(site)).cloned().collect()
    }

    /// Features of an MLP that stay.
    fn mlp_features(&self, cut: &Cut, layer: usize, inner: usize) -> usize {
        let align = self.align.unwrap_or_else(|| cut.alignment(inner)).min(inner);
        ((self.shares[layer] * inner as f64 + 1e-9) as usize / align * align).min(inner)
    }
}

/// Shares that layers keep if they keep `share` on average, see [`Modegpt`].
fn divided(layers: &[usize], influence: &[f64], share: f64, temperature: f64) -> Vec<(usize, f64)> {
    let most = 1.0 - LEAST.min(share);
    let mut left = layers.len() as f64 * (1.0 - share);
    let (mut open, mut shares) = (layers.to_vec(), Vec::new());
    loop {
        // From the least influence, so that the exponentials cannot all vanish.
        let least = open.iter().map(|layer| influence[*layer]).fold(f64::INFINITY, f64::min);
        let weight = |layer: &usize| ((least - influence[*layer]) / temperature).exp();
        let sum: f64 = open.iter().map(weight).sum();
        let removed = |layer: &usize| left * weight(layer) / sum;
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|layer| removed(layer) > most);
        if full.is_empty() {
            shares.extend(open.iter().map(|layer| (*layer, 1.0 - removed(layer))));
            return shares;
        }
        shares.extend(full.iter().map(|layer| (*layer, 1.0 - most)));
        left -= most * full.len() as f64;
        open = rest;
    }
}

impl PruneMethod for Modegpt {
    const ID: &'static str = "modegpt";
    const SUMMARY: &'static str =
        "MoDeGPT: pairs of matrices narrowed in closed form; heads keep their width, so native";

    fn needs_text(&self) -> bool {
        true
    }

    fn is_uneven(&self, original: &Transformer, cut: &Cut) -> bool {
        self.temperature > 0.0 || !cut.has_all(original)
    }

    fn check(&self) -> Result<(), String> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(format!("has temperature {}, expected 0 or more", self.temperature));
        }
        self.ridge.check()
    }

    fn sizes(&self, original: &Transformer, cut: &Cut) -> Result<Vec<SiteSize>, PruneError> {
        Ok(Self::budget(original, cut)?.sizes(original, cut))
    }

    fn prune(
        &self,
        problem: &PruneProblem<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<Edited<Transformer>, LmError> {
        let PruneProblem { original, cut, .. } = *problem;
        let windows = problem.windows.ok_or(PruneError::NoText { method: Self::ID })?;
        let mut budget = Self::budget(original, cut)?;
        if self.temperature > 0.0 && cut.keep < 1.0 {
            monitor.step("influence of layers");
            let influence = influences(original, windows, monitor)?;
            budget.divide(original, cut, &influence, self.temperature);
        }
        let needed = self.refit && self.ridge == Ridge::Auto;
        let pass = |context: &Context<'_>, monitor: &mut dyn Monitor| {
            let problem = &PruneProblem { context, ..*problem };
            let mut now = Narrowing {
                problem,
                budget: &budget,
                pieces: Pieces::new(problem, self),
                dense: lockstep(original, windows, context).without_targets(),
                narrowed: lockstep(original, windows, context),
                network: original.clone(),
                widths: vec![KeptWidths::default(); original.config().layers.len()],
                reports: BTreeMap::new(),
            };
            for (done, branch) in budget.branches.iter().enumerate() {
                monitor.whole(done as f64 / budget.branches.len() as f64);
                self.narrow(branch, &mut now, monitor)?;
            }
            original.release_scratch();
            Ok::<_, LmError>((now.network, now.widths, now.reports))
        };
        let (network, widths, reports) =
            in_passes(problem.context, windows, needed, monitor, pass, |(.., reports)| {
                chosen(reports)
            })?;
        let pruned = network.keep_widths(&widths).map_err(PruneError::from)?;
        Ok(sites::edited(original, pruned, Self::ID, |layer| cut.has(layer), reports))
    }
}

/// A model that is narrowed branch by branch.
struct Narrowing<'a> {
    problem: &'a PruneProblem<'a>,
    budget: &'a Budget,
    pieces: Pieces<'a>,
    /// The original alone, whose inputs choose what is kept.
    dense: Lockstep<'a, Transformer>,
    /// The original beside the model narrowed so far, for refits.
    narrowed: Lockstep<'a, Transformer>,
    network: Transformer,
    widths: Vec<KeptWidths>,
    reports: BTreeMap<SiteId, FitReport>,
}

impl Narrowing<'_> {
    /// Puts fits into the model.
    fn put(&mut self, fits: SiteFits) -> Result<(), LmError> {
        for (site, fit) in fits {
            let slot = self.network.slot_mut(&site).expect("it is a slot of the model");
            self.narrowed.note_edit(slot.stage().expect("a slot of a layer has a stage"));
            self.reports.insert(site.clone(), fit.report.clone());
            let bias = self.problem.original.slot(&site).and_then(LinearSlot::bias);
            put_fit(slot, bias, fit)?;
        }
        Ok(())
    }

    /// The fits of these sites, stored or computed, and then put into the model.
    fn fitted(
        &mut self,
        changed: &[SiteId],
        fit: impl FnOnce(&mut Self) -> Result<SiteFits, LmError>,
    ) -> Result<(), LmError> {
        let fits = match self.pieces.next(changed)? {
            Some(fits) => fits,
            None => {
                let fits = fit(self)?;
                self.pieces.put(&fits)?;
                fits
            }
        };
        self.put(fits)
    }
}

impl Modegpt {
    /// Narrows one branch.
    fn narrow(
        &self,
        branch: &Branch,
        now: &mut Narrowing<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<(), LmError> {
        let (original, cut) = (now.problem.original, now.problem.cut);
        let kept = now.budget.mlp_features(cut, branch.layer, branch.groups);
        let head = now.budget.head_features(branch.layer, original.config().head_dim);
        let changed = now.budget.changed(original, branch, kept);
        if changed.is_empty() {
            return Ok(());
        }
        let at = format!("layer {}: {:?}", branch.layer, branch.part).to_lowercase();
        now.fitted(&changed, |now| {
            monitor.step(&at);
            match branch.part {
                Part::Attention => Self::heads(branch, head, &mut now.dense, original, monitor),
                Part::Mlp => Self::mlp(branch, kept, &mut now.dense, original, monitor),
            }
        })?;
        let (site, _) = branch.output();
        let columns = match branch.part {
            Part::Mlp => {
                let features = sites::kept_groups(&weight_of(&now.network, site)?, 1, kept);
                now.widths[branch.layer].mlp = Some(features.clone());
                features
            }
            Part::Attention => {
                let size = original.config().head_dim;
                let heads = branch.output().1.inp / size;
                leading(size, heads, head[1]).map(|column| column as usize).collect()
            }
        };
        match self.refit && changed.contains(site) {
            true => now.fitted(std::slice::from_ref(site), |now| {
                monitor.step(&format!("{at}, refit"));
                self.refit_output(branch, &columns, now, monitor)
            }),
            false => Ok(()),
        }
    }

    /// The narrowed output projection of a branch, refitted to its original outputs.
    fn refit_output(
        &self,
        branch: &Branch,
        columns: &[usize],
        now: &mut Narrowing<'_>,
        monitor: &mut dyn Monitor,
    ) -> Result<SiteFits, LmError> {
        let (site, shape) = branch.output();
        let wanted = [Wanted { site, needs: Needs::Stats }];
        let captured = now.narrowed.capture(&now.network, &wanted, monitor)?;
        let weight = weight_of(&now.network, site)?;
        let known = now.problem.context.fit_to.ridge(site);
        let problem = branch.problem(now.problem.original, &captured[0].evidence, known);
        let op = |weight: Mat<f32>| match branch.part {
            Part::Mlp => Ok(Op::Linear(Box::new(Dense::new(weight)))),
            Part::Attention => {
                let columns = columns.iter().map(|column| *column as u32).collect();
                let rows = (0..shape.out as u32).collect();
                Ok(Op::Linear(Box::new(Submatrix::of(weight.view(), rows, columns)?)))
            }
        };
        let fit = refit(&problem, &weight, columns, self.ridge, op)
            .map_err(|source| CompressError::Fit { site: site.clone(), source })?;
        Ok(vec![(site.clone(), fit)])
    }
}

/// The first `rank` features of each of so many heads of `size` features.
fn leading(size: usize, heads: usize, rank: usize) -> impl Iterator<Item = u32> {
    (0..heads).flat_map(move |head| (head * size..head * size + rank).map(|i| i as u32))
}

impl Modegpt {
    fn budget(original: &Transformer, cut: &Cut) -> Result<Budget, PruneError> {
        let branches = Branch::all(original, cut);
        check_dense(original, &branches)?;
        let config = original.config();
        let slots = || branches.iter().flat_map(|branch| &branch.slots);
        let role = |site: &SiteId| original.slot(site).map(Role::of);
        if slots().any(|(site, _)| role(site) == Some(Role::QueryKeyValue)) {
            let reason = "queries, keys and values are one matrix, and pairs of separate ones are \
                          narrowed";
            return Err(PruneError::Model { method: Self::ID, reason: reason.into() });
        }
        let is_matched = |site: &SiteId| matches!(role(site), Some(Role::Query | Role::Key));
        let pairs = !config.query_key_norm;
        let sum = |matched: bool| -> f64 {
            let chosen = slots().filter(|(site, _)| is_matched(site) == matched);
            chosen.map(|(_, shape)| shape.dense_parameters() as f64).sum()
        };
        let (matched, others) = (sum(true), sum(false));
        let share = match pairs {
            true => cut.keep,
            false => (cut.keep * (matched + others) - matched) / others,
        };
        let shares = vec![share; config.layers.len()];
        let budget = Budget { branches, shares, pairs, align: cut.align };
        let features = |branch: &Branch| match branch.part {
            Part::Mlp => budget.mlp_features(cut, branch.layer, branch.groups),
            Part::Attention => (share * config.head_dim as f64 + 1e-9) as usize / 2,
        };
        if budget.branches.iter().any(|branch| features(branch) == 0) {
            let least =
                if pairs { 2.0 / config.head_dim as f64 } else { matched / (matched + others) };
            return Err(PruneError::TooSmall { method: Self::ID, keep: cut.keep, least });
        }
        Ok(budget)
    }

    /// The output projection of an MLP with `count` features.
    fn mlp(
        branch: &Branch,
        count: usize,
        lockstep: &mut Lockstep<'_, Transformer>,
        network: &Transformer,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<(SiteId, Fit)>, LmError> {
        let (site, shape) = branch.output();
        let inputs = inputs_of(site, lockstep, network, monitor)?;
        let failed = |source| CompressError::Fit { site: site.clone(), source };
        let weight = weight_of(network, site)?;
        let mut gram = inputs.sxx.clone();
        let ridge = LEVERAGE_RIDGE * mean_moment(gram.view()).max(f64::MIN_POSITIVE);
        let kept = by_leverage(gram.view(), ridge, count).map_err(failed)?;
        (0..shape.inp).for_each(|i| *gram.at_mut(i, i) += ridge);
        let fitted = refitted(&weight, gram.view(), &kept).map_err(failed)?;
        let away = Mat::from_fn(shape.out, shape.inp, |i, j| weight.at(i, j) - fitted.at(i, j));
        let power = inputs.power_of(weight.view());
        let lost = if power > 0.0 { inputs.power_of(away.view()) / power } else { squares(&away) };
        let op = Op::Linear(Box::new(Dense::new(fitted.cast())));
        let report = FitReport { ridge: Some(LEVERAGE_RIDGE), ..FitReport::without_text(lost) };
        Ok(vec![(site.clone(), Fit { op, bias_shift: None, report })])
    }

    /// Queries, keys, values and the output projection of a layer with fewer features in each head.
    fn heads(
        branch: &Branch,
        [matched, valued]: [usize; 2],
        lockstep: &mut Lockstep<'_, Transformer>,
        network: &Transformer,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<(SiteId, Fit)>, LmError> {
        let config = network.config();
        let AttentionConfig::Heads(heads) = config.layers[branch.layer].attention else {
            return Ok(Vec::new());
        };
        let size = config.head_dim;
        let site_of = |role: Role| {
            let found = branch
                .slots
                .iter()
                .find(|(site, _)| network.slot(site).is_some_and(|slot| Role::of(slot) == role));
            &found.expect("attention has this linear layer").0
        };
        let [query, key, value, output] =
            [Role::Query, Role::Key, Role::Value, Role::Output].map(site_of);
        let inputs = inputs_of(query, lockstep, network, monitor)?;
        let attended = inputs_of(output, lockstep, network, monitor)?;
        let attention = Attention { network, size, kv_heads: heads.kv_heads };
        let rotated = heads.rope.map_or(0, |rope| config.ropes[rope].features);
        let together = rotating(size, rotated, config.pairing());
        let mut fits = Vec::new();
        if matched < size {
            fits.extend(attention.matched([query, key], &inputs, &together, matched)?);
        }
        if valued < size {
            fits.extend(attention.valued([value, output], &attended, valued)?);
        }
        Ok(fits)
    }
}

/// Attention of a layer.
struct Attention<'a> {
    network: &'a Transformer,
    /// Features of a head.
    size: usize,
    kv_heads: usize,
}

impl Attention<'_> {
    fn weight(&self, site: &SiteId) -> Result<(Mat<f64>, Option<Vec<f32>>), LmError> {
        let slot = self.network.slot(site).expect("it is a slot of the model");
        Ok((weight_of(self.network, site)?, slot.bias().map(<[f32]>::to_vec)))
    }

    /// Queries and keys with `count` features in each head.
    fn matched(
        &self,
        [query, key]: [&SiteId; 2],
        inputs: &InputStats,
        together: &[Vec<usize>],
        count: usize,
    ) -> Result<Vec<(SiteId, Fit)>, LmError> {
        let samples = inputs.count.max(1) as f64;
        let second = Mat::from_fn(inputs.features(), inputs.features(), |i, j| {
            inputs.sxx.at(i, j) / samples
        });
        let mean: Vec<f64> = inputs.sx.iter().map(|sum| sum / samples).collect();
        let (queries, keys) = (self.weight(query)?, self.weight(key)?);
        let squares = |(weight, bias): &(Mat<f64>, Option<Vec<f32>>), head: usize| {
            let rows = HeadRows::new(weight, bias.as_deref(), self.features(head));
            rows.squares(second.view(), &mean)
        };
        let group = queries.0.rows() / self.size / self.kv_heads;
        let (mut query_rows, mut key_rows, mut lost) = (Vec::new(), Vec::new(), 0.0);
        for kv in 0..self.kv_heads {
            let mut all = vec![0.0; self.size];
            for head in kv * group..(kv + 1) * group {
                all.iter_mut().zip(squares(&queries, head)).for_each(|(sum, more)| *sum += more);
            }
            let (kept, share) = matching(&all, &squares(&keys, kv), together, count);
            lost += share / self.kv_heads as f64;
            let places = |head: usize| {
                let kept = kept.iter().map(move |feature| (head * self.size + feature) as u32);
                kept.collect::<Vec<u32>>()
            };
            key_rows.extend(places(kv));
            (kv * group..(kv + 1) * group).for_each(|head| query_rows.extend(places(head)));
        }
        Ok(vec![
            kept_rows(query, queries, query_rows, lost)?,
            kept_rows(key, keys, key_rows, lost)?,
        ])
    }

    /// Values and the output projection with `rank` features in each head.
    fn valued(
        &self,
        [value, output]: [&SiteId; 2],
        attended: &InputStats,
        rank: usize,
    ) -> Result<Vec<(SiteId, Fit)>, LmError> {
        let ((values, bias), (outputs, _)) = (self.weight(value)?, self.weight(output)?);
        let heads = outputs.cols() / self.size;
        let group = heads / self.kv_heads;
        let (out, inp) = (outputs.rows(), values.cols());
        let mut narrow_values = Mat::zeros(self.kv_heads * rank, inp);
        let mut narrow_outputs = Mat::zeros(out, heads * rank);
        let mut new_bias = vec![0.0_f64; values.rows()];
        let mut lost = 0.0;
        for kv in 0..self.kv_heads {
            let own = kv * group..(kv + 1) * group;
            let second = Mat::from_fn(self.size, self.size, |i, j| {
                let of = |head: usize| attended.sxx.at(head * self.size + i, head * self.size + j);
                own.clone().map(of).sum()
            });
            let block = |head: usize| {
                Mat::from_fn(out, self.size, |i, j| outputs.at(i, head * self.size + j))
            };
            let blocks: Vec<Mat<f64>> = own.clone().map(block).collect();
            let found = narrowed(&blocks, second.view(), rank)
                .map_err(|source| CompressError::Fit { site: output.clone(), source })?;
            lost += found.lost / self.kv_heads as f64;
            let rows = HeadRows::new(&values, bias.as_deref(), self.features(kv));
            let (weight, shifted) = head_pairs::through(&found.values, &rows);
            for i in 0..rank {
                narrow_values.row_mut(kv * rank + i).copy_from_slice(weight.row(i));
                new_bias[kv * self.size + i] = shifted[i];
            }
            for (head, block) in own.zip(&found.outputs) {
                for i in 0..out {
                    let into = &mut narrow_outputs.row_mut(i)[head * rank..(head + 1) * rank];
                    into.copy_from_slice(block.row(i));
                }
            }
        }
        let shape = |site: &SiteId| self.network.slot(site).expect("a slot").shape();
        let all = |count: usize| (0..count as u32).collect::<Vec<u32>>();
        let shift = bias.map(|bias| {
            let change = |(new, old): (&f64, f32)| *new as f32 - old;
            new_bias.iter().zip(bias).map(change).collect()
        });
        let values = Submatrix::new(
            narrow_values.cast(),
            leading(self.size, self.kv_heads, rank).collect(),
            all(inp),
            shape(value),
        );
        let outputs = Submatrix::new(
            narrow_outputs.cast(),
            all(out),
            leading(self.size, heads, rank).collect(),
            shape(output),
        );
        Ok(vec![submatrix(value, values, shift, lost)?, submatrix(output, outputs, None, lost)?])
    }

    fn features(&self, head: usize) -> std::ops::Range<usize> {
        head * self.size..(head + 1) * self.size
    }
}

/// A weight with some rows, and its bias there alone: others would meet in the scores.
fn kept_rows(
    site: &SiteId,
    (weight, bias): (Mat<f64>, Option<Vec<f32>>),
    rows: Vec<u32>,
    lost: f64,
) -> Result<(SiteId, Fit), LmError> {
    let columns = (0..weight.cols() as u32).collect();
    let kept = places_of(&rows, weight.rows());
    let shift = bias.map(|bias| {
        let removed = |(value, kept): (f32, &bool)| if *kept { 0.0 } else { -value };
        bias.into_iter().zip(&kept).map(removed).collect()
    });
    let weight: Mat<f32> = weight.cast();
    submatrix(site, Submatrix::of(weight.view(), rows, columns), shift, lost)
}

fn places_of(places: &[u32], features: usize) -> Vec<bool> {
    let mut kept = vec![false; features];
    places.iter().for_each(|place| kept[*place as usize] = true);
    kept
}

fn submatrix(
    site: &SiteId,
    op: Result<Submatrix<f32>, linwright_ops::OpError>,
    bias_shift: Option<Vec<f32>>,
    lost: f64,
) -> Result<(SiteId, Fit), LmError> {
    let failed =
        |error| CompressError::Fit { site: site.clone(), source: FitError::Operator(error) };
    let op = Op::Linear(Box::new(op.map_err(failed)?));
    Ok((site.clone(), Fit { op, bias_shift, report: FitReport::without_text(lost) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny;
    use linwright_compress::fit::regression::subtract;
    use linwright_compress::pipeline::Context;
    use linwright_model::checkpoint::LoadedModel;
    use linwright_ops::{Examples, NoProbe};
    use linwright_run::Silent;

    #[test]
    fn layers_with_less_influence_lose_more_but_keep_a_tenth() {
        let shares = |influence: &[f64], share| {
            let mut found = divided(&[0, 1, 2], influence, share, 0.3);
            found.sort_by_key(|(layer, _)| *layer);
            found.into_iter().map(|(_, share)| share).collect::<Vec<_>>()
        };
        assert_eq!(shares(&[0.4; 3], 0.5), [0.5; 3]);
        let uneven = shares(&[0.9, 0.1, 0.1], 0.6);
        assert!(uneven[0] > 0.9 && (uneven[1] - uneven[2]).abs() < 1e-12, "{uneven:?}");
        assert!((uneven.iter().sum::<f64>() - 1.8).abs() < 1e-12);
        // What the first two cannot lose, the third loses.
        let most = shares(&[0.0, 0.0, 1e6], 0.3);
        assert!((most[0] - 0.1).abs() < 1e-12 && (most[1] - 0.1).abs() < 1e-12, "{most:?}");
        assert!((most[2] - 0.7).abs() < 1e-12, "{most:?}");
    }

    fn pruned(loaded: &LoadedModel, method: &Modegpt, cut: &Cut) -> Edited<Transformer> {
        let windows = tiny::calibration(&loaded.decoder, 600);
        let context = Context::new(&loaded.hash);
        let problem = PruneProblem {
            original: &loaded.decoder,
            windows: Some(&windows),
            cut,
            seed: 0,
            context: &context,
        };
        method.prune(&problem, &mut Silent).unwrap()
    }

    #[test]
    fn a_refit_comes_closer_to_the_original_outputs_at_the_same_size() {
        for name in ["llama-tied", "qwen2-biases"] {
            let loaded = tiny::checkpoint(name);
            let cut = Cut { keep: 0.6, align: None, layers: None };
            let plain = Modegpt { refit: false, ..Modegpt::default() };
            let [plain, refit] =
                [plain, Modegpt::default()].map(|method| pruned(&loaded, &method, &cut));
            assert_eq!(plain.network.parameters(), refit.network.parameters());
            let batch = tiny::calibration(&loaded.decoder, 600).batch(0);
            let rows = |model: &Transformer| {
                let mut hidden = model.embed(&batch).unwrap();
                let layers = 0..model.config().layers.len();
                model.run_layers(&mut hidden, &batch, layers, &mut NoProbe).unwrap();
                hidden.view().to_mat().cast::<f64>()
            };
            let before = rows(&loaded.decoder);
            let [plain, refit] = [plain, refit].map(|edited| {
                let mut away = rows(&edited.network);
                subtract(&mut away, &before);
                squares(&away)
            });
            assert!(refit < 0.9 * plain, "{name}: {refit}, {plain} without");
        }
    }

    #[test]
    fn a_division_by_influence_uses_the_share_and_no_more() {
        let loaded = tiny::checkpoint("llama-tied");
        let cut = Cut { keep: 0.6, align: None, layers: None };
        let edited = pruned(&loaded, &Modegpt::default(), &cut);
        let kept: usize = edited.sites.iter().map(|site| site.parameters).sum();
        let dense: usize = edited.sites.iter().map(|site| site.dense_parameters).sum();
        let equal: usize = Modegpt { temperature: 0.0, ..Modegpt::default() }
            .sizes(&loaded.decoder, &cut)
            .unwrap()
            .iter()
            .map(|size| size.kept)
            .sum();
        assert!(kept as f64 <= 0.6 * dense as f64 && kept >= equal, "{kept} of {dense}, {equal}");
        let wrong = Modegpt { temperature: -1.0, ..Modegpt::default() };
        assert_eq!(wrong.check().unwrap_err(), "has temperature -1, expected 0 or more");
    }
}
