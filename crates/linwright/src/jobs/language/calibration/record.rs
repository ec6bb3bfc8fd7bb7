//! What calibration text was, for results and reports.

use super::{CalibrationOptions, Dataset, Source};
use linwright_evaluate::DataUsed;
use linwright_model::Windows;
use linwright_ops::Examples;
use linwright_report::number::grouped;
use linwright_run::DataSource;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Where calibration text is from, and how much of it there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CalibrationRecord {
    /// `file`, `built_in`, `task`, `combination` or `samples`.
    kind: Cow<'static, str>,
    /// What `--calibration` names.
    name: String,
    /// The files of the documents; none of samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    data: Vec<DataUsed>,
    /// Seed of what was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Number of documents read.
    documents: usize,
    /// Number of windows.
    windows: usize,
    /// Number of tokens in them.
    tokens: usize,
    /// Fingerprint of the windows.
    fingerprint: String,
    /// Documents of the evaluation that share words with the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overlap: Vec<SharedWords>,
}

/// Documents of a task that share words with calibration text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedWords {
    /// The task.
    pub(super) task: String,
    /// Number of its documents.
    pub(super) documents: usize,
    /// Number of those that share words.
    pub(super) overlapping: usize,
    /// Number of consecutive words.
    pub(super) words: usize,
}

impl CalibrationRecord {
    pub(super) fn new(
        options: &CalibrationOptions<'_>,
        source: &Source<'_>,
        documents: usize,
        windows: &Windows,
    ) -> Self {
        let dataset = source.dataset;
        let name = match (dataset, source.data.first()) {
            (Dataset::File(_), Some(used)) => used.path.clone(),
            (Dataset::File(name) | Dataset::Task(name), _) => name.to_owned(),
            (Dataset::Pocket, _) => crate::jobs::kit::source::POCKET.to_owned(),
            (Dataset::Combination | Dataset::Samples, _) => dataset.kind().to_owned(),
        };
        Self {
            kind: dataset.kind().into(),
            name,
            data: source.data.clone(),
            seed: (dataset.is_drawn() || options.shuffle).then_some(options.seed),
            documents,
            windows: windows.windows().len(),
            tokens: windows.tokens(),
            fingerprint: windows.identity(),
            overlap: Vec::new(),
        }
    }

    /// The files of the documents, for provenance.
    pub(crate) fn sources(&self) -> impl Iterator<Item = DataSource> {
        let source = |used: &DataUsed| DataSource {
            purpose: "calibration".to_owned(),
            path: match self.kind.as_ref() {
                "task" => format!("task:{}", self.name),
                _ => used.path.clone(),
            },
            sha256: used.sha256.clone(),
        };
        self.data.iter().map(source)
    }

    /// One line for the report.
    pub(crate) fn line(&self) -> String {
        let mut splits: Vec<&str> =
            self.data.iter().map(|used| used.split.as_str()).filter(|s| *s != "all").collect();
        splits.dedup();
        let split = match splits.is_empty() {
            true => String::new(),
            false => format!(" ({})", splits.join(", ")),
        };
        let of = match &*self.kind {
            "samples" => "written by the model".to_owned(),
            "task" => format!("of task {}{split}, with their right answers", self.name),
            _ => format!("of {}{split}", self.name),
        };
        let seed = self.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        format!(
            "calibration: {} documents {of}, {} tokens in {} windows{seed}",
            grouped(self.documents as u64),
            grouped(self.tokens as u64),
            grouped(self.windows as u64)
        )
    }
}
