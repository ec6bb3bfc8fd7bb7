//! Provenance of results.

use crate::Measured;
use serde::{Deserialize, Serialize};

/// Provenance of a report: the information needed to reproduce it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of this program.
    pub version: String,
    /// Commit of the build, with `-dirty` for uncommitted changes; `None` if unknown.
    #[serde(default)]
    pub commit: Measured<Option<String>>,
    /// Name of the recipe, or the command.
    pub recipe: String,
    /// SHA-256 of the recipe as run.
    pub recipe_sha256: String,
    /// SHA-256 over configuration, tokenizer and tensors of the model.
    pub model_sha256: String,
    /// Seeds, each for the order of calibration documents and random starts.
    pub seeds: Vec<u64>,
    /// Description of the device.
    #[serde(default)]
    pub device: Measured<String>,
    /// Dtype of the computation.
    pub dtype: String,
    /// Number of threads.
    #[serde(default)]
    pub threads: Measured<usize>,
    /// Start of the run in seconds since 1970 (UTC).
    #[serde(default)]
    pub date_unix_seconds: Measured<f64>,
    /// Files read.
    pub data: Vec<DataSource>,
    /// Ids of the protocols; scores compare only under the same id.
    pub protocols: Vec<String>,
}

impl Provenance {
    /// Whether device, threads and date are known: files that must be reproducible byte for byte
    /// omit them.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        !self.device.is_empty()
    }

    /// The provenance without what differs from one run to the next.
    #[must_use]
    pub fn reproducible(&self) -> Self {
        Self {
            commit: Measured::default(),
            device: Measured::default(),
            threads: Measured::default(),
            date_unix_seconds: Measured::default(),
            ..self.clone()
        }
    }
}

/// A file that a run read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSource {
    /// Purpose: `calibration`, `evaluation`.
    pub purpose: String,
    /// Path or name.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}
