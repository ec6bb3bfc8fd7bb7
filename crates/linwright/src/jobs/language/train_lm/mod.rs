//! Training of a language model: the built-in one, or one on any text.

mod documents;
mod pocket;
mod result;
mod shape;
mod text;
mod tokens;

use self::result::{ModelTrained, PocketPlanned, PocketTrained, TrainingCost};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Failure, Folded, Folding, Job, Outcome, OutputPath, Session, StatePath, bounds, catalogue,
};
use crate::jobs::language::compress::StoredDType;
use linwright_files::TOKENIZER_FILES;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A language model trained from random weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainLm {
    /// Text to train on, instead of the built-in model and its world: a plain file, rows with a
    /// `text` field (JSONL, JSON, CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or
    /// `pocket`.
    pub text: Option<String>,
    /// Which documents of the text are trained on, and which are held out.
    #[serde(flatten)]
    pub documents: DocumentOptions,
    /// Tokenizer and shape of the model.
    #[serde(flatten, with = "Folding::<ModelOptions>")]
    pub model: ModelOptions,
    /// Batches and step sizes.
    #[serde(flatten, with = "Folding::<TrainingOptions>")]
    pub training: TrainingOptions,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Seed of initial weights and batches, and of the held-out documents of a text or else of the
    /// generated world.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: Option<u64>,
    /// Epochs over the training text [default: 1].
    #[schemars(range(min = 1, max = 1_000_000), extend("x-conflicts" = ["steps"]))]
    pub epochs: Option<u64>,
    /// Training checkpoint, which stays when the model is written [default: in the user's store,
    /// until then].
    pub checkpoint: Option<StatePath>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Generate texts and tokenizer, print their hashes, and stop; with --text, print size, steps,
    /// time and memory, for which a few steps are made.
    pub dry_run: bool,
}

/// The documents of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DocumentOptions {
    /// Field or column with the text of a document [default: text].
    #[schemars(extend("x-value" = "NAME", "x-requires" = ["text"]))]
    pub text_field: Option<String>,
    /// Text between two documents of a plain file, such as `<|endoftext|>` [default: a document
    /// ends at the first blank line after 1024 bytes, or end of line after 4096].
    #[schemars(extend("x-value" = "TEXT", "x-requires" = ["text"]))]
    pub separator: Option<String>,
    /// Train on these documents only: indices from zero such as `0-99,120`, or a file of them.
    /// Held-out documents among them stay held out.
    #[schemars(extend("x-value" = "FILE|LIST", "x-requires" = ["text"]))]
    pub documents: Option<String>,
    /// Train without these documents.
    #[schemars(extend("x-value" = "FILE|LIST", "x-requires" = ["text"]))]
    pub without: Option<String>,
    /// Another text for the held-out loss, read like the first; no document of that is held out
    /// then.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-requires" = ["text"]))]
    #[schemars(extend("x-conflicts" = ["held_out_share"]))]
    pub held_out: Option<PathBuf>,
    /// Share of all documents that is held out, at least one: the same ones whatever is trained on.
    #[schemars(extend("x-value" = "SHARE", "x-requires" = ["text"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub held_out_share: f64,
}

impl Default for DocumentOptions {
    fn default() -> Self {
        Self {
            text_field: None,
            separator: None,
            documents: None,
            without: None,
            held_out: None,
            held_out_share: 0.05,
        }
    }
}

/// Tokenizer and shape of a new model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelOptions {
    /// Tokens of a new tokenizer, byte-level BPE trained on the training documents.
    #[schemars(range(min = 258, max = 16_777_216))]
    #[schemars(extend("x-requires" = ["text"], "x-conflicts" = ["tokenizer"]))]
    pub vocab: usize,
    /// Directory with the tokenizer to use instead of a new one, such as that of another model
    /// trained on part of the text.
    #[schemars(extend("x-value" = "DIR", "x-path" = true, "x-requires" = ["text"]))]
    pub tokenizer: Option<PathBuf>,
    /// Features of the residual stream.
    #[schemars(range(min = 2, max = 1_048_576))]
    pub hidden: usize,
    /// Number of layers.
    #[schemars(range(min = 1, max = 2048))]
    pub layers: usize,
    /// Attention heads [default: as many as give each 32 features, or 64 from `hidden` 512].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub heads: Option<usize>,
    /// Heads of keys and values [default: as `heads`].
    #[schemars(range(min = 1, max = bounds::FEATURES))]
    pub kv_heads: Option<usize>,
    /// Features inside an MLP [default: 8/3 of `hidden`, rounded up to 16].
    #[schemars(range(min = 1, max = 1_048_576))]
    pub intermediate: Option<usize>,
    /// Context in tokens: longer documents are cut into windows.
    #[schemars(range(min = 2, max = 1_048_576))]
    pub context: usize,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            vocab: 4096,
            tokenizer: None,
            hidden: 256,
            layers: 4,
            heads: None,
            kv_heads: None,
            intermediate: None,
            context: 256,
        }
    }
}

