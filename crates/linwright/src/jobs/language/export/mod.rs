//! Models saved in other forms.

mod forms;
mod result;

use self::result::{AdapterResult, ExportResult};
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{ByteSize, Failure, Job, Outcome, OutputPath, Session, bounds};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::form::SavedForm;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A model saved in a form that other runtimes load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Export {
    /// A checkpoint directory, a `.gguf` file, or `pocket` for the built-in model.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Output directory.
    #[schemars(extend("x-short" = "o", "x-required" = true))]
    pub output: OutputPath,
    /// A LoRA adapter of PEFT that is merged into the model first: its folder.
    #[schemars(extend("x-value" = "DIR"))]
    #[schemars(extend("x-path" = true))]
    pub adapter: Option<PathBuf>,
    /// Form of the saved model.
    #[schemars(with = "Names<SavedForm>")]
    pub form: SavedForm,
    /// Storage type of the weights [default: that of the model; f32 for adapters].
    #[schemars(with = "Option<Names<StoredDType>>")]
    pub dtype: Option<StoredDType>,
    /// Largest weight file: `5GB`, `500MB`, `2GiB`, or bytes [default: 5GB; gguf is one file].
    pub shard_size: Option<ByteSize>,
    /// The model that an adapter belongs to (lora).
    #[schemars(extend("x-value" = "MODEL"))]
    pub base: Option<String>,
    /// Largest rank of the adapter of a layer (lora).
    #[schemars(extend("x-requires" = ["base"]))]
    #[schemars(range(min = 0, max = bounds::FEATURES))]
    pub rank: Option<usize>,
    /// Share of the squared singular values of each weight difference to keep, above 0, at most 1
    /// (lora).
    #[schemars(extend("x-requires" = ["base"]))]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub energy: Option<f64>,
    /// Name of the original model, `owner/name`, for the model card.
    #[schemars(extend("x-value" = "NAME"))]
    pub base_model: Option<String>,
    /// Results of `linwright eval --json`, for the model card.
    #[schemars(extend("x-value" = "FILE"))]
    #[schemars(extend("x-path" = true))]
    pub results: Option<PathBuf>,
    /// Replace the directory if it exists.
    pub force: bool,
}

impl Job for Export {
    const VERB: &str = "export";
    const ABOUT: &str = "Save a model in a form that other runtimes load, with a model card and a \
        record of its provenance.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<ExportResult>(), ReportKind::of::<AdapterResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.base.as_ref().map(PathBuf::from));
        inputs.extend(self.adapter.clone());
        inputs.extend(self.results.clone());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        forms::run(self, session)
    }
}
