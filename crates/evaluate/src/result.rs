//! Results of tasks.

use super::{EvaluationError, Reply};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One metric of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name as in lm-evaluation-harness: `acc`, `acc_norm`, `token_perplexity`.
    pub name: String,
    /// Name of the filter that extracted the answers; `none` without one.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub filter: String,
    /// The value; infinite if a perplexity overflows.
    #[serde(with = "infinite")]
    pub value: f64,
    /// Standard error over the items, if defined.
    pub stderr: Option<f64>,
    /// Whether higher is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// A metric without a filter.
    #[must_use]
    pub fn new(name: &str, value: f64, stderr: Option<f64>, higher_is_better: bool) -> Self {
        Self { name: name.to_owned(), filter: none(), value, stderr, higher_is_better }
    }
}

fn none() -> String {
    "none".to_owned()
}

fn is_none(filter: &str) -> bool {
    filter == "none"
}

/// One item with its responses and scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its source.
    pub place: String,
    /// Name of the filter.
    pub filter: String,
    /// Its group, such as a frequency band, if it is in one.
    pub group: Option<String>,
    /// Scores of the item, by metric name.
    pub numbers: BTreeMap<String, f64>,
    /// The sample in the format of the harness's log.
    pub record: Map<String, Value>,
}

/// Metrics of one group of items, such as a frequency band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Name of the group.
    pub group: String,
    /// Number of items.
    pub items: usize,
    /// Its metrics.
    pub metrics: Vec<Metric>,
}

/// Numbers of items and tokens, and of irregularities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of documents or questions.
    pub items: usize,
    /// Number of tokens whose likelihood was counted.
    pub tokens_counted: usize,
    /// Number of requests whose context was cut from the left to fit the model.
    pub truncated: usize,
    /// Number of questions whose best two choices had equal scores; the first was taken.
    pub ties: usize,
}

impl Counts {
    /// Counts a response.
    pub(super) fn add(&mut self, reply: &Reply) {
        let (tokens, cut) = match reply {
            Reply::LogLikelihood { tokens, truncated, .. }
            | Reply::Generated { tokens, truncated, .. } => (*tokens, *truncated > 0),
            Reply::Rolling { tokens, .. } => (*tokens, false),
            Reply::Infilled { answers, truncated, .. } => {
                (answers.iter().map(|(_, tokens)| tokens).sum(), *truncated > 0)
            }
            Reply::Similarity { tokens, truncated, .. } => (*tokens, *truncated > 0),
        };
        self.tokens_counted += tokens;
        self.truncated += usize::from(cut);
    }
}

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataUsed {
    /// Split.
    pub split: String,
    /// Path, or data set, commit and file name.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// The result of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Name of the task, the key under `results`.
    pub task: String,
    /// Id of the protocol, such as `text_ppl_w512_s512_bos-always`; scores compare only under the
    /// same id.
    pub protocol: String,
    /// Version of the task's code; scores of different versions do not compare.
    pub version: f64,
    /// SHA-256 of the data file.
    pub data_sha256: String,
    /// Whether documents started with the beginning-of-sequence token.
    pub bos_used: bool,
    /// Metrics over all items.
    pub metrics: Vec<Metric>,
    /// Metrics by group, in alphabetical order.
    pub groups: Vec<GroupResult>,
    /// Counts over all items.
    pub counts: Counts,
    /// Number of few-shot examples.
    #[serde(default)]
    pub shots: usize,
    /// Number of items before selection.
    #[serde(default)]
    pub original: usize,
    /// Fields of the task file; null for tasks without one.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub description: Value,
    /// SHA-256 of the task file; empty for tasks without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_hash: String,
    /// Data files, if the task lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<DataUsed>,
    /// Notes on its data for the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Items, if the task lists them.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl TaskResult {
    /// The metric with this name over all items.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Rejects metrics that are not finite, except those per word: a text without spaces is one
    /// word, whose perplexity overflows in any model.
    ///
    /// # Errors
    /// [`EvaluationError::Overflow`].
    pub fn check_finite(&self) -> Result<(), EvaluationError> {
        let of_words = |metric: &&Metric| metric.name == "word_perplexity";
        let groups = self.groups.iter().flat_map(|group| &group.metrics);
        let mut metrics = self.metrics.iter().chain(groups).filter(|metric| !of_words(metric));
        match metrics.find(|metric| !metric.value.is_finite()) {
            None => Ok(()),
            Some(metric) => Err(EvaluationError::Overflow {
                task: self.task.clone(),
                metric: metric.name.clone(),
                found: metric.value,
            }),
        }
    }
}

/// Mean of correct (1) and incorrect (0) outcomes, with the standard error √(p(1−p)/(n−1)).
pub(super) fn accuracy(name: &str, outcomes: impl Iterator<Item = bool>) -> Metric {
    let (mut right, mut count) = (0u32, 0u32);
    for outcome in outcomes {
        right += u32::from(outcome);
        count += 1;
    }
    let (n, value) = (f64::from(count), f64::from(right) / f64::from(count));
    let stderr = (count > 1).then(|| (value * (1.0 - value) / (n - 1.0)).sqrt());
    Metric::new(name, value, stderr, true)
}

/// Metrics by group: `groups[i]` is the group of item i, `figures` computes the metrics of some
/// items.
pub(super) fn by_group(
    groups: &[Option<&str>],
    figures: impl Fn(&[usize]) -> Vec<Metric>,
) -> Vec<GroupResult> {
    let mut names: Vec<&str> = groups.iter().copied().flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            let members: Vec<usize> =
                (0..groups.len()).filter(|&item| groups[item] == Some(name)).collect();
            GroupResult { group: name.to_owned(), items: members.len(), metrics: figures(&members) }
        })
        .collect()
}

/// JSON has no infinity: it is written as null.
mod infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}
