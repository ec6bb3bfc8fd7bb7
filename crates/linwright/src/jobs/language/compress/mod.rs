//! Linear layers replaced by smaller ones.

mod allocation;
mod budget;
mod edits;
mod memory;
mod names;
pub(in crate::jobs) mod plan;
mod pruning;
pub(in crate::jobs) mod recovery;
pub(in crate::jobs) mod replacement;
mod result;
pub(in crate::jobs) mod site_tables;
mod spec;
pub(in crate::jobs) mod summary;

use self::result::{BudgetPlanned, CompressCost, CompressResult, PruneCost};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::sizes::{SizeText, size_of};
use crate::jobs::kit::{
    ByteSize, Division, Failure, Folding, Job, JobError, Outcome, OutputPath, Recover, Session,
    WithOptions, bounds,
};
use crate::jobs::language::allocating::Allocate;
use crate::jobs::language::calibration::{self, CalibrationOptions, CalibrationText};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::form::{EditedForms, SavedForm};
use crate::jobs::language::slots::SlotOptions;
use linwright_compress::Size;
use linwright_report::ReportKind;
pub(in crate::jobs) use names::Way;
pub use names::{Heal, MethodTerm, Methods, StoredDType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(in crate::jobs) use site_tables::site_blocks;
use spec::Spec;
use std::path::PathBuf;

/// A method for the layers of a model, fitted to calibration text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compress {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Method of replacement with its options: `asvd`, `low_rank:fit=trained,epochs=16`, a kind of
    /// operator (`monarch:blocks=8`), `auto` for the best of several in each layer, or `best` for
    /// the best of several in all: closed forms, kinds of operators and pruning are tried at the
    /// share --keep, the best with ranks also divided over the layers, and validation windows of
    /// the calibration text choose. `linwright ls methods` lists them, `linwright ls methods NAME`
    /// options of one [default: low_rank].
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub method: Option<MethodTerm>,
    /// Share of parameters kept in the targeted layers. A method may only have some sizes: the
    /// nearest is used, and --dry-run shows it; low rank never keeps more than this share.
    #[schemars(extend("x-value" = "SHARE", "x-conflicts" = ["rank", "size"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keep: Option<f64>,
    /// Rank of the factors, for methods that have one.
    #[schemars(extend("x-value" = "R", "x-conflicts" = ["size"]))]
    #[schemars(range(min = 0, max = bounds::FEATURES))]
    pub rank: Option<usize>,
    /// Size in another unit: `keep=0.8`, `rank=64`, `rho=0.5` (share of the full rank),
    /// `energy=0.9` (the fewest components with this share of the squared singular values),
    /// `rate=9` as in LASER (keep (10 - rate) / 10 of the full rank), or `mp` (components above the
    /// Marchenko–Pastur edge of a random matrix).
    #[schemars(with = "Option<SizeText>", extend("x-value" = "UNIT=N"))]
    pub size: Option<SizeText>,
    /// How the parameters are divided over the layers: the same share for each, by the singular
    /// values of the weights, or by the loss that an edit of each layer costs on calibration text:
    /// `uniform`, `spectrum` or `sensitivity` [default: uniform; sensitivity with --method auto].
    /// `sensitivity:align=16` makes divided ranks multiples of 16, `uniform:align=16` the sizes of
    /// pruned layers [default: 8, or 1 if a layer has a side of at most 512].
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub allocate: Option<WithOptions<Allocate>>,
    /// Linear layers to replace.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Replace what this plan says instead: a JSON or YAML file that gives sites their method and
    /// size.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = [
        "method", "keep", "rank", "size", "allocate", "layers", "roles", "sites",
        "ignore", "heal", "seed"
    ]))]
    pub plan: Option<PathBuf>,
    /// How to refit the next linear layer, which was not replaced, after query, key or value
    /// (output), gate or up (down) were [default: ridge; none with laser and svd].
    #[schemars(with = "Option<Names<Heal>>")]
    pub heal: Option<Heal>,
    /// Then train the replaced layers, and nothing else, for this many steps of Adam on the loss of
    /// the next token over the calibration text. Its validation windows choose the best step;
    /// without a lower loss there the training is thrown away. `300:rate=0.0003` sets the largest
    /// step size [default: 0.001].
    #[schemars(extend("x-value" = "STEPS"))]
    pub recover: Option<WithOptions<Recover>>,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`; `task:NAME`,
    /// the documents of a task with their correct answers, of its training split if --data or its
    /// data set has one; `combination`, a sample of six such tasks as in SFSD; or `samples`, texts
    /// that the model writes itself. It should not overlap with the evaluation text, which is told.
    /// laser and svd need none. `FILE:num_tokens=4096,seq_len=128` sets the largest number of
    /// tokens [default: 40000] and the length of a window [default: 256].
    #[schemars(extend("x-value" = "TEXT"))]
    pub calibration: Option<WithOptions<CalibrationText>>,
    /// Seed of random initial parameters, and of calibration text that is drawn.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Keep weights, states and finished layers in files, with one layer in memory at a time
    /// [default: if the weights in f32 would take more than half of the memory].
    pub offload: bool,
    /// Evaluation before and after, if any task is given; `bos` applies to calibration documents
    /// as well.
    #[serde(flatten, with = "Folding::<EvaluationOptions>")]
    pub evaluation: EvaluationOptions,
    /// Output directory.
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
    /// Print the plan with its parameters, memory and time, and stop.
    pub dry_run: bool,
    /// Refuse, before any work, what would take more memory; a whole number with a unit: 8GB,
    /// 500MiB.
    #[schemars(extend("x-value" = "SIZE"))]
    pub max_memory: Option<ByteSize>,
}

impl Default for Compress {
    fn default() -> Self {
        Self {
            model: String::new(),
            method: None,
            keep: None,
            rank: None,
            size: None,
            allocate: None,
            slots: SlotOptions::default(),
            plan: None,
            heal: None,
            recover: None,
            calibration: None,
            seed: 0,
            offload: false,
            evaluation: EvaluationOptions::default(),
            output: OutputPath::default(),
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
            max_memory: None,
        }
    }
}

impl Job for Compress {
    const VERB: &str = "compress";
    const ABOUT: &str = "Replace linear layers by smaller ones fitted to calibration text, and \
        save the model.\n\n\
        A plan gives layers different methods and sizes: {\"edits\": [{\"sites\": {\"roles\": \
        [\"down\"], \"layers\": [0, 1]}, \"method\": {\"method\": \"low_rank\"}, \"size\": \
        {\"rank\": 8}}]}. Of several edits that select a layer, the last counts.";
    const WRITES_MODEL: bool = true;
    const DIVISION: Division = Division::Exchanged;
    const RESULTS: &'static [ReportKind] = &[
        ReportKind::of::<CompressResult>(),
        ReportKind::of::<CompressCost>(),
        ReportKind::of::<PruneCost>(),
        ReportKind::of::<BudgetPlanned>(),
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.calibration.as_ref().and_then(|text| text.input()));
        inputs.extend(self.plan.clone());
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        replacement::run(self, self, session)
    }
}

impl Compress {
    /// Checks what needs no model: method, size and plan.
    ///
    /// # Errors
    /// [`JobError`] if the method has no size or cannot have the given one, if options
    /// contradict each other, or if the plan cannot be read.
    pub fn check(&self) -> Result<(), JobError> {
        Spec::of(self).map(drop)
    }

    /// What its calibration text is.
    pub(in crate::jobs) fn calibration_text(&self) -> CalibrationOptions<'_> {
        let text = self.calibration.as_deref();
        CalibrationOptions {
            seed: self.seed,
            dry_run: self.dry_run,
            ..CalibrationOptions::new(text, calibration::NUM_TOKENS, &self.model, &self.evaluation)
        }
    }

    /// The given size.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        size_of(self.size, self.keep, self.rank)
    }
}
