//! Collapse of a language model, whose classes are the next tokens.

mod contexts;
mod passes;
pub(crate) mod result;

use self::result::CollapseOfModel;
use crate::jobs::collapse::options::CollapseOptions;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, bounds};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Neural collapse of a language model by layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseLm {
    /// A directory, a GGUF file, `pocket` for the built-in model, or `owner/name[@revision]` on the
    /// hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Text: a plain file as one document, rows with a `text` field (JSONL, JSON, CSV, TSV,
    /// Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
    #[schemars(extend("x-required" = true))]
    pub text: String,
    /// Field or column with the text [default: text].
    #[schemars(extend("x-value" = "NAME"))]
    pub text_field: Option<String>,
    /// Measure only the outputs of these layers, such as 3,5 or 0-7, not the input of the first
    /// layer; the input of the head is always measured.
    pub layers: Option<String>,
    /// Tokens of a window: contexts begin at its start.
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub window: usize,
    /// Use at most this many tokens of the text.
    #[schemars(range(min = 2, max = bounds::TOKENS), extend("x-value" = "N"))]
    pub num_tokens: Option<usize>,
    /// Leave out tokens that occur as the next token less often.
    #[schemars(range(min = 1, max = bounds::TOKENS), extend("x-value" = "N"))]
    pub min_count: u64,
    /// Leave out tokens that occur as the next token more often.
    #[schemars(range(min = 1, max = bounds::TOKENS), extend("x-value" = "N"))]
    pub max_count: Option<u64>,
    /// Also keep the scatter within classes, d x d for each layer, for nc1_pinv.
    pub scatter: bool,
    /// Run the text once more, for the agreement with the nearest mean (NC4).
    pub decisions: bool,
    /// Additions to the metrics.
    #[serde(flatten)]
    pub options: CollapseOptions,
    /// Also write the result as JSON to this file, which `linwright report` renders.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for CollapseLm {
    fn default() -> Self {
        Self {
            model: String::new(),
            text: String::new(),
            text_field: None,
            layers: None,
            window: 256,
            num_tokens: None,
            min_count: 2,
            max_count: None,
            scatter: false,
            decisions: false,
            options: CollapseOptions::default(),
            output: None,
            force: false,
        }
    }
}

impl Job for CollapseLm {
    const VERB: &str = "collapse-lm";
    const ABOUT: &str = "Measure neural collapse of a language model by layer: contexts are \
        samples, next tokens their classes.\n\n\
        Of an encoder, which predicts no next token, the classes are the tokens themselves. One \
        forward pass adds the hidden states of all layers to sums by class, 16 bytes for each \
        class, feature and layer, and the same for permuted classes, the baseline. With more \
        classes than features no simplex exists: compare nc2_etf_err_M with its floor and with \
        that of random frames.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseOfModel>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.model), PathBuf::from(&self.text)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        passes::run(self, session)
    }
}