impl Folded for ModelOptions {
    const NAME: &'static str = "lm_architecture";
    const OPTION: &'static str = "architecture";
    const HELP: &'static str = "Shape of the model: `hidden=256,layers=5`.";
    const OWN: &'static [&'static str] = &["vocab", "tokenizer"];
    const REQUIRES: &'static [&'static str] = &["text"];

    catalogue!(ModelOptions);
}

/// Length, batches and step sizes of the training on a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrainingOptions {
    /// Number of updates [default: those of --epochs].
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub steps: Option<u64>,
    /// Largest number of tokens in a batch.
    #[schemars(range(min = 2, max = bounds::TOKENS))]
    pub batch_tokens: usize,
    /// Largest learning rate of AdamW; it falls to a hundredth along a cosine [default: 0.003, and
    /// above 256 features of the residual stream less in proportion].
    #[schemars(extend("x-requires" = ["text"]))]
    #[schemars(range(min = 0.0, max = bounds::RATE))]
    pub rate: Option<f64>,
    /// Updates during which the rate rises [default: a twentieth of all, at most 200].
    #[schemars(range(min = 0, max = bounds::STEPS))]
    pub warmup: Option<u64>,
    /// Updates between two points of the curve, with the held-out loss, and between checkpoints
    /// [default: a tenth of all].
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub validate_every: Option<u64>,
    /// Storage type of the weights.
    #[schemars(with = "Names<StoredDType>", extend("x-requires" = ["text"]))]
    pub dtype: StoredDType,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self {
            steps: None,
            batch_tokens: 1024,
            rate: None,
            warmup: None,
            validate_every: None,
            dtype: StoredDType::F32,
        }
    }
}

impl Folded for TrainingOptions {
    const NAME: &'static str = "lm_training";
    const OPTION: &'static str = "training";
    const HELP: &'static str = "Batches, warmup and validation: `batch_tokens=4096,warmup=100`.";
    const OWN: &'static [&'static str] = &["steps", "rate", "dtype"];
    const REQUIRES: &'static [&'static str] = &["text"];

    catalogue!(TrainingOptions);
}

impl Job for TrainLm {
    const VERB: &str = "train-lm";
    const ABOUT: &str = "Train a language model from random weights: with --text, tokenizer and model \
        on any text, otherwise the built-in model on its generated texts.\n\n\
        The documents of a text have indices from zero, in the order of the file. A share of them \
        is held out and gives the perplexity; --documents and --without choose among the others, \
        so that models trained with and without some documents can be compared (with --tokenizer \
        to keep the tokens). The same command gives the same bytes; interrupted, it resumes.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] = &[
        ReportKind::of::<ModelTrained>(),
        ReportKind::of::<TrainingCost>(),
        ReportKind::of::<PocketTrained>(),
        ReportKind::of::<PocketPlanned>(),
    ];

    fn inputs(&self) -> Vec<PathBuf> {
        let DocumentOptions { documents, without, held_out, .. } = &self.documents;
        let lists = [documents, without].into_iter().flatten();
        let lists = lists.filter(|list| !documents::is_list(list)).map(PathBuf::from);
        let tokenizer = self.model.tokenizer.iter().flat_map(|folder| {
            TOKENIZER_FILES.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file())
        });
        let text = self.text.iter().map(PathBuf::from);
        text.chain(held_out.clone()).chain(lists).chain(tokenizer).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        match &self.text {
            Some(name) => text::run(self, name, session),
            None => pocket::run(self, session),
        }
    }
}
