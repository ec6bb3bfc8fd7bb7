//! Compositions: cuts of several weights, each kept if the model does not get worse.

mod composition;
mod result;

use self::result::CompositionOfModel;
use crate::jobs::kit::{Division, Failure, Folding, Job, Outcome, OutputPath, Session};
use crate::jobs::language::cuts::CutOptions;
use crate::jobs::language::judging::ChoiceOptions;
use crate::jobs::language::slots::SlotOptions;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Cuts combined greedily.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compose {
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
    /// Visit weights in the order of this sweep, best first: its `result.json` [default: the order
    /// of the options].
    #[schemars(extend("x-value" = "FILE"))]
    #[schemars(extend("x-path" = true))]
    pub sweep: Option<PathBuf>,
    /// Directory of the run [default: runs/compose- and its fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Count the tokens of the tasks, estimate the time, and stop.
    pub dry_run: bool,
}

impl Job for Compose {
    const VERB: &str = "compose";
    const ABOUT: &str = "Combine cuts greedily: at each weight, try every size on top of the cuts \
        accepted so far, and keep the best if the metric on validation items does not fall.\n\n\
        Run the same command again to resume. `linwright laser --plan DIR/edits.json` then writes \
        the model.";
    const DIVISION: Division = Division::Together;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CompositionOfModel>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.sweep.clone());
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        composition::run(self, session)
    }
}
