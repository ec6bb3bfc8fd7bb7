//! Precision and recall of attribution, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::CompressorSpec;
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// How well methods of attribution find examples that are known to be relevant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecallMeasured {
    /// The store.
    pub store: String,
    /// File of the queries.
    pub query: String,
    /// How gradients are compressed.
    pub compressor: CompressorSpec,
    /// Examples of the store.
    pub examples: usize,
    /// Queries with a relevant example.
    pub queries: usize,
    /// Queries without one, which are left out.
    pub without_relevant: usize,
    /// Chance, then each method in each group.
    pub results: Vec<RecallRow>,
}

/// Precision and recall of a method in a group, among the k best examples: means over queries with
/// their standard errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecallRow {
    /// The method, or `chance`.
    pub method: String,
    /// The group.
    pub group: String,
    /// Its queries with a relevant example.
    pub queries: usize,
    /// k.
    pub at: usize,
    /// Share of the k best examples that are relevant.
    pub precision: f64,
    /// Its standard error.
    pub precision_stderr: f64,
    /// Share of the relevant examples that are among the k best.
    pub recall: f64,
    /// Its standard error.
    pub recall_stderr: f64,
}

impl Report for RecallMeasured {
    const KIND: &'static str = "attribute-recall";

    fn document(&self) -> Document {
        let line = format!(
            "{} examples, {} queries, {} more without a relevant example",
            grouped(self.examples as u64),
            self.queries,
            self.without_relevant
        );
        let heads = ["method", "group", "queries", "k", "precision", "±", "recall", "± "];
        let rows = self.results.iter().map(RecallRow::cells).collect();
        page(vec![text([line]), table(&heads, rows)])
    }
}

impl RecallRow {
    fn cells(&self) -> Vec<String> {
        let number = |value: f64| format!("{value:.4}");
        vec![
            self.method.clone(),
            self.group.clone(),
            self.queries.to_string(),
            self.at.to_string(),
            number(self.precision),
            number(self.precision_stderr),
            number(self.recall),
            number(self.recall_stderr),
        ]
    }
}
