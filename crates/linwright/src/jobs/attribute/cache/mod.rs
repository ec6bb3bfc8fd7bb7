//! Compressed gradients of training examples, kept in a store.

mod fill;
mod result;

use self::result::{CacheFilled, CachePlanned};
use crate::jobs::attribute::ExampleOptions;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Division, Failure, Folded, Folding, Job, Outcome, OutputPath, Session, bounds, catalogue,
};
use linwright_attribute::{Element, Reduction, Target};
use linwright_evaluate::Bos;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Gradients of training examples, compressed and kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeCache {
    /// A directory or GGUF file of a language model, `pocket` for the built-in one, or
    /// `owner/name[@revision]` on the hub; or a small network that train-net wrote.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Training examples: a plain text file with one text per line, rows with a `text` field
    /// (JSONL, JSON, CSV, TSV, Parquet, Arrow) and optionally an `id`, both also compressed with
    /// gzip (`.gz`), `pocket`, or labelled images.
    #[schemars(extend("x-value" = "FILE", "x-path" = true, "x-required" = true))]
    pub train: String,
    /// How gradients are compressed: KIND:SIZE, with numbers per layer, such as factgrass:4096 or
    /// logra:256; `,blow_up=C`, `,signs=S` and `,block=B` may follow.
    #[schemars(extend("x-value" = "KIND:SIZE", "x-whole" = true, "examples" = ["factgrass:16"]))]
    pub compress: String,
    /// How the examples are read.
    #[serde(flatten, with = "Folding::<CacheReading>")]
    pub reading: CacheReading,
    /// Only these linear layers: globs such as *mlp*, or regular expressions after re:.
    #[schemars(extend("x-value" = "PATTERN", "examples" = ["*mlp*"]))]
    pub sites: Vec<String>,
    /// Function of a target to differentiate: its loss, the margin log p - log(1 - p), or its logit
    /// (token).
    #[schemars(with = "Names<Target>")]
    pub target: Target,
    /// Whether the targets of an example are summed or averaged.
    #[schemars(with = "Names<Reduction>")]
    pub reduction: Reduction,
    /// Number type of the store.
    #[schemars(with = "Names<Element>")]
    pub dtype: Element,
    /// Batch size in examples.
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub batch: usize,
    /// Examples per file of the store: the most that is lost if the process is killed.
    #[schemars(range(min = 1, max = bounds::BATCH))]
    pub shard_rows: usize,
    /// Number of examples, from the first one, that learned compressors are fitted to.
    #[schemars(range(min = 4, max = bounds::EXAMPLES))]
    pub learn_from: usize,
    /// Number of the checkpoint; each number has different random maps.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub checkpoint: u64,
    /// Seed of random maps.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Print the estimated time, memory and disk space, and write nothing.
    pub dry_run: bool,
    /// Directory of the store; the same command resumes there, and processes with --shard share it.
    #[schemars(extend("x-short" = "o", "x-value" = "STORE", "x-required" = true))]
    pub output: OutputPath,
}

/// How the examples of a store are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheReading {
    /// What of the file is used.
    #[serde(flatten)]
    pub files: ExampleOptions,
    /// Cut texts after N tokens [default: the positions of the model].
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub max_length: Option<usize>,
    /// Whether texts start with the beginning-of-sequence token; `auto` follows the tokenizer.
    #[schemars(with = "Names<Bos>")]
    pub bos: Bos,
}

impl Folded for CacheReading {
    const NAME: &'static str = "cache_reading";
    const OPTION: &'static str = "reading";
    const HELP: &'static str =
        "How the file of examples is read: `examples=0-4999,max_length=64`, `labels=FILE`.";
    const OWN: &'static [&'static str] = &["text_field"];

    catalogue!(CacheReading);
}

impl Default for AttributeCache {
    fn default() -> Self {
        Self {
            model: String::new(),
            train: String::new(),
            compress: "factgrass:4096".into(),
            reading: CacheReading::default(),
            sites: Vec::new(),
            target: Target::Loss,
            reduction: Reduction::Mean,
            dtype: Element::F32,
            batch: 8,
            shard_rows: 256,
            learn_from: 200,
            checkpoint: 0,
            seed: 0,
            dry_run: false,
            output: OutputPath::default(),
        }
    }
}

impl Job for AttributeCache {
    const VERB: &str = "attribute-cache";
    const ABOUT: &str = "Compute the gradient of every training example at the linear layers, \
        compress it on the fly, and store it.\n\n\
        The store is what the other commands read: `linwright attribute score STORE --query FILE`. \
        Biases of linear layers are part of their gradients; embeddings and norms are left out. \
        Run the same command again to resume; a store of another model, other examples or another \
        compressor is refused.";
    const DIVISION: Division = Division::Shared;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<CacheFilled>(), ReportKind::of::<CachePlanned>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = [PathBuf::from(&self.model), PathBuf::from(&self.train)];
        own.into_iter().chain(self.reading.files.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        fill::run(self, session)
    }
}
