//! What was found, as plain data.

use super::{Checked, Pass};
use linwright_measure::timing::MedianRange;
use linwright_ops::{OpSpec, Shape};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Everything that one run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorBench {
    /// Where it was measured.
    pub machine: Machine,
    /// Draws parameters and rows.
    pub seed: u64,
    /// Rows of x.
    pub rows: usize,
    /// Rounds, of which medians are taken.
    pub rounds: usize,
    /// Type of numbers in computation.
    pub dtype: Cow<'static, str>,
    /// One for each operator and shape, the dense ones included.
    pub results: Vec<Entry>,
    /// Operators that do not exist for a shape.
    pub skipped: Vec<Skipped>,
}

/// The machine, in what times depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Cores that this process may use; none if the system does not tell.
    pub cores: Option<usize>,
    /// Instructions that kernels use.
    pub instruction_set: Cow<'static, str>,
    /// Threads of the kernels.
    pub threads: usize,
    /// Processor and operating system.
    pub platform: String,
    /// Version of this program.
    pub version: Cow<'static, str>,
}

impl Machine {
    /// The machine that this runs on.
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

/// One operator of one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// See [`super::Subject::label`].
    pub label: String,
    /// The specification.
    pub spec: OpSpec,
    /// Features out and in.
    pub shape: Shape,
    /// Trainable numbers.
    pub parameters: u64,
    /// Parameters over those of the dense weight.
    pub keep: f64,
    /// Multiply-adds for one row.
    pub macs_per_row: u64,
    /// The comparison that came before the timing.
    pub checked: Checked,
    /// Times, in the order of the passes asked for; an operator without a pass has no entry of it.
    pub passes: Vec<PassTime>,
    /// Most memory of a forward pass beyond input, output and operator, in bytes; none where it was
    /// not measured.
    pub forward_peak_bytes: Option<u64>,
}

impl Entry {
    /// The time of a pass, if it was taken.
    #[must_use]
    pub fn pass(&self, pass: Pass) -> Option<&PassTime> {
        self.passes.iter().find(|time| time.pass == pass)
    }
}

/// The time of one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassTime {
    /// Which.
    pub pass: Pass,
    /// For one call.
    pub milliseconds: MedianRange,
    /// Each round's, in order.
    pub rounds_milliseconds: Vec<f64>,
    /// 2 · out · inp · rows of the dense product a forward pass stands for, over its time, in 10^9
    /// a second; forward passes alone have it.
    pub equivalent_gflops: Option<f64>,
    /// How many times faster than dense: median over rounds of the dense time of the round over
    /// this one; none where dense has no such pass.
    pub times_dense: Option<f64>,
}

/// An operator that a shape cannot have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// See [`super::Subject::label`].
    pub label: String,
    /// Features out and in.
    pub shape: Shape,
    /// Why.
    pub reason: String,
}
