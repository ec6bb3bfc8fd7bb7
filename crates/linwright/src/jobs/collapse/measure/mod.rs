//! Collapse of features, or of all layers of a small network.

mod measurement;
pub(crate) mod result;

use self::result::CollapseMeasured;
use crate::jobs::collapse::options::CollapseOptions;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, WithOptions, bounds};
use crate::jobs::nets::images::ImageOptions;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Neural collapse of labelled features.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseMeasure {
    /// Safetensors with `features` (rows, d), `labels` (rows) and, if there is a head, `head`
    /// (classes, d) and `bias` (classes).
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["net"]))]
    pub features: Option<PathBuf>,
    /// A file with `head` and `bias`, instead of those in the file of features.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["net"]))]
    pub head: Option<PathBuf>,
    /// Number of classes [default: rows of the head, or one more than the largest label].
    #[schemars(range(min = 2, max = bounds::CLASSES), extend("x-value" = "K", "x-conflicts" = ["net"]))]
    pub classes: Option<usize>,
    /// Use the means of these sums, which may include other rows, instead of those of the features;
    /// without --features, only the metrics of sums are computed.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["net", "traces"]))]
    pub sums: Option<PathBuf>,
    /// Write the sums over the features to this file, for `collapse merge` and --sums.
    #[schemars(extend("x-value" = "FILE", "x-requires" = ["features"]))]
    #[schemars(extend("x-conflicts" = ["sums"]))]
    pub save_sums: Option<OutputPath>,
    /// Keep no scatter, 16 d x d bytes: without it there is no nc1_pinv. Layers of a network with
    /// more than 4096 features never have it.
    pub traces: bool,
    /// A file with `features` of out-of-distribution inputs, for nc5_cos.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = ["net"]))]
    pub ood: Option<PathBuf>,
    /// Instead of features, a directory that train-net wrote: all its layers are measured.
    #[schemars(extend("x-value" = "NET", "x-path" = true, "x-requires" = ["images"]))]
    pub net: Option<PathBuf>,
    /// Labelled images for the network, as for eval-net: `FILE:labels=FILE,examples=0-7999`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-requires" = ["net"]))]
    pub images: Option<WithOptions<ImageOptions>>,
    /// Additions to the metrics.
    #[serde(flatten)]
    pub options: CollapseOptions,
    /// Also write the result as JSON to this file, which `linwright report` renders.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite existing files.
    pub force: bool,
}

impl Job for CollapseMeasure {
    const VERB: &str = "collapse-measure";
    const ABOUT: &str = "Measure neural collapse of labelled features, or of every layer of a small \
        network on labelled images.\n\n\
        NC1: variability within classes. NC2: distance of the means from a simplex. NC3: alignment \
        of head and means. NC4: agreement of head and nearest mean. NC5: orthogonality to \
        out-of-distribution features. Each with all its variants, next to the least possible \
        value, to that of random frames and of shuffled labels, and to bootstrap intervals by \
        class.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseMeasured>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let all = [&self.features, &self.head, &self.sums, &self.ood, &self.net];
        let images = self.images.iter().flat_map(|images| images.inputs());
        all.into_iter().flatten().cloned().chain(images).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        measurement::run(self, session)
    }
}
