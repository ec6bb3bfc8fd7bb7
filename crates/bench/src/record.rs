//! Results of a benchmark, as plain data.

use super::{Checked, Pass};
use linwright_measure::timing::MedianRange;
use linwright_ops::{OpSpec, Shape};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Results of an operator benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorBench {
    /// The machine.
    pub machine: Machine,
    /// Seed of parameters and inputs.
    pub seed: u64,
    /// Number of input rows.
    pub rows: usize,
    /// Number of rounds; times are their medians.
    pub rounds: usize,
    /// Dtype of the computation.
    pub dtype: Cow<'static, str>,
    /// One entry per operator and shape, including dense.
    pub results: Vec<Entry>,
    /// Operators that do not exist for a shape.
    pub skipped: Vec<Skipped>,
}

/// Properties of the machine that affect times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores available to this process; `None` if unknown.
    pub cores: Option<usize>,
    /// Instruction set of the kernels.
    pub instruction_set: Cow<'static, str>,
    /// Number of threads.
    pub threads: usize,
    /// Processor and operating system.
    pub platform: String,
    /// Version of this program.
    pub version: Cow<'static, str>,
}

impl Machine {
    /// The current machine.
    #[must_use]
    pub fn here() -> Self {
        Self {
            cores: std::thread::available_parallelism().ok().map(usize::from),
            instruction_set: parallel::instruction_set().into(),
            threads: parallel::threads(),
            platform: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Results of one operator of one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// See [`super::Subject::label`].
    pub label: String,
    /// The specification.
    pub spec: OpSpec,
    /// Features out and in.
    pub shape: Shape,
    /// Number of parameters.
    pub parameters: u64,
    /// Parameters over those of the dense weight.
    pub keep: f64,
    /// Multiply-adds for one row.
    pub macs_per_row: u64,
    /// The check before the timing.
    pub checked: Checked,
    /// Times, in the order of the passes of the plan; an operator without a pass has no entry for
    /// it.
    pub passes: Vec<PassTime>,
    /// Peak memory of a forward pass beyond input, output and operator, in bytes; `None` if not
    /// measured.
    pub forward_peak_bytes: Option<u64>,
}

impl Entry {
    /// Time of a pass, if measured.
    #[must_use]
    pub fn pass(&self, pass: Pass) -> Option<&PassTime> {
        self.passes.iter().find(|time| time.pass == pass)
    }
}

/// Time of one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassTime {
    /// The pass.
    pub pass: Pass,
    /// Milliseconds per call.
    pub milliseconds: MedianRange,
    /// Milliseconds of each round, in order.
    pub rounds_milliseconds: Vec<f64>,
    /// Billions of operations per second of the equivalent dense product, 2 · out · inp · rows over
    /// the time; only for forward passes.
    pub equivalent_gflops: Option<f64>,
    /// Speed relative to dense: median over rounds of dense time over this time; `None` if dense
    /// has no such pass.
    pub times_dense: Option<f64>,
}

/// An operator that does not exist for a shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// See [`super::Subject::label`].
    pub label: String,
    /// Features out and in.
    pub shape: Shape,
    /// The reason.
    pub reason: String,
}
