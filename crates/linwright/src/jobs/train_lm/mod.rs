//! Training of the built-in model.

mod run;

use crate::jobs::{Failure, Job, Outcome, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The built-in model, trained from its seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainLm {
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    #[schemars(extend("x-path" = true))]
    pub output: PathBuf,
    /// Seed of the generated world, its texts and the training.
    pub seed: Option<u64>,
    /// Epochs over the training text.
    #[schemars(range(min = 1))]
    pub epochs: Option<u64>,
    /// Training checkpoint, which stays when the model is written [default: in the user's store,
    /// until then].
    #[schemars(extend("x-path" = true))]
    pub checkpoint: Option<PathBuf>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Generate texts and tokenizer, print their hashes, and stop.
    pub dry_run: bool,
}

impl Job for TrainLm {
    const VERB: &str = "train-lm";
    const ABOUT: &str = "Train the built-in model again: generated texts, tokenizer, training, \
        questions.\n\n\
        The same seed gives the same texts and tokenizer. Run the same command again to resume \
        training from its checkpoint.";
    const WRITES_MODEL: bool = true;

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        run::run(self, session)
    }
}
