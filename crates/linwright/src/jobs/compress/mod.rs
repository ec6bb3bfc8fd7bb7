//! Linear layers replaced by smaller ones.

mod names;
mod plan;
mod run;
mod state;
mod summary;

use super::named::{EditedForms, Names};
use super::{EvaluationOptions, Failure, Job, JobError, Outcome, SavedForm, Session};
use linwright_compress::pipeline::Plan;
use linwright_model::Transformer;
use linwright_ops::Role;
use names::LayerRoles;
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
    /// Method of replacement [default: low_rank, or structured with --operator].
    #[schemars(with = "Option<Names<MethodName>>")]
    pub method: Option<MethodName>,
    /// Operator for --method structured: a kind (`linwright ls operators`) or a specification as in
    /// recipes, `{kind: diagonal_low_rank, rank: 4}`.
    #[schemars(extend("x-value" = "KIND|SPEC"))]
    pub operator: Option<String>,
    /// Share of parameters kept in the targeted layers. A method may only have some sizes: the
    /// nearest is used, and --dry-run shows it; low rank never keeps more than this share.
    #[schemars(extend("x-conflicts" = ["rank"]))]
    pub keep: Option<f64>,
    /// Rank of the factors (low_rank).
    pub rank: Option<usize>,
    /// Train low-rank factors instead of computing them in closed form.
    pub trained: bool,
    /// Epochs over the calibration samples, for trained methods.
    #[schemars(range(min = 1))]
    pub epochs: u32,
    /// Layers to replace, in this order: `3`, `3,5`, `0-7` [default: all].
    pub layers: Option<String>,
    /// Roles to replace [default: all linear layers of a transformer layer].
    #[schemars(with = "Vec<Names<LayerRoles>>")]
    pub targets: Vec<Role>,
    /// How to refit the output projection after query, key or value were replaced and it was not.
    #[schemars(with = "Names<Heal>")]
    pub heal: Heal,
    /// Calibration text: a file, rows with a `text` field as for --text, or `pocket`. It should not
    /// overlap with the evaluation text.
    pub dataset: Option<String>,
    /// Largest number of calibration tokens.
    pub num_tokens: usize,
    /// Length of a calibration window, in tokens.
    #[schemars(range(min = 2))]
    pub seq_len: usize,
    /// Seed of random initial parameters.
    pub seed: u64,
    /// Evaluation before and after, if any task is given; `bos` applies to calibration documents
    /// as well.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    #[schemars(extend("x-path" = true))]
    pub output: PathBuf,
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
}

impl Default for Compress {
    fn default() -> Self {
        Self {
            model: String::new(),
            method: None,
            operator: None,
            keep: None,
            rank: None,
            trained: false,
            epochs: 8,
            layers: None,
            targets: Vec::new(),
            heal: Heal::Ridge,
            dataset: None,
            num_tokens: 40_000,
            seq_len: 256,
            seed: 0,
            evaluation: EvaluationOptions::default(),
            output: PathBuf::new(),
            form: SavedForm::Auto,
            dtype: None,
            force: false,
            dry_run: false,
        }
    }
}

impl Job for Compress {
    const VERB: &str = "compress";
    const ABOUT: &str = "Replace linear layers by smaller ones fitted to calibration text, and \
        save the model.";
    const WRITES_MODEL: bool = true;

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        run::run(self, session)
    }
}

impl Compress {
    /// The edits of a model, in order of computation.
    ///
    /// # Errors
    /// [`JobError`] if the method lacks a size, or options contradict each other.
    pub fn plan(&self, model: &Transformer) -> Result<Plan, JobError> {
        plan::plan(self, model)
    }
}
