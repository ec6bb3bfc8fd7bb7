//! Dependence of collapse on depth: one network for each depth and seed.

use super::{
    Architecture, DepthData, Norming, Penalty, RefNet, RefNetSpec, TrainingOptions, trained,
};
use crate::CollapseError;
use crate::optimum::{Fit, Gufm};
use linwright_run::store::PieceKey;
use linwright_run::{Fingerprint, Shard, Store, memory};
use linwright_tensor::{RngKey, parallel};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// 97.5 % quantiles of Student's t with 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same of a standard normal variable, for more.
const NORMAL: f64 = 1.96;
/// Kind of the pieces of a store that hold a [`DepthRow`].
const PIECE: &str = "depth";

/// Dependence of the penalty's strength on depth L.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrengthRule {
    /// It does not.
    #[default]
    Constant,
    /// Divided by L.
    OverDepth,
}

impl StrengthRule {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Constant, Self::OverDepth];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::OverDepth => "over-depth",
        }
    }

    fn of(self, strength: f64, depth: usize) -> f64 {
        match self {
            Self::Constant => strength,
            Self::OverDepth => strength / depth as f64,
        }
    }
}

/// What is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthPlan {
    /// Family.
    pub architecture: Architecture,
    /// Depths L.
    pub depths: Vec<usize>,
    /// Seeds of parameters, from zero.
    pub seeds: u64,
    /// Strength of the penalty.
    pub strength: f64,
    /// Its dependence on depth.
    pub rule: StrengthRule,
    /// Strength for the head at all depths, if different.
    pub head_strength: Option<f64>,
    /// Whether biases are penalised, too.
    pub biases: bool,
    /// Loss.
    pub fit: Fit,
    /// Position of the LayerNorm.
    pub norming: Norming,
    /// ρ.
    pub norm: f64,
    /// Width between two maps.
    pub hidden: usize,
    /// Settings of the training.
    pub training: TrainingOptions,
}

/// One network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthRow {
    /// L.
    pub depth: usize,
    /// Seed of its parameters.
    pub seed: u64,
    /// Strength of its blocks.
    pub strength: f64,
    /// `nc1_quotient` of its features.
    pub nc1_quotient: Option<f64>,
    /// `nc1_pinv` of its features.
    pub nc1_pinv: Option<f64>,
    /// `nc2_etf_err_W` of its head; of squared errors without bias `nc2_of_err_W`.
    pub nc2_head: Option<f64>,
    /// `nc3_sample_1mcos`.
    pub nc3_sample: Option<f64>,
    /// Accuracy on the examples.
    pub accuracy: f64,
    /// Objective.
    pub objective: f64,
    /// Loss on the labels.
    pub fit: f64,
    /// Penalty of all but the head.
    pub hidden_penalty: f64,
    /// Objective minus that of the GUFM optimum, never negative on balanced classes.
    pub gap: Option<f64>,
    /// Norm of the gradient at the end.
    pub gradient_norm: f64,
    /// `nc1_quotient` after each block.
    pub nc1_of_layers: Vec<Option<f64>>,
}

/// A power law in depth: slope of the logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// Mean over seeds.
    pub slope: f64,
    /// 95 % bounds, by Student's t from the deviation over seeds; none for one seed.
    pub interval: Option<[f64; 2]>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthResult {
    /// By depth, then seed.
    pub rows: Vec<DepthRow>,
    /// Of `nc1_quotient`.
    pub nc1_slope: Option<Slope>,
    /// Power law of the gap to GUFM.
    pub gap_slope: Option<Slope>,
    /// Power law of the penalty of all parameters but the head.
    pub hidden_penalty_slope: Option<Slope>,
}

/// Environment of an experiment.
pub struct Surroundings<'a> {
    /// Receives the number of finished networks and of all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Store of finished networks.
    pub store: &'a Store,
    /// Identifies everything that networks of this experiment depend on, except depth and seed.
    pub identity: &'a Fingerprint,
    /// The networks to train in this process; the others must be in the store.
    pub shard: Shard,
}

/// Result of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum DepthOutcome {
    /// All networks are finished.
    Complete(DepthResult),
    /// Networks of other shards are missing.
    Part {
        /// Known networks.
        known: usize,
        /// All networks.
        total: usize,
    },
}

/// Lower bound of the numbers per row of activations that a pass keeps for each block.
const KEPT: u64 = 2;
/// Copies of the parameters in training: value, gradient and two moments.
const COPIES: u64 = 4;

impl DepthPlan {
    /// Rejects networks that do not fit in memory.
    fn check_memory(&self, data: &DepthData) -> Result<(), CollapseError> {
        let depth = self.depths.iter().copied().max().unwrap_or(0) as u64;
        let (width, hidden) = (data.x.cols() as u64, self.hidden as u64);
        let activations = memory::product(&[data.x.rows() as u64, width, depth, KEPT]);
        let parameters = memory::product(&[width, hidden, depth, COPIES]);
        let what =
            || format!("a network of {depth} blocks of width {width} on {} rows", data.x.rows());
        // Sums over features by class, in two doubles each, and their scatter.
        let sums = memory::product(&[2, width, width.saturating_add(data.classes as u64)]);
        let numbers = activations.saturating_add(parameters).saturating_add(sums);
        Ok(memory::check(what, &[numbers, size_of::<f64>() as u64])?)
    }
}

