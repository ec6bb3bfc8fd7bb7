//! The training examples that made a model answer as it does.

mod groups;
mod pieces;
mod result;
mod scoring;

use self::result::ExamplesScored;
use crate::jobs::attribute::{ExampleOptions, ScoringOptions};
use crate::jobs::kit::{Division, Failure, Folding, Job, Outcome, OutputPath, Session, bounds};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Scores of cached training examples for queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeScore {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: PathBuf,
    /// How examples are scored, and for what.
    #[serde(flatten)]
    pub scoring: ScoringOptions,
    /// What of the file of queries is used.
    #[serde(flatten, with = "Folding::<ExampleOptions>")]
    pub files: ExampleOptions,
    /// Show the N best and the N worst examples for each query.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N", "x-short" = "n"))]
    pub top: usize,
    /// Also show the contribution of each layer to the scores of the best examples.
    pub by_layer: bool,
    /// Also rank the examples by these groups of layers: globs such as *mlp*, or regular
    /// expressions after re:.
    #[schemars(extend("x-value" = "PATTERN", "examples" = ["*mlp*"]))]
    pub groups: Vec<String>,
    /// Do not compare with BM25 and the similarity of vectors, which need a pass over the examples.
    pub no_baselines: bool,
    /// Also write the result as JSON to this file; with --shard a directory of the shard.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing result.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for AttributeScore {
    fn default() -> Self {
        Self {
            store: PathBuf::new(),
            scoring: ScoringOptions::default(),
            files: ExampleOptions::default(),
            top: 20,
            by_layer: false,
            groups: Vec::new(),
            no_baselines: false,
            output: None,
            force: false,
        }
    }
}

impl Job for AttributeScore {
    const VERB: &str = "attribute-score";
    const ABOUT: &str = "Score the cached training examples for queries: which of them made the \
        model give its answers?\n\n\
        A positive score is that of a proponent: a step on the loss of the example lowers that of \
        the query. --json has `results`, for each query a list of the best examples with `index` \
        from zero, `id` and `score`, and `opponents`, the worst; with --groups also `groups`, for \
        each pattern such lists.\n\n\
        Processes with --shard i/N score a part of the store each, of one checkpoint; merged, the \
        result is that of one process. Run `attribute fisher` first, or each computes the \
        curvature of all.";
    const DIVISION: Division = Division::Merged;
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<ExamplesScored>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = std::iter::once(self.store.clone());
        own.chain(self.scoring.inputs()).chain(self.files.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        scoring::run(self, session)
    }
}
