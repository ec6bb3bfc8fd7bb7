//! Checkpoints of other programs.

mod conversion;
mod result;

use self::result::ImportResult;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A checkpoint of another program, converted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Import {
    /// The weights.
    #[schemars(extend("x-positional" = true))]
    #[schemars(extend("x-path" = true))]
    pub model: PathBuf,
    /// The tokenizer of a llama2.c model, `.bin`.
    #[schemars(extend("x-path" = true))]
    pub tokenizer: Option<PathBuf>,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Job for Import {
    const VERB: &str = "import";
    const ABOUT: &str = "Convert a llama2.c checkpoint and its tokenizer to a Hugging Face \
        directory, or tensors of other programs to a directory of weights.\n\n\
        With --tokenizer, MODEL is a llama2.c `.bin` file. Without, MODEL is a folder of raw files \
        with `tensors.json` ({\"tensors\": [{name, file, shape, dtype, byte_order, transpose, \
        offset}]}), a folder with a known layout, a numpy `.npy` or `.npz` file, or a weight file; \
        the result is `model.safetensors`, without a configuration.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<ImportResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        [Some(&self.model), self.tokenizer.as_ref()].into_iter().flatten().cloned().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        conversion::run(self, session)
    }
}
