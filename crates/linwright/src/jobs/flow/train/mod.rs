//! Training of a normalizing flow.

mod result;
mod training;

pub(in crate::jobs) use training::worst;

use self::result::{FlowPlanned, FlowTrained};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Failure, Folded, Folding, Job, Outcome, OutputPath, Session, StatePath, bounds, catalogue,
};
use linwright_flow::{FlowExamples, SqueezeOrder};
use linwright_report::ReportKind;
use linwright_train::OptimizerKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A normalizing flow trained on images or points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowTrain {
    /// The data: images (idx, npy, CIFAR, a folder of PNG files), a numpy array of points, or
    /// points drawn from `moons`, `checkerboard`, `circles` or a Gaussian, such as
    /// `gaussian:toeplitz:16`, `gaussian:circulant:16`, `gaussian:scaled:16` (a circulant between
    /// diagonals), `gaussian:generic:16`, each with `:permuted` for another order.
    #[schemars(extend("x-value" = "FILE|moons|checkerboard|circles", "x-required" = true))]
    pub data: String,
    /// What is read of the data.
    #[serde(flatten)]
    pub sets: FlowSetOptions,
    /// Size of the flow.
    #[serde(flatten, with = "Folding::<FlowNetworkOptions>")]
    pub network: FlowNetworkOptions,
    /// Length, batches and step sizes.
    #[serde(flatten, with = "Folding::<FlowTrainingOptions>")]
    pub training: FlowTrainingOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Seed of initial numbers, of the division of the data, of their order and their noise.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Training checkpoint, which stays when the flow is written [default: in the user's store,
    /// until then].
    pub checkpoint: Option<StatePath>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Print size and steps, and stop.
    pub dry_run: bool,
}

/// What is read of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowSetOptions {
    /// Use only the first N examples.
    #[schemars(range(min = 2, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: Option<usize>,
    /// Resize images by area to this height and width, such as `16,16` [default: sides of 8, 16, 24
    /// and 32 stay, others become the next of 8, 16 and 32 below].
    #[schemars(extend("x-value" = "H,W"))]
    pub resize: Option<String>,
    /// Share of the examples held out for the curve and the choice of the best step, at least one
    /// example [default: 0.1].
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub held_out_share: Option<f64>,
}

/// Size of the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowNetworkOptions {
    /// The operator that mixes channels: cd:M (M diagonals and M - 1 circulants; with :raw or
    /// :time, of other parameters), dense, plu, permutation, householder:R, exponential, rotor,
    /// woodbury:R, butterfly.
    #[schemars(extend("x-value" = "KIND"))]
    pub layer: String,
    /// Number of levels; images are squeezed before each, and half of the channels leave after all
    /// but the last [default: at most 3, down to sides of 2].
    #[schemars(range(min = 1, max = 8), extend("examples" = [2]))]
    pub levels: Option<usize>,
    /// Steps per level, each a normalisation, a mix and a coupling [default: 8 for images, 12 for
    /// points].
    #[schemars(range(min = 1, max = 1024))]
    pub depth: Option<usize>,
    /// Hidden channels of the network of each coupling; 0 for a linear flow, without couplings
    /// [default: 64].
    #[schemars(range(min = 0, max = 16384))]
    pub hidden: Option<usize>,
    /// Order of the channels after a squeeze: channel by channel as Glow has it, or place by place
    /// as RealNVP does. A circulant couples channels by the distance of their indices.
    #[schemars(with = "Names<SqueezeOrder>")]
    pub squeeze: SqueezeOrder,
    /// Add a fixed random permutation before each mix.
    pub shuffle: bool,
}

impl Default for FlowNetworkOptions {
    fn default() -> Self {
        Self {
            layer: "cd:2".into(),
            levels: None,
            depth: None,
            hidden: None,
            squeeze: SqueezeOrder::default(),
            shuffle: false,
        }
    }
}

impl Folded for FlowNetworkOptions {
    const NAME: &'static str = "flow_architecture";
    const OPTION: &'static str = "architecture";
    const HELP: &'static str =
        "Size of the flow: `depth=4,hidden=16`, `levels=2,squeeze=place-major`.";
    const OWN: &'static [&'static str] = &["layer"];

    catalogue!(FlowNetworkOptions);
}

/// Length, batches and step sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowTrainingOptions {
    /// Number of updates.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Batch size in examples [default: 64 images, 256 points].
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: Option<usize>,
    /// How moments of the gradient become an update.
    #[schemars(with = "Names<OptimizerKind>")]
    pub optimizer: OptimizerKind,
    /// Largest learning rate; it falls to a hundredth along a cosine [default: 0.001 for images,
    /// 0.005 for points].
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: Option<f64>,
    /// Updates during which the rate rises [default: a tenth of all, at most 500].
    #[schemars(range(min = 0, max = bounds::STEPS))]
    pub warmup: Option<u64>,
    /// Largest norm of a gradient; larger ones are scaled down [default: 10].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub clip: Option<f64>,
    /// Validate and keep moving averages of the numbers, with this decay a step, such as 0.999.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub average: Option<f64>,
    /// Updates between two points of the curve, with the held-out bits, and between checkpoints
    /// [default: a tenth of all, and at least as many as held-out examples fill batches].
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub validate_every: Option<u64>,
    /// Stop after this number of points of the curve without an improvement.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub patience: Option<u64>,
    /// Keep the last step, not the one with the fewest held-out bits.
    pub last: bool,
}

impl Default for FlowTrainingOptions {
    fn default() -> Self {
        Self {
            steps: 1000,
            batch: None,
            optimizer: OptimizerKind::Adam,
            rate: None,
            warmup: None,
            clip: None,
            average: None,
            validate_every: None,
            patience: None,
            last: false,
        }
    }
}

impl Folded for FlowTrainingOptions {
    const NAME: &'static str = "flow_training";
    const OPTION: &'static str = "training";
    const HELP: &'static str = "Batches, optimizer, warmup, validation and which step is kept: `batch=32,optimizer=adamax`, `last`.";
    const OWN: &'static [&'static str] = &["steps", "rate"];

    catalogue!(FlowTrainingOptions);
}

/// The file of some data, if it is one.
pub(in crate::jobs) fn data_file(data: &str) -> Option<PathBuf> {
    (!FlowExamples::is_drawn(data)).then(|| PathBuf::from(data))
}

impl Job for FlowTrain {
    const VERB: &str = "flow-train";
    const ABOUT: &str = "Train a normalizing flow on images or points.\n\n\
        The flow is Glow's: steps of a normalisation, an invertible mix of the channels (--layer) \
        and a coupling. Its loss is the negative log-likelihood in bits per dimension. The output \
        directory is a flow for `flow eval` and `flow sample`, with the curve. The same command \
        gives the same bytes on any number of threads; interrupted, it resumes.";
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<FlowTrained>(), ReportKind::of::<FlowPlanned>()];

    fn inputs(&self) -> Vec<PathBuf> {
        data_file(&self.data).into_iter().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        training::run(self, session)
    }
}