/// Trains the networks of a plan, several at a time; results depend on the plan alone.
///
/// # Errors
/// [`CollapseError::Setting`] for unusable numbers, [`CollapseError::Memory`],
/// [`CollapseError::Interrupted`], [`CollapseError::Store`].
pub fn experiment(
    plan: &DepthPlan,
    data: &DepthData,
    key: RngKey,
    around: &Surroundings<'_>,
) -> Result<DepthOutcome, CollapseError> {
    plan.check_memory(data)?;
    let mut runs: Vec<(usize, u64)> = Vec::new();
    for &depth in &plan.depths {
        runs.extend((0..plan.seeds).map(|seed| (depth, seed)));
    }
    // The deepest first, so that the last work items are short.
    let mut order: Vec<(usize, (usize, u64))> = runs.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, (depth, _))| std::cmp::Reverse(*depth));
    let (done, total) = (AtomicU64::new(0), runs.len());
    let rows = parallel::map(order, |_, (place, run)| {
        let row = known_or_trained(plan, data, (place, run), key, around);
        (around.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, total as u64);
        (place, row)
    });
    let mut rows: Vec<(usize, Option<DepthRow>)> = rows
        .into_iter()
        .map(|(place, row)| Ok((place, row?)))
        .collect::<Result<_, CollapseError>>()?;
    rows.sort_by_key(|(place, _)| *place);
    let rows: Vec<DepthRow> = rows.into_iter().filter_map(|(_, row)| row).collect();
    if rows.len() < total {
        return Ok(DepthOutcome::Part { known: rows.len(), total });
    }
    Ok(DepthOutcome::Complete(DepthResult {
        nc1_slope: slope(&rows, plan.seeds, |row| row.nc1_quotient),
        gap_slope: slope(&rows, plan.seeds, |row| row.gap),
        hidden_penalty_slope: slope(&rows, plan.seeds, |row| Some(row.hidden_penalty)),
        rows,
    }))
}

/// A network of the store, or a trained one if it belongs to this shard.
fn known_or_trained(
    plan: &DepthPlan,
    data: &DepthData,
    (place, run): (usize, (usize, u64)),
    key: RngKey,
    around: &Surroundings<'_>,
) -> Result<Option<DepthRow>, CollapseError> {
    let (depth, seed) = run;
    let print = Fingerprint::of(&[("of", around.identity), ("depth", &depth), ("seed", &seed)]);
    let piece = PieceKey::new(PIECE, print);
    if !around.shard.owns(place) {
        let read = |payload: Vec<u8>| {
            serde_json::from_slice(&payload).map_err(|error| format!("no network: {error}"))
        };
        return Ok(around.store.decoded(&piece, read)?);
    }
    // Finished networks need no time.
    let train = || match (around.stop)() {
        true => Err(CollapseError::Interrupted),
        false => run_one(plan, data, run, (key, around.stop)),
    };
    around.store.finished(&piece, train).map(Some)
}

fn run_one(
    plan: &DepthPlan,
    data: &DepthData,
    (depth, seed): (usize, u64),
    (key, stop): (RngKey, &(dyn Fn() -> bool + Sync)),
) -> Result<DepthRow, CollapseError> {
    let net = RefNet::new(RefNetSpec {
        architecture: plan.architecture,
        depth,
        width: data.x.cols(),
        hidden: plan.hidden,
        classes: data.classes,
        tokens: data.tokens,
        norming: plan.norming,
        norm: plan.norm,
    })?;
    let strength = plan.rule.of(plan.strength, depth);
    let head = plan.head_strength.unwrap_or(strength);
    let penalty = Penalty { blocks: strength, head, biases: plan.biases };
    let key = key.fold("net").fold_index(seed);
    let found = trained(&net, data, (plan.fit, penalty), plan.training, (key, stop))?;
    let gufm = Gufm { classes: data.classes, strength: head, norm: plan.norm, fit: plan.fit };
    let bound = match data.is_balanced() && plan.fit != Fit::SquaredErrorBias {
        true => Some(gufm.optimum()?.objective),
        false => None,
    };
    let objective = found.objective.total();
    let frame = if plan.fit.is_simplex() { "nc2_etf_err_W" } else { "nc2_of_err_W" };
    Ok(DepthRow {
        depth,
        seed,
        strength,
        nc1_quotient: found.metrics.get("nc1_quotient"),
        nc1_pinv: found.metrics.get("nc1_pinv"),
        nc2_head: found.metrics.get(frame),
        nc3_sample: found.metrics.get("nc3_sample_1mcos"),
        accuracy: found.accuracy,
        objective,
        fit: found.objective.fit,
        hidden_penalty: found.objective.blocks,
        gap: bound.map(|bound| objective - bound),
        gradient_norm: found.gradient_norm,
        nc1_of_layers: found.nc1_of_layers,
    })
}

/// Least-squares slope of logarithms over the logarithm of depth, for each seed; none if a value is
/// not positive or there is only one depth.
fn slope(rows: &[DepthRow], seeds: u64, of: impl Fn(&DepthRow) -> Option<f64>) -> Option<Slope> {
    let mut slopes = Vec::new();
    for seed in 0..seeds {
        let own = rows.iter().filter(|row| row.seed == seed);
        let points: Vec<(f64, f64)> = own
            .map(|row| {
                let value = of(row).filter(|value| *value > 0.0 && value.is_finite())?;
                Some(((row.depth as f64).ln(), value.ln()))
            })
            .collect::<Option<_>>()?;
        slopes.push(least_squares(&points)?);
    }
    let count = slopes.len() as f64;
    let mean = slopes.iter().sum::<f64>() / count;
    let variance = slopes.iter().map(|slope| (slope - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile = STUDENT.get(slopes.len().wrapping_sub(2)).copied().unwrap_or(NORMAL);
    let half = quantile * (variance / count).sqrt();
    let interval = half.is_finite().then_some([mean - half, mean + half]);
    Some(Slope { slope: mean, interval })
}

fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |get: fn(&(f64, f64)) -> f64| points.iter().map(get).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let along: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let across: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    (across > 0.0).then(|| along / across)
}
