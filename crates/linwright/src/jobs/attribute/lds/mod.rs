//! The linear datamodelling score of methods of attribution.

mod removal;
mod result;
mod retrain;
mod retrained;

use self::result::{LdsMeasured, LdsPart, RemovalMeasured};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Division, Failure, Folding, Job, Outcome, OutputPath, Session, WithOptions, bounds,
};
use crate::jobs::nets::images::ImageOptions;
use crate::jobs::nets::train::NetTrainingOptions;
use linwright_attribute::Method;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Methods of attribution against networks that were trained on parts of the examples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeLds {
    /// A store that `attribute cache` wrote of a small network and labelled images.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// Labelled images whose answers are attributed: an idx or npy file, binary records of CIFAR,
    /// or a folder with a sub-folder of PNG files for each class, with keys:
    /// `FILE:labels=FILE,examples=0-7999`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub images: WithOptions<ImageOptions>,
    /// Methods to compare; trak needs a store of margins.
    #[schemars(with = "Vec<Names<Method>>")]
    pub methods: Vec<Method>,
    /// Dampings of the methods that have one.
    #[schemars(extend("x-value" = "D", "x-whole" = true, "x-many" = true, "examples" = ["0.1"]))]
    pub dampings: Vec<String>,
    /// Number of networks to train, each on another part.
    #[schemars(range(min = 2, max = bounds::REPEATS))]
    pub subsets: usize,
    /// Share of the examples in each part.
    #[schemars(extend("x-value" = "SHARE", "examples" = [0.25]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
    /// Leave-one-out instead: each part is all examples but one of these, such as `0-19`.
    #[schemars(extend("x-value" = "LIST", "x-conflicts" = ["subsets", "share"], "examples" = ["0-3"]))]
    pub leave_out: Option<String>,
    /// Brittleness instead: for each query, train without this number of its best examples by each
    /// method, and without the same number of random examples, and compare which answers change.
    #[schemars(extend("x-value" = "N", "x-conflicts" = ["subsets", "share", "leave_out"], "examples" = [2]))]
    #[schemars(inner(range(min = 0, max = bounds::EXAMPLES)))]
    pub remove: Vec<usize>,
    /// Trainings on each part; their outcomes are averaged.
    #[schemars(range(min = 1, max = bounds::REPEATS))]
    pub repeats: usize,
    /// How the networks are trained.
    #[serde(flatten, with = "Folding::<NetTrainingOptions>")]
    pub training: NetTrainingOptions,
    /// Seed of the parts, of the weights and of the order of examples.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Directory of the results; the same command resumes there, and processes with --shard share
    /// it.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
}

impl Default for AttributeLds {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            images: WithOptions::default(),
            methods: vec![Method::Influence, Method::GradDot, Method::Cosine, Method::Similarity],
            dampings: vec!["relative:0.1".into()],
            subsets: 50,
            share: 0.5,
            leave_out: None,
            remove: Vec::new(),
            repeats: 1,
            training: NetTrainingOptions::default(),
            seed: 0,
            output: OutputPath::default(),
        }
    }
}

impl Job for AttributeLds {
    const VERB: &str = "attribute-lds";
    const ABOUT: &str = "Measure how well scores predict what a network trained on a part of the \
        examples would answer: the linear datamodelling score (LDS).\n\n\
        Networks like that of the store are trained on random parts of the examples. For each \
        query, the sum of the scores of a part is compared with the margin of the network that was \
        trained on it, by Spearman's correlation over parts; with --leave-out, each part leaves \
        out one example. With --remove, each part leaves out the best examples of one query, and \
        the answer may change. Run the same command again to resume.";
    const DIVISION: Division = Division::Shared;
    const RESULTS: &'static [ReportKind] = &[
        ReportKind::of::<LdsMeasured>(),
        ReportKind::of::<RemovalMeasured>(),
        ReportKind::of::<LdsPart>(),
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        std::iter::once(self.store.clone()).chain(self.images.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        retrained::run(self, session)
    }
}
