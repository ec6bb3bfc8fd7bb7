//! Training of a molecular potential.

mod data;
mod plan;
mod result;
mod training;

use self::result::{PotentialPlanned, PotentialTrained};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::named::named;
use crate::jobs::kit::{
    Failure, Folded, Folding, Job, Outcome, OutputPath, Session, StatePath, bounds, catalogue,
};
use crate::jobs::molecule::labels::LabelOptions;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

named! {
    LossName;
    ReferenceKind;
    ScheduleKind;
}

/// A molecular potential trained on energies and forces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeTrain {
    /// Structures with energies and forces: extended XYZ, an archive of numpy (`.npz`) as MD17,
    /// rMD17 and torchmd-net have it, or HDF5 (`.h5`, `.hdf5`) as ANI-1x, SPICE and torchmd-net.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    pub data: PathBuf,
    /// Further data, and how the data are divided.
    #[serde(flatten)]
    pub sets: SetOptions,
    /// Settings of a run of torchmd-net in YAML: architecture, losses, batches and step sizes.
    /// Options take precedence over it.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub config: Option<PathBuf>,
    /// Start from this potential instead of random weights.
    #[schemars(extend("x-value" = "POTENTIAL", "x-path" = true))]
    #[schemars(extend("x-conflicts" = ["architecture"]))]
    pub init: Option<PathBuf>,
    /// Size of the network.
    #[serde(flatten, with = "Folding::<NetworkOptions>")]
    pub network: NetworkOptions,
    /// Losses.
    #[serde(flatten, with = "Folding::<LossOptions>")]
    pub losses: LossOptions,
    /// Length, batches and step sizes.
    #[serde(flatten, with = "Folding::<StepOptions>")]
    pub steps: StepOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Seed of initial weights, of the division of the data and of the order of structures
    /// [default: 1, or that of --config].
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: Option<u64>,
    /// Training checkpoint, which stays when the potential is written [default: in the user's
    /// store, until then].
    pub checkpoint: Option<StatePath>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Print size, sets and steps, and stop.
    pub dry_run: bool,
}

/// Sets of structures and their labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SetOptions {
    /// Structures held out for the curve and the choice of the best step: their number, a share
    /// below 1, or a file [default: 0.05, or that of --config].
    #[schemars(extend("x-value" = "N|SHARE|FILE", "x-whole" = true))]
    pub validation: Option<String>,
    /// Division of --data by indices: `split.json` of another training, or `splits.npz` of
    /// torchmd-net.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["validation"]))]
    pub split: Option<PathBuf>,
    /// Structures for the final measurement of errors.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub test: Option<PathBuf>,
    /// Energies of isolated atoms: structures of one atom each. They are subtracted from energies
    /// and become part of the potential.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["references"]))]
    pub isolated: Option<PathBuf>,
    /// Otherwise, what is subtracted from energies: energies of elements by least squares, the mean
    /// (and energies are divided by their deviation), or nothing [default: least-squares, or as
    /// --config has it].
    #[schemars(with = "Option<Names<ReferenceKind>>")]
    pub references: Option<ReferenceKind>,
    /// Units of the structures, such as `kcal/mol,A` [default: eV,A].
    #[schemars(extend("x-value" = "ENERGY,LENGTH", "x-whole" = true))]
    pub units: Option<String>,
    /// Names of energies and forces.
    #[serde(flatten, with = "Folding::<LabelOptions>")]
    pub labels: LabelOptions,
}

/// Size of the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkOptions {
    /// Channels [default: 128].
    #[schemars(range(min = 2, max = 16384))]
    pub channels: Option<usize>,
    /// Interaction layers [default: 2].
    #[schemars(range(min = 0, max = 16384))]
    pub layers: Option<usize>,
    /// Radial functions [default: 32].
    #[schemars(range(min = 2, max = 16384))]
    pub radial: Option<usize>,
    /// Cutoff distance of interactions, in the unit of the structures [default: 5].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub cutoff: Option<f64>,
}

impl Folded for NetworkOptions {
    const NAME: &'static str = "potential_architecture";
    const OPTION: &'static str = "architecture";
    const HELP: &'static str = "Size of the network: `channels=64,layers=1,cutoff=4.5`.";

    catalogue!(NetworkOptions);
}

