//! Linear layers replaced by smaller ones.

mod allocation;
mod budget;
mod edits;
mod memory;
mod names;
pub(in crate::jobs) mod plan;
mod pruning;
pub(in crate::jobs) mod recovery;
pub(in crate::jobs) mod run;
pub(in crate::jobs) mod summary;

use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    ByteSize, Division, Failure, Job, JobError, Outcome, OutputPath, Session, bounds,
};
use crate::jobs::language::calibration::{self, CalibrationOptions};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::form::{EditedForms, SavedForm};
use linwright_compress::allocate::Allocator;
use linwright_compress::intervention::Intervention;
use linwright_compress::methods::Whitening;
use linwright_compress::{Plan, Size};
use linwright_lm::prune::PruneSpec;
use linwright_model::Role;
use linwright_model::Transformer;
pub(in crate::jobs) use names::LayerRoles;
pub use names::{Heal, MethodName, StoredDType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A method for the layers of a model, fitted to calibration text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compress {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Method of replacement (`linwright ls methods`), a kind of operator, or `auto` for the best
    /// of several in each layer [default: low_rank, or structured with --operator].
    #[schemars(with = "Option<Names<MethodName>>")]
    pub method: Option<MethodName>,
    /// Operator for --method structured: a kind (`linwright ls operators`) or a specification as in
    /// recipes, `{kind: diagonal_low_rank, rank: 4}`.
    #[schemars(extend("x-value" = "KIND|SPEC"))]
    pub operator: Option<String>,
    /// Share of parameters kept in the targeted layers. A method may only have some sizes: the
    /// nearest is used, and --dry-run shows it; low rank never keeps more than this share.
    #[schemars(extend("x-conflicts" = ["rank", "rho", "energy", "rate", "marchenko_pastur"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub keep: Option<f64>,
    /// Share of parameters kept in the targeted layers by whatever suits best: closed forms, kinds
    /// of operators and pruning are tried, the best with ranks also divided over the layers, and
    /// validation windows of the calibration text choose. Figures are those of --text and --tasks.
    #[schemars(extend("x-value" = "SHARE", "x-conflicts" = [
        "method", "operator", "keep", "rank", "rho", "energy", "rate", "marchenko_pastur",
        "intervention", "shrinkage", "ridge", "whitening", "alpha", "compat", "trained", "epochs",
        "plan", "heal", "offload"
    ]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub budget: Option<f64>,
    /// Text for the perplexity of --budget, as for --text, which is then the calibration text in
    /// place of --dataset.
    #[schemars(extend(
        "x-value" = "TEXT", "x-requires" = ["budget", "text"], "x-conflicts" = ["dataset"]
    ))]
    pub eval: Option<String>,
    /// Rank of the factors, for methods that have one.
    #[schemars(extend("x-conflicts" = ["rho", "energy", "rate", "marchenko_pastur"]))]
    #[schemars(range(min = 0, max = bounds::FEATURES))]
    pub rank: Option<usize>,
    /// Share of the full rank to keep.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(extend("x-conflicts" = ["energy", "rate", "marchenko_pastur"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rho: Option<f64>,
    /// Keep the smallest rank with this share of the sum of squared singular values of the weight.
    #[schemars(extend("x-value" = "SHARE", "x-conflicts" = ["rate", "marchenko_pastur"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub energy: Option<f64>,
    /// Rate of reduction as in LASER, from 0 to 10: keep (10 - rate) / 10 of the full rank.
    #[schemars(extend("x-conflicts" = ["marchenko_pastur"]))]
    #[schemars(range(min = 0.0, max = bounds::LASER_RATE))]
    pub rate: Option<f64>,
    /// Keep the rank above the Marchenko–Pastur edge of a random matrix.
    pub marchenko_pastur: bool,
    /// How the parameters are divided over the layers: the same share for each, by the singular
    /// values of the weights, or by the loss that an edit of each layer costs on calibration text
    /// [default: uniform; sensitivity with --method auto].
    #[schemars(with = "Option<Names<Allocator>>")]
    pub allocate: Option<Allocator>,
    /// Ranks are multiples of this number where they are allocated [default: 8, or 1 if a layer has
    /// a side of at most 512].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub align: Option<usize>,
    /// Kind of cut (laser) [default: rank-reduction].
    #[schemars(with = "Option<Names<Intervention>>")]
    pub intervention: Option<Intervention>,
    /// Share from 0 to 1 by which second moments of inputs are shrunk towards their diagonal, for
    /// few calibration tokens (feature, whitened_svd, swift_svd) [default: 0].
    #[schemars(extend("x-value" = "SHARE"), range(min = 0.0, max = 1.0))]
    pub shrinkage: Option<f64>,
    /// Ridge that draws regressions towards the weight, as a share of the mean second moment of an
    /// input: large where tokens are few (low_rank, dense, structured) [default: what is best on
    /// held-out windows, for each layer].
    #[schemars(extend("x-value" = "SHARE"), range(min = 0.0, max = bounds::SCALE))]
    pub ridge: Option<f64>,
    /// Root of the second moments (whitened_svd): that of the first or of the second paper
    /// [default: eigen].
    #[schemars(with = "Option<Names<Whitening>>")]
    pub whitening: Option<Whitening>,
    /// Power of the mean size of an activation that scales its column, from 0 to 1 (asvd)
    /// [default: 0.5].
    #[schemars(range(min = 0.0, max = 1.0))]
    pub alpha: Option<f64>,
    /// As the released code of the method's paper, which loses the bias (feature).
    pub compat: bool,
    /// Train the replacement from a random start instead of computing it in closed form (low_rank,
    /// dense).
    pub trained: bool,
    /// Epochs over the calibration samples, for trained methods.
    #[schemars(range(min = 1, max = bounds::EPOCHS))]
    pub epochs: u32,
    /// Layers to replace: `3`, `3,5`, `0-7` [default: all].
    pub layers: Option<String>,
    /// Roles to replace [default: all linear layers of a transformer layer].
    #[schemars(with = "Vec<Names<LayerRoles>>")]
    pub targets: Vec<Role>,
    /// Names of layers to replace: a glob such as `*.mlp.*`, or a regular expression after `re:`
    /// [default: all].
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub sites: Vec<String>,
    /// Names of layers to leave as they are: a glob or, after `re:`, a regular expression.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub ignore: Vec<String>,
    /// Replace what this plan says instead: a JSON or YAML file that gives sites their method and
    /// size.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-conflicts" = [
        "method", "operator", "keep", "rank", "rho", "energy", "rate", "marchenko_pastur",
        "allocate", "align", "intervention", "shrinkage", "ridge", "whitening", "alpha", "compat",
        "trained", "epochs", "layers", "targets", "sites",
        "ignore", "heal", "seed"
    ]))]
    pub plan: Option<PathBuf>,
    /// How to refit the next linear layer, which was not replaced, after query, key or value
    /// (output), gate or up (down) were [default: ridge; none with laser and svd].
    #[schemars(with = "Option<Names<Heal>>")]
    pub heal: Option<Heal>,
    /// Then train the replaced layers, and nothing else, for this many steps of Adam on the loss of
    /// the next token over the calibration text. Its validation windows choose the best step;
    /// without a lower loss there the training is thrown away.
    #[schemars(range(min = 1, max = bounds::STEPS), extend("x-value" = "STEPS"))]
    pub recover: Option<u64>,
    /// Largest step size of --recover [default: 0.001].
    #[schemars(extend("x-value" = "RATE", "x-requires" = ["recover"]))]
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub recover_rate: Option<f64>,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`; `task:NAME`,
    /// the documents of a task with their right answers, of its training split if --data or its
    /// data set has one; `combination`, a sample of six such tasks as in SFSD; or `samples`, texts
    /// that the model writes itself. It should not overlap with the evaluation text, which is told.
    /// laser and svd need none.
    pub dataset: Option<String>,
    /// Largest number of calibration tokens.
    #[schemars(range(min = 0, max = bounds::TOKENS))]
    pub num_tokens: usize,
    /// Length of a calibration window, in tokens.
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub seq_len: usize,
    /// Seed of random initial parameters, and of calibration text that is drawn.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Keep weights, states and finished layers in files, with one layer in memory at a time
    /// [default: if the weights in f32 would take more than half of the memory].
    pub offload: bool,
    /// Evaluation before and after, if any task is given; `bos` applies to calibration documents
    /// as well.
    #[serde(flatten)]
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
    /// Options of a pruning method, which `prune` has as flags.
    #[serde(skip)]
    #[schemars(skip)]
    pub pruning: Option<PruneSpec>,
}

impl Default for Compress {
    fn default() -> Self {
        Self {
            model: String::new(),
            method: None,
            operator: None,
            keep: None,
            budget: None,
            eval: None,
            rank: None,
            rho: None,
            energy: None,
            rate: None,
            marchenko_pastur: false,
            allocate: None,
            align: None,
            intervention: None,
            shrinkage: None,
            ridge: None,
            whitening: None,
            alpha: None,
            compat: false,
            trained: false,
            epochs: 8,
            layers: None,
            targets: Vec::new(),
            sites: Vec::new(),
            ignore: Vec::new(),
            plan: None,
            heal: None,
            recover: None,
            recover_rate: None,
            dataset: None,
            num_tokens: 40_000,
            seq_len: 256,
            seed: 0,
            offload: false,
            evaluation: EvaluationOptions::default(),
            output: OutputPath::default(),
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
            max_memory: None,
            pruning: None,
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
    const MEASURED: &'static [&'static str] = &[
        "recovery/seconds",
        "stages",
        "sites/*/fit/seconds",
        "summary/peak_resident_bytes",
        "summary/tokens_per_second",
        "summary/tokens_per_second_before",
        "tokens_per_second",
        "tokens_per_second_before",
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(calibration::input_of(self.dataset.as_deref()));
        inputs.extend(self.plan.clone());
        inputs.extend(self.evaluation.inputs());
        inputs.extend(self.eval.as_ref().map(PathBuf::from));
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        match budget::two_texts(self)? {
            Some(job) => run::run(&job, self, session),
            None => run::run(self, self, session),
        }
    }
}

impl Compress {
    /// Checks what needs no model: method, size and plan.
    ///
    /// # Errors
    /// [`JobError`] if the method lacks a size or cannot have it, if options contradict each other,
    /// or if the plan cannot be read.
    pub fn check(&self) -> Result<(), JobError> {
        plan::check(self)
    }

    /// The edits of a model.
    ///
    /// # Errors
    /// As [`Self::check`], and if nothing of the model is selected.
    pub fn plan(&self, model: &Transformer) -> Result<Plan, JobError> {
        plan::plan(self, model)
    }

    /// What its calibration text is.
    pub(in crate::jobs) fn calibration(&self) -> CalibrationOptions<'_> {
        CalibrationOptions {
            model: &self.model,
            dataset: self.dataset.as_deref(),
            num_tokens: self.num_tokens,
            seq_len: self.seq_len,
            seed: self.seed,
            dry_run: self.dry_run,
            evaluation: &self.evaluation,
        }
    }

    /// How the budget is divided.
    #[must_use]
    pub fn allocator(&self) -> Allocator {
        let standard = match self.method.is_some_and(MethodName::is_auto) {
            true => Allocator::Sensitivity,
            false => Allocator::Uniform,
        };
        self.allocate.unwrap_or(standard)
    }

    /// Whether layers are measured on calibration text.
    #[must_use]
    pub fn needs_measures(&self) -> bool {
        self.plan.is_none() && self.allocator() == Allocator::Sensitivity
    }

    /// Whether layers are measured or trained on calibration text, whatever their method needs.
    #[must_use]
    pub fn reads_text_itself(&self) -> bool {
        self.needs_measures() || self.recover.is_some() || self.budget.is_some()
    }

    /// The given size.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        let keep = self.keep.map(Size::Keep).or(self.rank.map(Size::Rank));
        let share = self.rho.map(Size::Rho).or(self.energy.map(Size::Energy));
        let rate = self.rate.map(Size::Rate);
        keep.or(share).or(rate).or(self.marchenko_pastur.then_some(Size::MarchenkoPastur))
    }
}
