//! Iterations of the first plane during training.

use super::{ConvergenceError, ConvergencePlan, check_progress};
use crate::learner::Learner;
use linwright_measure::timing::MedianRange;
use linwright_ops::{Op, OpSpec, RotorSpec, Shape, Workspace};
use linwright_run::Monitor;
use linwright_tensor::kernels::spin::skew_matrix;
use linwright_tensor::linalg::{PowerSettings, power_plane};
use linwright_tensor::{Mat, RngKey};
use linwright_train::Schedule;
use serde::{Deserialize, Serialize};

/// Number of Adam steps.
pub const STEPS: u64 = 10;
/// Largest number of iterations.
pub const MAX_ITERATIONS: usize = 100;
/// Converged if `|v + v_before|` is below this.
const TOLERANCE: f64 = 1e-3;
/// Initial learning rate of the cosine schedule.
const RATE: f64 = 0.05;
/// Rows per step.
const BATCH: usize = 64;

/// Iterations before one step, over all repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingRow {
    /// Features, 2^n.
    pub features: usize,
    /// The step, from one.
    pub step: u64,
    /// Mean over the repeats.
    pub mean_iterations: f64,
    /// Median and range.
    pub iterations: MedianRange,
    /// Number of repeats that did not converge in [`MAX_ITERATIONS`] iterations.
    pub not_converged: usize,
}

pub(super) fn rows(
    plan: &ConvergencePlan,
    monitor: &mut dyn Monitor,
) -> Result<Vec<TrainingRow>, ConvergenceError> {
    let mut rows = Vec::new();
    for (place, &n) in plan.generators.iter().enumerate() {
        let mut counts = vec![Vec::new(); STEPS as usize];
        for repeat in 0..plan.repeats {
            check_progress(
                monitor,
                place * plan.repeats + repeat,
                plan.generators.len() * plan.repeats,
            )?;
            let key = RngKey::new(plan.seed).fold("training").fold_index(n as u64);
            let learned = learn(n, key.fold_index(repeat as u64))?;
            counts.iter_mut().zip(learned).for_each(|(counts, count)| counts.push(count));
        }
        rows.extend((1..).zip(&counts).map(|(step, counts)| row(1 << n, step, counts)));
    }
    Ok(rows)
}

/// Number of iterations, and whether they converged.
type Count = (usize, bool);

fn row(features: usize, step: u64, counts: &[Count]) -> TrainingRow {
    let iterations: Vec<f64> = counts.iter().map(|(count, _)| *count as f64).collect();
    TrainingRow {
        features,
        step,
        mean_iterations: iterations.iter().sum::<f64>() / iterations.len() as f64,
        iterations: MedianRange::of(&iterations),
        not_converged: counts.iter().filter(|(_, converged)| !converged).count(),
    }
}

/// Trains one rotor: the count before each step.
fn learn(n: usize, key: RngKey) -> Result<Vec<Count>, ConvergenceError> {
    let shape = Shape { out: 1 << n, inp: 1 << n };
    let spec = OpSpec::Rotor(RotorSpec::default());
    let mut learner = Learner::new(spec.random(shape, key.fold("learner"))?);
    let target: Op<f32> = spec.random(shape, key.fold("target"))?;
    let schedule = Schedule { peak: RATE, warmup: 0, floor: 0.0 };
    let settings = PowerSettings { most: MAX_ITERATIONS, tolerance: TOLERANCE };
    let mut vector: Vec<f64> = key.fold("start").stream().normals(n, 1.0);
    let (mut counts, mut ws) = (Vec::new(), Workspace::default());
    let mut y = Mat::zeros(BATCH, shape.out);
    let mut wanted = Mat::zeros(BATCH, shape.out);
    for step in 0..STEPS {
        let skew = skew_matrix(learner.op.map().params()[0].values, n);
        // A vector in the null space has no plane: zero iterations, converged.
        let count = match power_plane(skew.view(), &vector, settings) {
            Some(found) => {
                vector = found.plane.u;
                (found.iterations, found.converged)
            }
            None => (MAX_ITERATIONS, false),
        };
        counts.push(count);
        let normals = key.fold("rows").fold_index(step).stream().normals(BATCH * shape.inp, 1.0);
        let x = Mat::from_vec(BATCH, shape.inp, normals);
        target.map().forward(x.view(), wanted.view_mut(), None, &mut ws);
        learner.step(&x, &wanted, &mut y, schedule.rate(step, STEPS));
    }
    Ok(counts)
}
