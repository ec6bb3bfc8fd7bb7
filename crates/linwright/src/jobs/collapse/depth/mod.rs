//! Collapse of reference networks over depths, strengths and seeds.

mod inputs;
mod result;
mod trainings;

use self::result::CollapseOverDepth;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Catalogue, Division, Failure, Folded, Folding, Job, Outcome, OutputPath, Session, Terms,
    WithOptions, bounds, catalogue,
};
use crate::jobs::nets::images::ImageOptions;
use linwright_collapse::depth::{Architecture, Norming, StrengthRule};
use linwright_collapse::optimum::Fit;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::LazyLock;

/// Width of the networks, unless it is given.
const WIDTH: usize = 32;

/// Collapse of reference networks over depths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseDepth {
    /// The networks.
    #[serde(flatten, with = "Folding::<DepthNetworkOptions>")]
    pub network: DepthNetworkOptions,
    /// Depths: blocks, and the head.
    #[schemars(extend("x-value" = "L"))]
    #[schemars(inner(range(min = 0, max = bounds::DEPTH)))]
    pub depths: Vec<usize>,
    /// Number of networks of each depth, with different random parameters.
    #[schemars(range(min = 1, max = bounds::REPEATS))]
    pub seeds: u64,
    /// Penalty S/2 |p|² of all parameters, with keys: `0.01:rule=over-depth,head=0.005`.
    #[schemars(extend("x-value" = "S:KEY=VALUE", "x-hyphen" = true))]
    pub strength: WithOptions<DepthStrength>,
    /// Loss of the logits.
    #[schemars(with = "Names<Fit>")]
    pub loss: Fit,
    /// Number of updates of each network, with all examples.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: u64,
    /// Step size of Adam, which falls along a cosine to a fiftieth.
    #[schemars(extend("x-hyphen" = true))]
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: f64,
    /// A safetensors file with `features` and `labels` as inputs, instead of generated inputs.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    #[schemars(extend("x-conflicts" = ["classes", "per_class", "noise"]))]
    pub features: Option<PathBuf>,
    /// Labelled images as inputs, --per-class of each class, drawn: an idx or npy file, binary
    /// records of CIFAR, or a folder with a sub-folder of PNG files for each class, with keys:
    /// `FILE:labels=FILE,resize=8x8`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE"))]
    #[schemars(extend("x-conflicts" = ["features", "classes", "noise"]))]
    pub images: Option<WithOptions<ImageOptions>>,
    /// Texts as inputs, each a class: --per-class pieces of consecutive words, drawn, whose words
    /// are random vectors.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-whole" = true, "x-many" = true))]
    #[schemars(extend("x-conflicts" = ["features", "images", "classes", "noise"]))]
    pub texts: Vec<PathBuf>,
    /// Generated classes, of normal centres.
    #[schemars(range(min = 2, max = bounds::CLASSES), extend("x-value" = "K"))]
    pub classes: usize,
    /// Generated or drawn examples of each class.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub per_class: usize,
    /// Deviation of generated examples from their centre.
    #[schemars(extend("x-hyphen" = true))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub noise: f64,
    /// Tokens of an example, for transformers; of images equal parts [default: 6].
    #[schemars(range(min = 1, max = bounds::POSITIONS), extend("x-value" = "T"))]
    pub tokens: Option<usize>,
    /// Seed of data and parameters.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Also write the result as JSON to this file, which `linwright report` renders; with --shard a
    /// directory of trained networks for `linwright merge`.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

/// Penalties of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DepthStrength {
    /// Penalty S/2 |p|² of all parameters.
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub strength: f64,
    /// How the penalty depends on depth.
    #[schemars(with = "Names<StrengthRule>")]
    pub rule: StrengthRule,
    /// Penalty of the head, at all depths [default: that of the blocks].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub head: Option<f64>,
}

impl Default for DepthStrength {
    fn default() -> Self {
        Self { strength: 0.005, rule: StrengthRule::Constant, head: None }
    }
}

static STRENGTH: LazyLock<Catalogue> = LazyLock::new(|| {
    Catalogue::with_head::<DepthStrength>("strength", "strength", "penalties of parameters")
});

impl Terms for DepthStrength {
    const NAME: &'static str = "depth_strength";

    fn catalogue() -> &'static Catalogue {
        &STRENGTH
    }
}

/// The networks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DepthNetworkOptions {
    /// What the networks are.
    #[schemars(with = "Names<Architecture>")]
    pub architecture: Architecture,
    /// Width of generated inputs and of words, and so of the networks [default: 32].
    #[schemars(range(min = 2, max = bounds::FEATURES))]
    pub width: Option<usize>,
    /// Width between two maps [default: the width].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub hidden: Option<usize>,
    /// LayerNorm after the residual sum or before each map.
    #[schemars(with = "Names<Norming>")]
    pub norming: Norming,
    /// Length of normalised features [default: the root of the width].
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub norm: Option<f64>,
    /// Do not penalise biases.
    pub free_biases: bool,
}

impl Default for DepthNetworkOptions {
    fn default() -> Self {
        Self {
            architecture: Architecture::Rn1,
            width: None,
            hidden: None,
            norming: Norming::After,
            norm: None,
            free_biases: false,
        }
    }
}

impl DepthNetworkOptions {
    /// Width of generated inputs and of words.
    fn width(&self) -> usize {
        self.width.unwrap_or(WIDTH)
    }
}

impl Folded for DepthNetworkOptions {
    const NAME: &'static str = "depth_architecture";
    const OPTION: &'static str = "architecture";
    const HELP: &'static str = "Residual networks of one or two maps for each block, or transformers: with one map in \
        attention and MLP, with two in the MLP, with two in both. With their shape: `rn2:width=24,norm=1`.";
    const NAMED_BY: Option<&'static str> = Some("architecture");

    catalogue!(DepthNetworkOptions);
}

impl Default for CollapseDepth {
    fn default() -> Self {
        Self {
            network: DepthNetworkOptions::default(),
            depths: vec![2, 3, 5, 8, 13, 21, 34],
            seeds: 1,
            strength: WithOptions::default(),
            loss: Fit::CrossEntropy,
            steps: 1200,
            rate: 0.005,
            features: None,
            images: None,
            texts: Vec::new(),
            classes: 4,
            per_class: 15,
            noise: 1.0,
            tokens: None,
            seed: 0,
            output: None,
            force: false,
        }
    }
}

impl Job for CollapseDepth {
    const VERB: &str = "collapse-depth";
    const ABOUT: &str = "Train regularised reference networks of several depths, and report how \
        collapse depends on depth.\n\n\
        With one map for each block and a constant penalty, networks approach the optimum of \
        `collapse gufm` as they get deeper; with two maps only if the penalty shrinks with depth \
        (--strength 0.005:rule=over-depth). Slopes are of logarithms, with intervals over seeds. \
        Interrupted, the same command resumes with the networks that are trained.";
    const OUTPUT_ENDING: &str = ".json";
    const DIVISION: Division = Division::Merged;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseOverDepth>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let images = self.images.iter().flat_map(|images| images.inputs());
        let files = self.features.iter().chain(&self.texts).cloned();
        files.chain(images).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        trainings::run(self, session)
    }
}
