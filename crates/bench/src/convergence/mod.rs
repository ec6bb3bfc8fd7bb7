//! Convergence of the rotor paper's power iteration, and its error.
//!
//! Two experiments. *Training*, after appendix D of arXiv:2507.11688: a double rotor of 2^n
//! features learns a random target rotor in 10 Adam steps with learning rate 0.05, a cosine
//! schedule and 64 new rows each. Before each step, the first plane of its left bivector is
//! iterated until `|v + v_before| < 1e-3`, at most 100 times, from a random vector at step 1 and
//! from the previous step's vector afterwards; the number of iterations is reported. *Errors*: the
//! rotor from a fixed number of iterations is compared with the exponential series, for random
//! bivectors of every n, and for bivectors of 2^8 features with equal or nearly equal angles, for
//! which its derivative is compared, too.
//!
//! Deviations: at step 1, iterations are counted from a random vector. The authors' published
//! experiment counts first after an Adam step, from the vector of the rotor's initial
//! decomposition: its step 1, with 4.3 to 7 iterations, is step 2 here. It trains a single rotor on
//! the same rows in every step. The paper counts while it differentiates through the iterations;
//! here the gradient is that of the exact rotor, so that training does not depend on the iteration.
//! The paper does not say which of the two bivectors it counts.

mod accuracy;
pub mod report;
mod training;

pub use accuracy::{AccuracyRow, Angles, ExactRow, ITERATIONS};
pub use training::{MAX_ITERATIONS, STEPS, TrainingRow};

use crate::Machine;
use linwright_measure::timing::MedianRange;
use linwright_ops::OpError;
use linwright_run::Monitor;
use linwright_tensor::linalg::NoConvergence;
use serde::{Deserialize, Serialize};

/// Smallest number of generators: with two planes there is one to iterate.
pub const MIN_GENERATORS: usize = 4;
/// Largest number of generators: the series of 2^12 features takes a tenth of a second.
pub const MAX_GENERATORS: usize = 12;
/// Largest number of repeats.
pub const MAX_REPEATS: usize = 10_000;

/// Options of the experiments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvergencePlan {
    /// Generators n of the algebras, 2^n features each.
    pub generators: Vec<usize>,
    /// Number of random bivectors per algebra.
    pub repeats: usize,
    /// Seed of the bivectors.
    pub seed: u64,
}

/// Results of the experiments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// The machine.
    pub machine: Machine,
    /// Number of random bivectors per algebra.
    pub repeats: usize,
    /// Seed of the bivectors.
    pub seed: u64,
    /// Iterations during training.
    pub training: Vec<TrainingRow>,
    /// Errors after fixed numbers of iterations.
    pub accuracy: Vec<AccuracyRow>,
    /// Errors of the eigendecomposition, on the same bivectors.
    pub exact: Vec<ExactRow>,
}

/// An experiment that cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConvergenceError {
    /// An option out of range.
    #[error("{what}: found {found}, expected {expected}")]
    Plan {
        /// Name of the option.
        what: &'static str,
        /// Its value.
        found: usize,
        /// Its range.
        expected: String,
    },
    /// A non-finite bivector.
    #[error("a bivector of {generators} generators: {source}")]
    Numerics {
        /// Number of generators.
        generators: usize,
        /// The error of the decomposition.
        source: NoConvergence,
    },
    /// A rotor that cannot be built.
    #[error(transparent)]
    Operator(#[from] OpError),
    /// Cancelled.
    #[error("interrupted")]
    Interrupted,
}

impl ConvergencePlan {
    fn check(&self) -> Result<(), ConvergenceError> {
        let wrong =
            |what, found, expected: String| Err(ConvergenceError::Plan { what, found, expected });
        if self.generators.is_empty() {
            return wrong("algebras", 0, "at least 1".to_owned());
        }
        if !(1..=MAX_REPEATS).contains(&self.repeats) {
            return wrong("repeats", self.repeats, format!("1 to {MAX_REPEATS}"));
        }
        let possible = MIN_GENERATORS..=MAX_GENERATORS;
        match self.generators.iter().find(|n| !possible.contains(n)) {
            Some(&n) => wrong("generators", n, format!("{MIN_GENERATORS} to {MAX_GENERATORS}")),
            None => Ok(()),
        }
    }
}

