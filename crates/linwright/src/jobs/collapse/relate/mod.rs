//! Whether changed layers cost more where their inputs are less collapsed.

mod relation;
mod result;

use self::result::CollapseRelated;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Collapse of the inputs of layers against the cost of changing the layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseRelate {
    /// Results of `collapse lm` of one or several models, with all layers.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    #[schemars(extend("x-whole" = true, "x-many" = true))]
    pub measured: Vec<PathBuf>,
    /// The directory of a sweep of each of these models, or its `result.json`, in the same order,
    /// which changed each layer separately.
    #[schemars(extend("x-value" = "DIR", "x-path" = true, "x-required" = true))]
    #[schemars(extend("x-whole" = true, "x-many" = true))]
    pub sweeps: Vec<PathBuf>,
    /// Metric of the input of a layer.
    #[schemars(extend("x-value" = "NAME"))]
    pub metric: String,
    /// Random orders of layers, and resamples of layers.
    #[schemars(range(min = 1, max = bounds::DRAWS), extend("x-value" = "N"))]
    pub draws: usize,
    /// Seed of the draws.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Also write the result as JSON to this file, which `linwright report` renders.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for CollapseRelate {
    fn default() -> Self {
        Self {
            measured: Vec::new(),
            sweeps: Vec::new(),
            metric: "nc1_quotient".into(),
            draws: 10_000,
            seed: 0,
            output: None,
            force: false,
        }
    }
}

impl Job for CollapseRelate {
    const VERB: &str = "collapse-relate";
    const ABOUT: &str = "Correlate the collapse of the input of each layer with what changing the \
        layer costs in a sweep, in ranks over layers.\n\n\
        For comparison: the same with layers in random order and with permuted classes, the \
        correlation with the number of the layer instead of the metric, the partial correlation \
        beyond it, and the middle 95 % over resampled layers. A model has few layers: read the \
        range of random orders first.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseRelated>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let sweeps = self.sweeps.iter().map(|sweep| relation::result_of(sweep));
        self.measured.iter().cloned().chain(sweeps).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        relation::run(self, session)
    }
}
