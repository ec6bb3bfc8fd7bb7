//! Sweeps: each weight cut to each of several sizes.

pub(crate) mod grid;
mod result;

use self::result::SweepOfModel;
use crate::jobs::kit::{Division, Failure, Folding, Job, Outcome, OutputPath, Session};
use crate::jobs::language::cuts::CutOptions;
use crate::jobs::language::judging::ChoiceOptions;
use crate::jobs::language::slots::SlotOptions;
use crate::jobs::language::tasks::EvaluationCost;
pub(crate) use grid::left_nothing;
pub(in crate::jobs) use grid::{Items, Opened, grid};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Each weight cut to each of several sizes, every cut evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sweep {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Weights and layers.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Kind and sizes of the cuts.
    #[serde(flatten)]
    pub cut: CutOptions,
    /// The task.
    #[serde(flatten, with = "Folding::<ChoiceOptions>")]
    pub evaluation: ChoiceOptions,
    /// Evaluate cells on all items, and test none: for the costs of all cells, not for the best.
    pub no_split: bool,
    /// Evaluate each cell separately: slower, same results.
    pub no_share: bool,
    /// Title of the report.
    pub title: String,
    /// Directory of the run [default: runs/sweep- and its fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Count the tokens of the tasks, estimate the time, and stop.
    pub dry_run: bool,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            model: String::new(),
            slots: SlotOptions::default(),
            cut: CutOptions::default(),
            evaluation: ChoiceOptions::default(),
            no_split: false,
            no_share: false,
            title: "Sweep".to_owned(),
            output: None,
            dry_run: false,
        }
    }
}

impl Job for Sweep {
    const VERB: &str = "sweep";
    const ABOUT: &str = "Reduce weights of each layer to each of several sizes, evaluate every \
        combination on the validation items of a task, and the best one on its test items: the \
        first fifth of the items, and the others. A text that is one document is not split.\n\n\
        Run the same command again to resume.";
    const DIVISION: Division = Division::Merged;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<SweepOfModel>(), ReportKind::of::<EvaluationCost>()];

    fn inputs(&self) -> Vec<PathBuf> {
        [vec![PathBuf::from(&self.model)], self.evaluation.inputs()].concat()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        grid::run(self, session)
    }
}
