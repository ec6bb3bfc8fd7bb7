//! Evaluation of a model.

mod logits;
mod overlap;
mod scores;
mod scoring;

use crate::jobs::kit::{ByteSize, Division, Failure, Job, Outcome, OutputPath, Session, bounds};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::precision::PrecisionOptions;
use schemars::JsonSchema;
pub(in crate::jobs) use scores::{comparison_table, metric_table};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A model scored on tasks, and compared with another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Eval {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// The tasks.
    #[serde(flatten)]
    pub evaluation: EvaluationOptions,
    /// Memory limit of the whole program: `8GB`, `500MiB`, or bytes. Batches are made small enough;
    /// texts that cannot fit are refused before anything is computed.
    #[schemars(extend("x-value" = "SIZE"))]
    pub max_memory: Option<ByteSize>,
    /// Write requests and responses to `samples_TASK.jsonl` in this directory.
    #[schemars(extend("x-value" = "DIR"))]
    pub log_samples: Option<OutputPath>,
    /// Calibration text of the model; documents of tasks that share 13-grams of words with it are
    /// reported.
    #[schemars(extend("x-value" = "FILE", "x-whole" = true, "x-many" = true))]
    #[schemars(extend("x-path" = true))]
    pub overlap_with: Vec<PathBuf>,
    /// How the models are held in memory.
    #[serde(flatten)]
    pub precision: PrecisionOptions,
    /// Also evaluate this model, as the dense baseline, same forms as MODEL; or compare with
    /// this file of log-probabilities, of `--save-logits` or of `llama-perplexity`.
    pub baseline: Option<String>,
    /// Write the log-probabilities of the text to this file, for `--baseline` and for
    /// `llama-perplexity`: second halves of windows, `--limit` of them, in 16 bits a number.
    #[schemars(extend("x-value" = "FILE", "x-requires" = ["text"], "x-conflicts" = ["baseline"]))]
    pub save_logits: Option<OutputPath>,
    /// Fail with exit code 4 if the perplexity is above this.
    #[schemars(range(min = 1.0, max = bounds::SCALE), extend("examples" = [20.5]))]
    pub max_ppl: Option<f64>,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite existing results and samples.
    pub force: bool,
    /// Count the tokens of the tasks, estimate the time, and stop.
    pub dry_run: bool,
}

impl Job for Eval {
    const VERB: &str = "eval";
    const ABOUT: &str = "Measure perplexity on text and accuracy on questions.";
    const OUTPUT_ENDING: &str = ".json";
    const DIVISION: Division = Division::Merged;
    const MEASURED: &'static [&'static str] = &[
        "config/device",
        "date",
        "git_hash",
        "linwright/peak_resident_bytes",
        "linwright/threads",
        "linwright/timing",
        "total_evaluation_time_seconds",
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.baseline.as_ref().map(PathBuf::from));
        inputs.extend(self.evaluation.inputs());
        inputs.extend(self.overlap_with.iter().cloned());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        scores::run(self, session)
    }
}
