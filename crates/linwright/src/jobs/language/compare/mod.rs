//! Every method at every size on one model.

mod cells;
mod inputs;
mod names;
mod result;

use self::result::{BestOfComparison, CompareCost, CompareResult};
use crate::jobs::comparison::places::Seeds;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Division, Failure, Folding, Job, Outcome, OutputPath, Recover, Session, WithOptions, bounds,
};
use crate::jobs::language::calibration::{CalibrationOptions, CalibrationText};
use crate::jobs::language::compress::{Heal, StoredDType};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::form::{EditedForms, SavedForm};
use crate::jobs::language::slots::SlotOptions;
use linwright_report::ReportKind;
pub(in crate::jobs) use names::standard_candidates;
pub use names::{CandidateTerm, Candidates};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Number of calibration tokens without another one.
const NUM_TOKENS: usize = 12_000;

/// Every method at every size, with controls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compare {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Shares of parameters kept in the targeted layers; an empty list in a recipe, where every row
    /// has a size of its own or a standard one.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// What is compared, with options in place of the standard ones:
    /// `svd,modegpt:temperature=0,width`; `all` adds the other kinds of operators, and those that
    /// are trained [default: closed forms, pruning, and operators that few iterations fit].
    /// `label=TEXT` names a row, so that a method has several; `size=rank=4` is a size of its own.
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub methods: Vec<CandidateTerm>,
    /// Leave out random factors and rounded weights.
    pub no_controls: bool,
    /// Linear layers to replace.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// How to refit the next linear layer, which was not replaced, after query, key or value
    /// (output), gate or up (down) were, for all rows [default: ridge after fits that read
    /// calibration text and random factors, none after others].
    #[schemars(with = "Option<Names<Heal>>")]
    pub heal: Option<Heal>,
    /// Names of rows with which all others are compared, item by item.
    #[schemars(extend("x-value" = "ROW", "x-whole" = true))]
    pub against: Vec<String>,
    /// Then train the replaced or pruned layers of every model, and nothing else, for this many
    /// steps of Adam, as `compress` does; random factors too. Rounded weights are not trained.
    /// `300:rate=0.0003` sets the largest step size [default: 0.001].
    #[schemars(extend("x-value" = "STEPS"))]
    pub recover: Option<WithOptions<Recover>>,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`; `task:NAME`,
    /// the documents of a task with their correct answers, of its training split if --data or its
    /// data set has one; `combination`, a sample of six such tasks as in SFSD; or `samples`, texts
    /// that the model writes itself. It should not overlap with the evaluation text, which is told.
    /// `FILE:num_tokens=4096,seq_len=128` sets the largest number of tokens [default: 12000] and
    /// the length of a window [default: 256].
    #[schemars(extend("x-value" = "TEXT"))]
    pub calibration: Option<WithOptions<CalibrationText>>,
    /// Leave out documents and questions that share words with the calibration text.
    pub exclude_overlap: bool,
    /// Seed of random factors and initial parameters, and of calibration text that is drawn
    /// [default: 0]. With several, the report has means and standard deviations.
    #[schemars(extend("x-value" = "SEED"))]
    #[schemars(with = "Vec<u64>", inner(range(min = 0, max = bounds::SEED)))]
    pub seed: Seeds,
    /// What models are scored on; the first ranks. Of each task the first 200 documents, unless
    /// --limit or `samples` of --evaluation is given. With `pocket` its text and questions by
    /// default.
    #[serde(flatten, with = "Folding::<EvaluationOptions>")]
    pub evaluation: EvaluationOptions,
    /// Title of the report.
    pub title: String,
    /// Directory of the comparison [default: runs/compare- and its fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Save the best model at the first share to this directory. Its figures are those of the text
    /// that chose it.
    #[schemars(extend("x-value" = "DIR"))]
    pub save_best: Option<OutputPath>,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[schemars(with = "Names<EditedForms>")]
    pub form: SavedForm,
    /// Storage type of the weights, in which bytes are counted [default: that of the model].
    #[schemars(with = "Option<Names<StoredDType>>")]
    pub dtype: Option<StoredDType>,
    /// Replace the directory of --save-best if it exists.
    pub force: bool,
    /// List the models with their parameters, estimate the time of fits and evaluations, and stop.
    pub dry_run: bool,
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            model: String::new(),
            keep: vec![0.8, 0.6],
            methods: Vec::new(),
            no_controls: false,
            slots: SlotOptions::default(),
            heal: None,
            against: Vec::new(),
            recover: None,
            calibration: None,
            exclude_overlap: false,
            seed: Seeds::default(),
            evaluation: EvaluationOptions::default(),
            title: "Comparison of methods".to_owned(),
            output: None,
            save_best: None,
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
        }
    }
}

impl Job for Compare {
    const VERB: &str = "compare";
    const ABOUT: &str = "Compare methods of compression on one model: every method at every size, \
        with the dense model, random factors of the same size and rounded weights of the same \
        bytes.\n\n\
        Scores on the same items, with 95 % intervals of the difference from the dense model; \
        parameters, multiply-adds, bytes and speed. A size that a method cannot have is told, with \
        the nearest. Run the same command again to resume.";
    const DIVISION: Division = Division::Merged;
    const RESULTS: &'static [ReportKind] = &[
        ReportKind::of::<CompareResult>(),
        ReportKind::of::<BestOfComparison>(),
        ReportKind::of::<CompareCost>(),
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.calibration.as_ref().and_then(|text| text.input()));
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        cells::run(self, session)
    }
}

impl Compare {
    /// What its calibration text is with a seed.
    fn calibration_text<'a>(
        &'a self,
        evaluation: &'a EvaluationOptions,
        seed: u64,
    ) -> CalibrationOptions<'a> {
        let text = self.calibration.as_deref();
        CalibrationOptions {
            seed,
            dry_run: self.dry_run,
            ..CalibrationOptions::new(text, NUM_TOKENS, &self.model, evaluation)
        }
    }
}
