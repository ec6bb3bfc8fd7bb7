//! Runs the rounds of an operator benchmark.

use super::candidate::{Candidate, Rows};
use super::{
    BenchError, Dtype, Entry, Machine, OperatorBench, PassTime, Skipped, Subject, standard,
};
use linwright_measure::timing::MedianRange;
use linwright_ops::{OpError, Shape};
use linwright_run::Monitor;
use linwright_tensor::Scalar;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest number of entries in a batch of rows.
const MAX_NUMBERS: usize = 1 << 30;

/// A timed pass of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Rows of x to rows of y.
    Forward,
    /// Gradients of the parameters and of x.
    Backward,
    /// Forward, mean squared error, backward without dx, Adam.
    Training,
    /// Rows of y to rows of x, for invertible operators.
    Inverse,
    /// The dense inverse, for invertible operators.
    DenseInverse,
    /// The logarithm of the determinant, if the operator has one.
    LogDet,
}

impl Pass {
    /// All passes.
    pub const ALL: &'static [Self] = &[
        Self::Forward,
        Self::Backward,
        Self::Training,
        Self::Inverse,
        Self::DenseInverse,
        Self::LogDet,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Training => "training",
            Self::Inverse => "inverse",
            Self::DenseInverse => "dense-inverse",
            Self::LogDet => "log-det",
        }
    }

    /// Whether the pass computes gradients.
    pub(super) fn learns(self) -> bool {
        matches!(self, Self::Backward | Self::Training)
    }

    /// Whether only invertible operators have it.
    pub(super) fn inverts(self) -> bool {
        matches!(self, Self::Inverse | Self::DenseInverse | Self::LogDet)
    }
}

impl Serialize for Pass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Pass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.iter().find(|pass| pass.name() == name);
        found.copied().ok_or_else(|| D::Error::custom(format!("unknown pass {name:?}")))
    }
}

/// Options of an operator benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorPlan {
    /// The operators; dense is added if missing.
    pub subjects: Vec<Subject>,
    /// Features out and in.
    pub shapes: Vec<Shape>,
    /// The passes.
    pub passes: Vec<Pass>,
    /// Dtype of the computation.
    pub dtype: Dtype,
    /// Number of input rows.
    pub rows: usize,
    /// Number of rounds; times are their medians.
    pub rounds: usize,
    /// Seed of parameters and inputs.
    pub seed: u64,
}

impl OperatorPlan {
    /// Checks the options, including memory.
    fn check(&self) -> Result<(), BenchError> {
        let wrong = |what, found: String, expected: &str| {
            Err(BenchError::Plan { what, found, expected: expected.to_owned() })
        };
        for (what, count) in [
            ("rows", self.rows),
            ("rounds", self.rounds),
            ("operators", self.subjects.len()),
            ("shapes", self.shapes.len()),
        ] {
            if count == 0 {
                return wrong(what, "0".to_owned(), "at least 1");
            }
        }
        if let Some(pass) = self.passes.iter().find(|&&pass| !self.dtype.has(pass)) {
            let found = format!("{} in {}", pass.name(), self.dtype.name());
            return wrong("passes", found, "training in f32, the type of Adam's moments");
        }
        for &Shape { out, inp } in &self.shapes {
            if out == 0 || inp == 0 {
                return wrong("features", format!("{out}x{inp}"), "at least 1 out and in");
            }
            let numbers = out.max(inp).checked_mul(self.rows);
            if numbers.is_none_or(|numbers| numbers > MAX_NUMBERS) {
                let found = format!("{} rows of {out}x{inp}", self.rows);
                let most = format!("at most {MAX_NUMBERS} numbers");
                return wrong("rows times features", found, &most);
            }
        }
        Ok(())
    }

