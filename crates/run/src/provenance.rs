//! Where a result comes from.

use serde::{Deserialize, Serialize};

/// Where a report comes from: enough to make it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of this program.
    pub version: String,
    /// The commit that it was built from, with `-dirty` where it was changed since; none where that
    /// is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Name of the recipe, or the command.
    pub recipe: String,
    /// sha256 of the recipe as run.
    pub recipe_sha256: String,
    /// sha256 over configuration, tokenizer and tensors of the model.
    pub model_sha256: String,
    /// The seeds, each of which draws calibration documents and random starts.
    pub seeds: Vec<u64>,
    /// Device in words.
    pub device: String,
    /// Type of numbers in computation.
    pub dtype: String,
    /// Threads.
    pub threads: usize,
    /// Start of the run in seconds since 1970.
    pub date_unix_seconds: f64,
    /// Files read.
    pub data: Vec<DataSource>,
    /// Names of the protocols under which figures may be compared.
    pub protocols: Vec<String>,
}

/// A file that a run read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSource {
    /// What it was used for: `calibration`, `evaluation`.
    pub purpose: String,
    /// Path or name.
    pub path: String,
    /// sha256 of its bytes.
    pub sha256: String,
}
