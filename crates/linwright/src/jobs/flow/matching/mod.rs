//! Flow matching: a network of velocities between noise and points.

mod result;
mod training;

use self::result::VelocitiesTrained;
use crate::jobs::flow::train::data_file;
use crate::jobs::kit::{
    Failure, Folded, Folding, Job, Outcome, OutputPath, Session, StatePath, bounds, catalogue,
};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A network trained by flow matching on points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowMatch {
    /// The data: points drawn from `moons`, `checkerboard`, `circles` or a Gaussian, as for `flow
    /// train`, or a numpy array of points.
    #[schemars(extend("x-value" = "FILE|moons|checkerboard|circles", "x-required" = true))]
    pub data: String,
    /// Operator of the square hidden layers: `dense`, `cd:M` (M diagonals and M - 1 circulants), or
    /// an operator with all its options in JSON.
    #[schemars(extend("x-value" = "KIND"))]
    pub layer: String,
    /// Size of the network.
    #[serde(flatten, with = "Folding::<VelocityOptions>")]
    pub network: VelocityOptions,
    /// Number of updates.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Pairs of noise and data.
    #[serde(flatten, with = "Folding::<MatchTrainingOptions>")]
    pub training: MatchTrainingOptions,
    /// Largest learning rate of Adam; it falls to a hundredth along a cosine.
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: f64,
    /// Number of points whose density is measured, and of samples in the picture.
    #[schemars(range(min = 1, max = 1_000_000), extend("x-short" = "n"))]
    pub count: usize,
    /// Steps of the midpoint rule between noise and data.
    #[schemars(range(min = 1, max = 10_000))]
    pub ode_steps: usize,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Seed of initial weights, pairs and their order.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Training checkpoint, which stays when the network is written [default: in the user's store,
    /// until then].
    pub checkpoint: Option<StatePath>,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Default for FlowMatch {
    fn default() -> Self {
        Self {
            data: String::new(),
            layer: "cd:2".into(),
            network: VelocityOptions::default(),
            steps: 2000,
            training: MatchTrainingOptions::default(),
            rate: 2e-3,
            count: 1000,
            ode_steps: 40,
            output: OutputPath::default(),
            seed: 0,
            checkpoint: None,
            force: false,
        }
    }
}

/// Size of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VelocityOptions {
    /// Channels of the hidden layers.
    #[schemars(range(min = 1, max = 16384))]
    pub hidden: usize,
    /// Square hidden layers between the first and the last.
    #[schemars(range(min = 0, max = 256))]
    pub depth: usize,
}

impl Default for VelocityOptions {
    fn default() -> Self {
        Self { hidden: 64, depth: 3 }
    }
}

impl Folded for VelocityOptions {
    const NAME: &'static str = "match_architecture";
    const OPTION: &'static str = "architecture";
    const HELP: &'static str = "Size of the network: `hidden=32,depth=2`.";

    catalogue!(VelocityOptions);
}

/// Pairs of noise and data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MatchTrainingOptions {
    /// Batch size in pairs.
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: usize,
    /// Number of pairs of noise and data, drawn once.
    #[schemars(range(min = 2, max = 16_777_216))]
    pub pairs: u32,
}

impl Default for MatchTrainingOptions {
    fn default() -> Self {
        Self { batch: 256, pairs: 65_536 }
    }
}

impl Folded for MatchTrainingOptions {
    const NAME: &'static str = "match_training";
    const OPTION: &'static str = "training";
    const HELP: &'static str =
        "Pairs of noise and data that are trained on: `batch=128,pairs=4096`.";

    catalogue!(MatchTrainingOptions);
}

impl Job for FlowMatch {
    const VERB: &str = "flow-match";
    const ABOUT: &str = "Learn velocities between noise and points, by flow matching.\n\n\
        A network with square hidden layers of any operator (--layer) learns the velocity along \
        straight lines from noise to data. The output directory is a small network, with the \
        density of fresh points, a picture of samples, and the curve. Interrupted, it resumes.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<VelocitiesTrained>()];

    fn inputs(&self) -> Vec<PathBuf> {
        data_file(&self.data).into_iter().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        training::run(self, session)
    }
}
