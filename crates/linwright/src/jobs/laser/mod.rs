//! Cuts of a model as LASER makes them.

mod run;

use crate::jobs::named::{EditedForms, Names};
use crate::jobs::{CutOptions, EvaluationOptions, Failure, Job, Outcome, SavedForm, Session, SlotOptions};
use linwright_ops::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Weights cut in one way, and the model evaluated and saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Laser {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Weights and layers.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Roles of weights, in addition to --lname.
    #[schemars(with = "Vec<Names<Role>>")]
    pub roles: Vec<Role>,
    /// Linear layers with matching names: a glob such as `*.mlp.*`, or a regular expression after
    /// `re:`.
    #[schemars(extend("x-value" = "PATTERN"))]
    pub site: Option<String>,
    /// Apply these edits instead: the JSON file of `linwright compose`.
    #[schemars(extend("x-value" = "FILE", "x-conflicts" = ["lname", "lnum", "roles", "site"]))]
    #[schemars(extend("x-path" = true))]
    pub plan: Option<PathBuf>,
    /// Kind and size of the cut.
    #[serde(flatten)]
    pub cut: CutOptions,
    /// Evaluation before and after, if any task is given.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Output directory for the model.
    #[schemars(extend("x-short" = "o"))]
    #[schemars(extend("x-path" = true))]
    pub output: Option<PathBuf>,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[schemars(with = "Names<EditedForms>")]
    pub form: SavedForm,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Job for Laser {
    const VERB: &str = "laser";
    const ABOUT: &str = "Reduce the rank of weights as LASER does, evaluate the model before and \
        after, and save it; factored weights make it smaller.";
    const WRITES_MODEL: bool = true;

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        run::run(self, session)
    }
}