    /// Operators for a shape, dense last; those that do not exist for it are recorded as skipped.
    fn candidates<T: Scalar>(
        &self,
        shape: Shape,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<Candidate<T>>, BenchError> {
        let mut candidates = Vec::new();
        let mut subjects = self.subjects.clone();
        let dense = standard("dense").map(Subject::new);
        subjects.extend(dense.filter(|dense| !self.subjects.contains(dense)));
        for subject in &subjects {
            match Candidate::new(subject, shape, &self.passes, self.seed) {
                Ok(candidate) => candidates.push(candidate),
                Err(BenchError::Operator(OpError::Unsupported { reason, .. })) => {
                    skipped.push(Skipped { label: subject.label.clone(), shape, reason });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(candidates)
    }
}

/// Times every operator at every shape.
///
/// # Errors
/// [`BenchError`] for invalid options, a wrong output, non-finite numbers, no operator for any of
/// the shapes, or cancellation.
pub fn run(plan: &OperatorPlan, monitor: &mut dyn Monitor) -> Result<OperatorBench, BenchError> {
    plan.check()?;
    match plan.dtype {
        Dtype::F32 => run_in::<f32>(plan, monitor),
        Dtype::F64 => run_in::<f64>(plan, monitor),
    }
}

fn run_in<T: Scalar>(
    plan: &OperatorPlan,
    monitor: &mut dyn Monitor,
) -> Result<OperatorBench, BenchError> {
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for &shape in &plan.shapes {
        monitor.step(&format!("checking {} x {}", shape.out, shape.inp));
        let mut candidates = plan.candidates::<T>(shape, &mut skipped)?;
        if candidates.is_empty() {
            continue;
        }
        monitor.step(&format!("timing {} x {}", shape.out, shape.inp));
        rounds(plan, shape, &mut candidates, monitor)?;
        results.extend(entries(plan, &candidates));
    }
    let asked = |entry: &Entry| plan.subjects.iter().any(|subject| subject.label == entry.label);
    if !results.iter().any(asked) {
        let reason =
            |s: &Skipped| format!("{} {} x {}: {}", s.label, s.shape.out, s.shape.inp, s.reason);
        let reasons = skipped.iter().map(reason).collect::<Vec<_>>().join("; ");
        return Err(BenchError::Nothing { reasons });
    }
    Ok(OperatorBench {
        machine: Machine::here(),
        seed: plan.seed,
        rows: plan.rows,
        rounds: plan.rounds,
        dtype: T::NAME.into(),
        results,
        skipped,
    })
}

fn rounds<T: Scalar>(
    plan: &OperatorPlan,
    shape: Shape,
    candidates: &mut [Candidate<T>],
    monitor: &mut dyn Monitor,
) -> Result<(), BenchError> {
    let mut rows = Rows::new(shape, plan.rows, &plan.passes, plan.seed);
    let count = candidates.len();
    let mut go_on = |done: usize| {
        monitor.progress(done as u64, ((plan.rounds + 1) * count) as u64);
        if monitor.interrupted() { Err(BenchError::Interrupted) } else { Ok(()) }
    };
    for (k, candidate) in candidates.iter_mut().enumerate() {
        go_on(k)?;
        candidate.warm_up(&plan.passes, &mut rows)?;
    }
    for round in 0..plan.rounds {
        for (index, &pass) in plan.passes.iter().enumerate() {
            for k in 0..count {
                go_on((round + 1) * count + index * count / plan.passes.len())?;
                // Each round begins with another operator, so that none always follows the same
                // one.
                candidates[(round + k) % count].time(index, pass, &mut rows)?;
            }
        }
    }
    Ok(())
}

fn entries<T: Scalar>(plan: &OperatorPlan, candidates: &[Candidate<T>]) -> Vec<Entry> {
    let is_dense = |candidate: &&Candidate<T>| candidate.subject.spec.kind() == "dense";
    let dense = candidates.iter().find(is_dense);
    let pass_time = |candidate: &Candidate<T>, index: usize| {
        let seconds = &candidate.seconds[index];
        let pass = plan.passes[index];
        let shape = candidate.shape();
        let flops = 2.0 * shape.dense_parameters() as f64 * plan.rows as f64;
        (!seconds.is_empty()).then(|| {
            let rounds_milliseconds: Vec<f64> = seconds.iter().map(|s| s * 1e3).collect();
            let dense = dense.map(|dense| &dense.seconds[index]).filter(|d| !d.is_empty());
            let times_dense = dense.map(|dense| {
                let ratios: Vec<f64> = dense.iter().zip(seconds).map(|(d, s)| d / s).collect();
                MedianRange::of(&ratios).median
            });
            let milliseconds = MedianRange::of(&rounds_milliseconds);
            let gflops = flops / (milliseconds.median * 1e-3) / 1e9;
            PassTime {
                pass,
                milliseconds,
                rounds_milliseconds,
                equivalent_gflops: (pass == Pass::Forward).then_some(gflops),
                times_dense,
            }
        })
    };
    let entry = |candidate: &Candidate<T>| {
        let (shape, parameters) = (candidate.shape(), candidate.parameters());
        Entry {
            label: candidate.subject.label.clone(),
            spec: candidate.op.map().spec(),
            shape,
            parameters,
            keep: parameters as f64 / shape.dense_parameters() as f64,
            macs_per_row: candidate.op.map().macs_per_row(),
            checked: candidate.checked,
            passes: (0..plan.passes.len()).filter_map(|k| pass_time(candidate, k)).collect(),
            forward_peak_bytes: None,
        }
    };
    candidates.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_run::{Silent, Stopped};

    fn plan(kinds: &[&str], shapes: &[(usize, usize)]) -> OperatorPlan {
        OperatorPlan {
            subjects: kinds.iter().map(|kind| Subject::new(standard(kind).unwrap())).collect(),
            shapes: shapes.iter().map(|&(out, inp)| Shape { out, inp }).collect(),
            passes: Pass::ALL.to_vec(),
            dtype: Dtype::F32,
            rows: 3,
            rounds: 3,
            seed: 1,
        }
    }

    fn quietly(plan: &OperatorPlan) -> Result<OperatorBench, BenchError> {
        run(plan, &mut Silent)
    }

    #[test]
    fn every_operator_is_timed_beside_dense() {
        let bench = quietly(&plan(&["rotor", "low_rank"], &[(64, 128)])).unwrap();
        let labels: Vec<&str> = bench.results.iter().map(|e| e.label.as_str()).collect();
        assert_eq!(labels, ["rotor", "low_rank rank=64", "dense"]);
        for entry in &bench.results {
            for pass in [Pass::Forward, Pass::Backward, Pass::Training] {
                let time = entry.pass(pass).unwrap();
                assert_eq!(time.rounds_milliseconds.len(), 3);
                let MedianRange { median, min, max } = time.milliseconds;
                assert!(0.0 < min && min <= median && median <= max && max.is_finite());
                assert_eq!(time.equivalent_gflops.is_some(), pass == Pass::Forward);
                assert!(time.times_dense.unwrap() > 0.0);
            }
        }
        let dense = &bench.results[2];
        assert_eq!((dense.parameters, dense.keep, dense.macs_per_row), (64 * 128, 1.0, 64 * 128));
        assert!(dense.passes.iter().all(|time| time.times_dense == Some(1.0)));
    }

    #[test]
    fn what_a_shape_cannot_have_is_skipped_with_its_reason() {
        let bench = quietly(&plan(&["rotor", "low_rank"], &[(64, 64), (8, 8)])).unwrap();
        assert_eq!(bench.results.len(), 5);
        let [skipped] = &bench.skipped[..] else { panic!("{:?}", bench.skipped) };
        assert_eq!((skipped.label.as_str(), skipped.shape.out), ("low_rank rank=64", 8));
        assert!(skipped.reason.contains("rank 64"), "{}", skipped.reason);
        let error = quietly(&plan(&["low_rank"], &[(8, 8)])).unwrap_err();
        assert!(matches!(error, BenchError::Nothing { .. }), "{error}");
    }

    #[test]
    fn impossible_plans_are_refused_before_anything_is_made() {
        let good = plan(&["rotor"], &[(64, 64)]);
        let no_rows = OperatorPlan { rows: 0, ..good.clone() };
        let no_rounds = OperatorPlan { rounds: 0, ..good.clone() };
        let nothing = OperatorPlan { subjects: Vec::new(), ..good.clone() };
        let no_shape = OperatorPlan { shapes: Vec::new(), ..good.clone() };
        let no_features = plan(&["rotor"], &[(64, 0)]);
        let no_optimizer = OperatorPlan { dtype: Dtype::F64, ..good.clone() };
        let too_much = OperatorPlan { rows: usize::MAX / 2, ..good };
        let all = [no_rows, no_rounds, nothing, no_shape, no_features, no_optimizer, too_much];
        for plan in all {
            let error = quietly(&plan).unwrap_err();
            assert!(matches!(error, BenchError::Plan { .. }), "{error}");
        }
    }

    #[test]
    fn a_bench_stops_when_asked() {
        let stopped = run(&plan(&["rotor"], &[(64, 64)]), &mut Stopped);
        assert_eq!(stopped, Err(BenchError::Interrupted));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(
            MedianRange::of(&[3.0, 1.0, 2.0]),
            MedianRange { median: 2.0, min: 1.0, max: 3.0 }
        );
        assert_eq!(MedianRange::of(&[4.0, 1.0]).median, 2.5);
    }
}
