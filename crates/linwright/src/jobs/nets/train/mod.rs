//! Training of a small network on labelled images.

mod images;
mod network;
mod result;
mod training;

use self::result::{NetPlanned, NetTrained};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Failure, Folded, Folding, Job, Outcome, OutputPath, Session, StatePath, WithOptions, bounds,
    catalogue,
};
use crate::jobs::nets::images::ImageOptions;
use linwright_nets::Loss;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A small network trained on labelled images from random weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainNet {
    /// The layers: a file that describes them (YAML or JSON), or `mlp:512,256` for linear layers of
    /// these widths with ReLU between them, one output for each class and normalised pixels.
    #[schemars(extend("x-positional" = true))]
    pub net: String,
    /// Labelled images: an idx or npy file, binary records of CIFAR, or a folder with a sub-folder
    /// of PNG files for each class, with keys: `FILE:labels=FILE,examples=0-7999`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub images: WithOptions<ImageOptions>,
    /// Share of the images held out for the curve and the choice of the best step, at least one
    /// image [default: 0.1].
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub held_out_share: Option<f64>,
    /// Batches and step sizes.
    #[serde(flatten, with = "Folding::<NetTrainingOptions>")]
    pub training: NetTrainingOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Seed of initial weights, of the held-out images and of the order of the others.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Training checkpoint, which stays when the network is written [default: in the user's store,
    /// until then].
    pub checkpoint: Option<StatePath>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Print size and steps, and stop.
    pub dry_run: bool,
}

/// Loss, length, batches and step sizes of the training of a small network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetTrainingOptions {
    /// The loss; squared error compares with one-hot rows.
    #[schemars(with = "Names<Loss>")]
    pub loss: Loss,
    /// Epochs over the images.
    #[schemars(range(min = 1, max = 1_000_000), extend("x-conflicts" = ["steps"]))]
    pub epochs: u64,
    /// Number of updates, instead of those of --epochs.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: Option<u64>,
    /// Batch size in images.
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: usize,
    /// Largest learning rate of Adam; it falls to a hundredth along a cosine.
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: f64,
    /// Decoupled weight decay of the weights, as in AdamW.
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub weight_decay: f64,
    /// Updates during which the rate rises [default: a twentieth of all, at most 200].
    #[schemars(range(min = 0, max = bounds::STEPS))]
    pub warmup: Option<u64>,
    /// Updates between two points of the curve, with the held-out loss, and between checkpoints
    /// [default: a tenth of all].
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub validate_every: Option<u64>,
    /// Keep the last step, not the one with the lowest held-out loss.
    pub last: bool,
}

impl Default for NetTrainingOptions {
    fn default() -> Self {
        Self {
            loss: Loss::CrossEntropy,
            epochs: 10,
            steps: None,
            batch: 128,
            rate: 1e-3,
            weight_decay: 0.0,
            warmup: None,
            validate_every: None,
            last: false,
        }
    }
}

impl Folded for NetTrainingOptions {
    const NAME: &'static str = "net_training";
    const OPTION: &'static str = "training";
    const HELP: &'static str =
        "Loss, batches, decay, warmup and validation: `batch=64,weight_decay=0.01`, `last`.";
    const OWN: &'static [&'static str] = &["epochs", "steps", "rate"];

    catalogue!(NetTrainingOptions);
}

impl Job for TrainNet {
    const VERB: &str = "train-net";
    const ABOUT: &str = "Train a small network on labelled images from random weights.\n\n\
        The output directory is a model for `run` with a recipe of images, in which its linear \
        layers and convolutions are replaced and healed. A share of the images is held out for the \
        curve. The same command gives the same bytes; interrupted, it resumes.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<NetTrained>(), ReportKind::of::<NetPlanned>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let description = (!network::is_mlp(&self.net)).then(|| PathBuf::from(&self.net));
        description.into_iter().chain(self.images.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        training::run(self, session)
    }
}