/// Losses of energies and forces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LossOptions {
    /// Mean of squares, of absolute values, or of Huber's function [default: mse].
    #[schemars(with = "Option<Names<LossName>>")]
    pub loss: Option<LossName>,
    /// Error where Huber's function becomes a line [default: 1].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub delta: Option<f64>,
    /// Weight of the loss of energies [default: 0.005].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub energy_weight: Option<f64>,
    /// Weight of the loss of components of forces [default: 0.5].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub force_weight: Option<f64>,
    /// Share of a batch in a moving average of the energy loss, as torchmd-net's `ema_alpha_y`: it
    /// scales the gradient, so it multiplies the weight [default: 1].
    #[schemars(range(min = 0.0, max = 1.0))]
    pub energy_ema: Option<f64>,
    /// The same for forces, `ema_alpha_neg_dy` [default: 1].
    #[schemars(range(min = 0.0, max = 1.0))]
    pub force_ema: Option<f64>,
}

impl Folded for LossOptions {
    const NAME: &'static str = "potential_loss";
    const OPTION: &'static str = "loss";
    const HELP: &'static str = "Mean of squares, of absolute values, or of Huber's function, with the weights of energies and forces: `huber:delta=0.5,energy_weight=0.1` [default: mse].";
    const NAMED_BY: Option<&'static str> = Some("loss");

    catalogue!(LossOptions);

    fn has(name: &str, key: &str) -> bool {
        key != "delta" || name == LossName::Huber.name()
    }
}

/// Length, batches and step sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepOptions {
    /// Epochs over the structures [default: 100, or those of --config].
    #[schemars(range(min = 1, max = 1_000_000), extend("x-conflicts" = ["steps"]))]
    pub epochs: Option<u64>,
    /// Number of updates, instead of epochs.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: Option<u64>,
    /// Batch size in structures [default: 8].
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: Option<usize>,
    /// Largest learning rate of AdamW [default: 0.001].
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: Option<f64>,
    /// Decoupled weight decay of the weights [default: 0].
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub weight_decay: Option<f64>,
    /// Updates during which the rate rises [default: a twentieth of all, at most 500].
    #[schemars(range(min = 0, max = bounds::STEPS))]
    pub warmup: Option<u64>,
    /// How the rate falls then: along a cosine to a hundredth, or by a factor of 0.8 after 25
    /// validations without improvement [default: cosine; with --config as torchmd-net, plateau].
    #[schemars(with = "Option<Names<ScheduleKind>>")]
    pub schedule: Option<ScheduleKind>,
    /// Largest norm of a gradient; larger ones are scaled down [default: 40].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub clip: Option<f64>,
    /// Stop after this number of validations without a lower loss.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub patience: Option<u64>,
    /// Validate and keep moving averages of the weights, with this decay a step, such as 0.999.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub average: Option<f64>,
    /// Updates between two points of the curve, with the validation loss, and between checkpoints
    /// [default: an epoch].
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub validate_every: Option<u64>,
    /// Keep the last step, not the one with the lowest validation loss.
    pub last: bool,
}

impl Folded for StepOptions {
    const NAME: &'static str = "potential_training";
    const OPTION: &'static str = "training";
    const HELP: &'static str = "Batches, decay, schedule, validation and which step is kept: `batch=4,schedule=plateau`, `last`.";
    const OWN: &'static [&'static str] = &["epochs", "steps", "rate"];

    catalogue!(StepOptions);
}

/// What is subtracted from energies before anything is learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceKind {
    /// Energies of elements by least squares.
    LeastSquares,
    /// The mean, as torchmd-net's `standardize`.
    Mean,
    /// Nothing.
    None,
}

/// A loss by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossName {
    /// Squares.
    Mse,
    /// Absolute values.
    L1,
    /// Huber's function.
    Huber,
}

/// How the rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Along a cosine.
    Cosine,
    /// When validation stalls.
    Plateau,
}

macro_rules! names {
    ($type:ident: $($name:ident $text:literal),*) => {
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

names!(ReferenceKind: LeastSquares "least-squares", Mean "mean", None "none");
names!(LossName: Mse "mse", L1 "l1", Huber "huber");
names!(ScheduleKind: Cosine "cosine", Plateau "plateau");

impl Job for MoleculeTrain {
    const VERB: &str = "molecule-train";
    const ABOUT: &str = "Train a molecular potential on energies and forces.\n\n\
        A TensorNet (arXiv 2306.06482) learns the structures of a file; some are held out for the \
        curve, divided as torchmd-net divides them. The output directory is a potential for \
        `molecule eval`, with the curve, the division, and the errors on validation and test structures. The \
        same command gives the same bytes on any number of threads; interrupted, it resumes.";
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<PotentialTrained>(), ReportKind::of::<PotentialPlanned>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let validation = data::validation_file(self.sets.validation.as_deref());
        let SetOptions { split, test, isolated, .. } = &self.sets;
        let others = [&self.config, &self.init, split, test, isolated, &validation];
        let others = others.into_iter().flatten().cloned();
        std::iter::once(self.data.clone()).chain(others).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        training::run(self, session)
    }
}
