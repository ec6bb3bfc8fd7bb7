//! Recipes of language models: text to read, and tasks to score.

use super::check::{Kind, Wrong, wrong};
use super::{Healing, POCKET};
use linwright_data::Format;
use linwright_evaluate::{Bos, DataFile, Join};
use linwright_model::{Role, Split};
use linwright_run::shown;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Source of calibration text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationSource {
    /// A text or JSONL file, columns, `pocket`, `task:NAME`, or `combination`.
    pub dataset: String,
    /// Field or column with the text; `text` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_field: Option<String>,
    /// Largest number of tokens.
    #[serde(default = "CalibrationSource::default_tokens")]
    pub num_tokens: usize,
    /// Window in tokens.
    #[serde(default = "CalibrationSource::default_window")]
    pub seq_len: usize,
    /// Division of windows into training and validation.
    #[serde(default)]
    pub split: Split,
    /// Beginning-of-sequence token at the start of documents.
    #[serde(default)]
    pub bos: Bos,
}

/// Evaluation of models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// A text or JSONL file or columns for perplexity, or `pocket`.
    pub text: String,
    /// Field or column with the text; `text` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_field: Option<String>,
    /// Window in tokens.
    #[serde(default = "Evaluation::default_window")]
    pub window: usize,
    /// Stride in tokens; the window by default.
    #[serde(default)]
    pub stride: Option<usize>,
    /// Beginning-of-sequence token at the start of documents.
    #[serde(default)]
    pub bos: Bos,
    /// Whether documents are scored separately or joined.
    #[serde(default)]
    pub join: Join,
    /// A file of questions with choices, or `pocket`.
    #[serde(default)]
    pub questions: Option<String>,
    /// Further tasks: names, and paths of task files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Data sets of these tasks and of those to calibrate on, `TASK=FILE` or `TASK:SPLIT=FILE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataFile>,
    /// Number of few-shot examples of these tasks; by default that of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_fewshot: Option<usize>,
    /// Number of documents and of questions to use, from the first; by default all.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Whether documents and questions that share word n-grams with the calibration text are left
    /// out ([`linwright_data::Overlap`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_overlap: bool,
}

impl CalibrationSource {
    fn default_tokens() -> usize {
        40_000
    }

    fn default_window() -> usize {
        256
    }
}

impl Evaluation {
    fn default_window() -> usize {
        512
    }
}

impl Kind for CalibrationSource {
    type Evaluation = Evaluation;

    fn targets() -> Option<Vec<String>> {
        Some([Role::Query, Role::Key, Role::Value].map(|role| role.name().to_owned()).into())
    }

    fn heal() -> Vec<Healing> {
        vec![Healing::of_role(Role::Output)]
    }

    fn is_one_role(one: &str, other: &str) -> bool {
        one == other || Role::parse(one).is_some_and(|role| Role::parse(other) == Some(role))
    }

    fn check(&self, eval: &Evaluation) -> Result<(), Wrong> {
        let least = [
            ("calibration.seq_len", self.seq_len, 2),
            ("calibration.num_tokens", self.num_tokens, 4),
            ("eval.window", eval.window, 2),
            ("eval.stride", eval.stride.unwrap_or(1), 1),
            ("eval.limit", eval.limit.unwrap_or(1), 1),
        ];
        if let Some((key, found, least)) = least.into_iter().find(|(_, found, least)| found < least)
        {
            return wrong(key, format!("is {found}, expected at least {least}"));
        }
        if let Some(stride) = eval.stride.filter(|&stride| stride > eval.window) {
            let window = eval.window;
            return wrong(
                "eval.stride",
                format!("is {stride}, expected at most the window, {window}"),
            );
        }
        if eval.exclude_overlap && eval.join != Join::Separate {
            return wrong(
                "eval.exclude_overlap",
                "excludes documents, which do not exist in joined text; set join: separate",
            );
        }
        check_text_fields(self, eval)
    }
}

/// Rejects a field for a text without fields, which would be ignored.
fn check_text_fields(calibration: &CalibrationSource, eval: &Evaluation) -> Result<(), Wrong> {
    let texts = [
        ("calibration.text_field", &calibration.text_field, &calibration.dataset),
        ("eval.text_field", &eval.text_field, &eval.text),
    ];
    for (key, field, text) in texts {
        let is_plain = text == POCKET || Format::of(Path::new(text)) == Format::Text;
        if field.is_some() && is_plain {
            return wrong(key, format!("has no effect, since {} has no fields", shown(text)));
        }
    }
    Ok(())
}
