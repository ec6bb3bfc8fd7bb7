//! What a task says about a model.

use super::Reply;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name as in the evaluation harness: `acc`, `acc_norm`, `token_perplexity`.
    pub name: String,
    /// Name of the way from what the model wrote to its answer; `none` where there is no need for
    /// one.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub filter: String,
    /// The value; infinite where a perplexity is beyond what a number can hold.
    #[serde(with = "infinite")]
    pub value: f64,
    /// Standard error over the items, where it is defined.
    pub stderr: Option<f64>,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// A figure.
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

/// One item of a task: what was asked, replied and made of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Where it comes from.
    pub place: String,
    /// The way from what the model wrote to its answer.
    pub filter: String,
    /// Figures that are one number for an item, by name.
    pub numbers: BTreeMap<String, f64>,
    /// All of it in the form in which the evaluation harness logs samples.
    pub record: Map<String, Value>,
}

/// The figures of one group of items, such as a frequency band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// Name of the group.
    pub group: String,
    /// Items in it.
    pub items: usize,
    /// Its figures.
    pub metrics: Vec<Metric>,
}

/// How much went into a result, and what was unusual on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Documents or questions.
    pub items: usize,
    /// Tokens whose likelihood was counted.
    pub tokens_counted: usize,
    /// Requests whose context was cut from the left to fit the model.
    pub truncated: usize,
    /// Questions in which the best two choices scored exactly the same (the first one was taken).
    pub ties: usize,
}

impl Counts {
    /// Counts a reply.
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
    /// Path, or set and commit and the name of the file there.
    pub path: String,
    /// sha256 of its bytes.
    pub sha256: String,
}

/// The result of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Name of the task, the key under `results`.
    pub task: String,
    /// The exact way of scoring, such as `text_ppl_w512_s512_bos-always`.
    pub protocol: String,
    /// Version of the task's code; figures of different versions do not compare.
    pub version: f64,
    /// sha256 of the data file.
    pub data_sha256: String,
    /// Whether documents did start with the beginning-of-sequence token.
    pub bos_used: bool,
    /// The figures over all items.
    pub metrics: Vec<Metric>,
    /// The figures by group, in alphabetical order.
    pub groups: Vec<GroupResult>,
    /// Counts over all items.
    pub counts: Counts,
    /// Examples before each item.
    #[serde(default)]
    pub shots: usize,
    /// Items that there are, counted or not.
    #[serde(default)]
    pub original: usize,
    /// The task's file; null for tasks without one.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub description: Value,
    /// sha256 of the task's file; empty for tasks without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_hash: String,
    /// The files of its data, where the task tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<DataUsed>,
    /// What a reader must know of its data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The items, where the task tells them.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl TaskResult {
    /// The figure of this name over all items.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// Mean of right-or-wrong outcomes, with the standard error of the sample, √(p(1−p)/(n−1)).
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

/// Figures by group: `groups[i]` is the group of item i, `figures` makes those of a list of items.
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

/// JSON knows no infinity: it is written as null.
mod infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}
