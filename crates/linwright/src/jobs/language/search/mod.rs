//! Search of a rank for each linear layer.

mod inputs;
mod ranks;
mod result;

use self::result::SearchResult;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Division, Failure, Folding, Job, Outcome, OutputPath, Session, WithOptions, bounds,
};
use crate::jobs::language::calibration::{self, CalibrationOptions, CalibrationText};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::form::{EditedForms, SavedForm};
use crate::jobs::language::judging::SearchEvaluation;
use crate::jobs::language::slots::SlotOptions;
use linwright_lm::search::MAX_GROWTH;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A rank for each linear layer, as small as a task or a text allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Search {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Weights and layers to visit; all linear layers by default.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Index of the first linear layer to visit, counted from zero over all layers; 28 in the
    /// published code [default: 0].
    #[schemars(extend("x-value" = "INDEX"))]
    #[schemars(range(min = 0, max = bounds::DEPTH))]
    pub start: Option<usize>,
    /// Ranks to try [default: 1, and tenths of the rank at which factors are as large as the
    /// weight].
    #[schemars(extend("x-value" = "R"))]
    #[schemars(inner(range(min = 0, max = bounds::FEATURES)))]
    pub ranks: Vec<usize>,
    /// Loss of accuracy that is allowed, as a share of the documents (tasks).
    #[schemars(extend("x-hyphen" = true))]
    #[schemars(range(min = -1.0, max = 1.0))]
    pub delta: f64,
    /// Growth of the perplexity that is allowed from one linear layer to the next (--text).
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub growth: f64,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`; `task:NAME`,
    /// the documents of a task with their correct answers, of its training split if --data or its
    /// data set has one; `combination`, a sample of six such tasks as in SFSD; or `samples`, texts
    /// that the model writes itself. It should not overlap with the documents that select, which is
    /// told. `FILE:num_tokens=4096,seq_len=128` sets the largest number of tokens [default: 40000]
    /// and the length of a window [default: 256].
    #[schemars(extend("x-value" = "TEXT"))]
    pub calibration: Option<WithOptions<CalibrationText>>,
    /// Seed of calibration text that is drawn.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// The task, or with --text the text, of which the first fifth of the rows selects, in windows
    /// of `window` tokens of --evaluation.
    #[serde(flatten, with = "Folding::<SearchEvaluation>")]
    pub evaluation: SearchEvaluation,
    /// Follow the published steps without shortcuts: slower, same decisions.
    pub no_share: bool,
    /// Title of the report.
    pub title: String,
    /// Output directory: the model, `plan.json`, `decisions.jsonl` and the report.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[schemars(with = "Names<EditedForms>")]
    pub form: SavedForm,
    /// Storage type of the weights [default: that of the model].
    #[schemars(with = "Option<Names<StoredDType>>")]
    pub dtype: Option<StoredDType>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Count the tokens of the documents, estimate the time, and stop.
    pub dry_run: bool,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            model: String::new(),
            slots: SlotOptions::default(),
            start: None,
            ranks: Vec::new(),
            delta: 0.0,
            growth: MAX_GROWTH,
            calibration: None,
            seed: 0,
            evaluation: SearchEvaluation::default(),
            no_share: false,
            title: "Search of ranks".to_owned(),
            output: OutputPath::default(),
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
        }
    }
}

impl Job for Search {
    const VERB: &str = "search";
    const ABOUT: &str = "Give each linear layer the smallest rank that a task or a text allows, \
        from the last layer down, and save the model.\n\n\
        A rank is accepted if the accuracy on the search documents stays (--tasks), or \
        if the perplexity of the search text stays below a bound (--text). Figures are on the other \
        documents. `linwright compress --plan DIR/plan.json` fits the same ranks again. Run the same \
        command again to resume.";
    const WRITES_MODEL: bool = true;
    const DIVISION: Division = Division::Together;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<SearchResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.calibration.as_ref().and_then(|text| text.input()));
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        ranks::run(self, session)
    }
}

impl Search {
    /// What its calibration text is.
    fn calibration_text(&self) -> CalibrationOptions<'_> {
        let text = self.calibration.as_deref();
        CalibrationOptions {
            seed: self.seed,
            dry_run: self.dry_run,
            ..CalibrationOptions::new(text, calibration::NUM_TOKENS, &self.model, &self.evaluation)
        }
    }
}