/// Runs both experiments.
///
/// # Errors
/// [`ConvergenceError`] for an option out of range, non-finite numbers, or cancellation.
pub fn run(
    plan: &ConvergencePlan,
    monitor: &mut dyn Monitor,
) -> Result<Convergence, ConvergenceError> {
    plan.check()?;
    monitor.step("training rotors");
    let training = training::rows(plan, monitor)?;
    monitor.step("comparing with the exact rotor");
    let (accuracy, exact) = accuracy::rows(plan, monitor)?;
    Ok(Convergence {
        machine: Machine::here(),
        repeats: plan.repeats,
        seed: plan.seed,
        training,
        accuracy,
        exact,
    })
}

/// Reports progress, and fails if cancelled.
fn check_progress(
    monitor: &mut dyn Monitor,
    done: usize,
    total: usize,
) -> Result<(), ConvergenceError> {
    monitor.progress(done as u64, total as u64);
    if monitor.interrupted() { Err(ConvergenceError::Interrupted) } else { Ok(()) }
}

impl Convergence {
    /// Both experiments as one CSV table: iterations by step, then errors by iterations.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut lines = vec![
            "experiment,bivectors,features,step,iterations,quantity,median,min,max".to_owned(),
        ];
        for row in &self.training {
            let (d, step, MedianRange { median, min, max }) =
                (row.features, row.step, row.iterations);
            let mean = row.mean_iterations;
            lines.push(format!("training,normal,{d},{step},,iterations,{median},{min},{max}"));
            lines.push(format!("training,normal,{d},{step},,mean iterations,{mean},,"));
        }
        let mut line =
            |angles: Angles, d: usize, iterations: &str, what: &str, spread: MedianRange| {
                let MedianRange { median, min, max } = spread;
                let angles = angles.name();
                lines.push(format!(
                    "accuracy,{angles},{d},,{iterations},{what},{median:e},{min:e},{max:e}"
                ));
            };
        for row in &self.accuracy {
            let iterations = row.iterations.to_string();
            line(row.angles, row.features, &iterations, "rotor error", row.rotor_error);
            if let Some(error) = row.derivative_error {
                line(row.angles, row.features, &iterations, "derivative error", error);
            }
        }
        for row in &self.exact {
            line(row.angles, row.features, "exact", "rotor error", row.rotor_error);
            if let Some(error) = row.derivative_error {
                line(row.angles, row.features, "exact", "derivative error", error);
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_run::{Silent, Stopped};
    use linwright_tensor::RngKey;
    use linwright_tensor::kernels::spin::skew_matrix;
    use linwright_tensor::linalg::{PowerSettings, power_plane};

    fn quietly(plan: &ConvergencePlan, cancelled: bool) -> Result<Convergence, ConvergenceError> {
        if cancelled { run(plan, &mut Stopped) } else { run(plan, &mut Silent) }
    }

    fn plan() -> ConvergencePlan {
        ConvergencePlan { generators: vec![4, 6], repeats: 6, seed: 2 }
    }

    #[test]
    fn a_warm_start_saves_iterations() {
        let found = quietly(&plan(), false).unwrap();
        assert_eq!(found.training.len(), 2 * STEPS as usize);
        let mean = |features: usize, step: u64| {
            let is = |row: &&TrainingRow| row.features == features && row.step == step;
            found.training.iter().find(is).unwrap().mean_iterations
        };
        for features in [16, 64] {
            assert!(mean(features, 1) > 3.0, "{}", mean(features, 1));
            assert!(mean(features, STEPS) < mean(features, 1) / 1.5, "{}", mean(features, STEPS));
        }
    }

    #[test]
    fn the_papers_first_count_is_a_warm_one_after_a_step() {
        // Means over random bivectors, from a random vector, and after an Adam step, which first
        // changes each coefficient by the learning rate, from the vector after the paper's 20
        // iterations.
        let means = |n: usize| {
            let counts = |repeat: u64| {
                let key = RngKey::new(repeat).fold_index(n as u64);
                let normals = |name: &str, count| key.fold(name).stream().normals(count, 1.0);
                let b: Vec<f64> = normals("b", n * (n - 1) / 2);
                let signs: Vec<f64> = normals("signs", b.len());
                let stepped: Vec<f64> =
                    b.iter().zip(&signs).map(|(b, sign)| b + 0.05 * sign.signum()).collect();
                let count = |b: &[f64], start: &[f64], most, tolerance| {
                    let settings = PowerSettings { most, tolerance };
                    power_plane(skew_matrix(b, n).view(), start, settings).unwrap()
                };
                let start: Vec<f64> = normals("start", n);
                let before = count(&b, &start, 20, 1e-5).plane.u;
                let warm = count(&stepped, &before, MAX_ITERATIONS, 1e-3).iterations as f64;
                (count(&b, &start, MAX_ITERATIONS, 1e-3).iterations as f64, warm)
            };
            let all: Vec<(f64, f64)> = (0..1000).map(counts).collect();
            let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / 1000.0;
            (mean(|count| count.0), mean(|count| count.1))
        };
        for (n, papers) in [(6, 4.3), (12, 7.0)] {
            let (cold, warm) = means(n);
            assert!((warm - papers).abs() < 0.15 * papers, "{n}: {warm}");
            assert!(cold > 1.6 * papers, "{n}: {cold}");
        }
    }

    #[test]
    fn more_iterations_are_nearer_to_the_exact_rotor_unless_angles_are_equal() {
        let found = quietly(&plan(), false).unwrap();
        let row = |angles: Angles, features: usize, iterations: usize| {
            let is = |row: &&AccuracyRow| {
                (row.angles, row.features, row.iterations) == (angles, features, iterations)
            };
            *found.accuracy.iter().find(is).unwrap()
        };
        let (few, many) = (ITERATIONS[0], ITERATIONS[ITERATIONS.len() - 1]);
        let error = |iterations| row(Angles::Normal, 64, iterations).rotor_error.median;
        assert!(error(many) < error(few) / 100.0, "{} and {}", error(few), error(many));
        // With equal angles the value is exact at once, but the derivative never converges.
        let equal = row(Angles::Apart(0.0), 256, many);
        assert!(equal.rotor_error.max < 1e-9, "{equal:?}");
        assert!(equal.derivative_error.unwrap().median > 0.05, "{equal:?}");
        // For nearly equal angles, twenty iterations do not separate the planes.
        assert!(row(Angles::Apart(0.01), 256, 20).rotor_error.median > 1e-4);
        for exact in &found.exact {
            assert!(exact.rotor_error.max < 1e-12, "{exact:?}");
            assert!(exact.derivative_error.is_none_or(|error| error.max < 1e-6), "{exact:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let small = ConvergencePlan { generators: vec![5], repeats: 2, seed: 7 };
        assert_eq!(quietly(&small, false), quietly(&small, false));
    }

    #[test]
    fn plans_out_of_range_and_interruptions_are_errors() {
        let refused = [
            ConvergencePlan { generators: Vec::new(), ..plan() },
            ConvergencePlan { generators: vec![3], ..plan() },
            ConvergencePlan { generators: vec![13], ..plan() },
            ConvergencePlan { repeats: 0, ..plan() },
            ConvergencePlan { repeats: MAX_REPEATS + 1, ..plan() },
        ];
        for plan in refused {
            let error = quietly(&plan, false).unwrap_err();
            assert!(matches!(error, ConvergenceError::Plan { .. }), "{error}");
        }
        assert_eq!(quietly(&plan(), true), Err(ConvergenceError::Interrupted));
    }

    #[test]
    fn the_table_has_a_line_for_every_number() {
        let found =
            quietly(&ConvergencePlan { generators: vec![4], repeats: 2, seed: 0 }, false).unwrap();
        let csv = found.to_csv();
        let of = |rows: &[(bool, usize)]| rows.iter().map(|(_, count)| count).sum::<usize>();
        let derivatives =
            |has: &dyn Fn(usize) -> bool, count: usize| (0..count).filter(|&k| has(k)).count();
        let accuracy =
            derivatives(&|k| found.accuracy[k].derivative_error.is_some(), found.accuracy.len());
        let exact = derivatives(&|k| found.exact[k].derivative_error.is_some(), found.exact.len());
        let lines = of(&[
            (true, 2 * found.training.len()),
            (true, found.accuracy.len() + accuracy),
            (true, found.exact.len() + exact),
        ]);
        assert_eq!(csv.lines().count(), 1 + lines, "{csv}");
        assert!(csv.lines().all(|line| line.split(',').count() == 9), "{csv}");
    }
}
