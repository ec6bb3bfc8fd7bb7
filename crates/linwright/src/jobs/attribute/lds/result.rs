//! Attribution against retrained networks, as it is saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::Method;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// How well scores predict what networks trained on parts of the examples answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LdsMeasured {
    /// The store.
    pub store: String,
    /// The images whose answers are attributed.
    pub images: String,
    /// Parts.
    pub subsets: usize,
    /// Examples of which each part leaves out one.
    pub leave_out: Option<String>,
    /// Examples of the first part.
    pub examples_of_a_subset: usize,
    /// Networks trained on each part.
    pub repeats: usize,
    /// The methods.
    pub results: Vec<LdsRow>,
}

/// The linear datamodelling score of a method with a damping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LdsRow {
    /// The method.
    pub method: Method,
    /// Its damping.
    pub damping: Option<String>,
    /// Mean over queries that have one.
    pub lds: f64,
    /// Its standard error.
    pub lds_stderr: f64,
    /// Queries that have none.
    pub undefined: usize,
    /// The score of each query.
    pub by_query: Vec<Option<f64>>,
}

impl LdsRow {
    /// A row with its means.
    pub(super) fn of(method: Method, damping: Option<String>, by_query: Vec<Option<f64>>) -> Self {
        let defined: Vec<f64> = by_query.iter().flatten().copied().collect();
        let (lds, lds_stderr) = mean(&defined);
        let undefined = by_query.len() - defined.len();
        Self { method, damping, lds, lds_stderr, undefined, by_query }
    }
}

/// Mean and standard error; zeros of nothing.
pub(super) fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (spread / (n - 1.0).max(1.0) / n.max(1.0)).sqrt())
}

impl Report for LdsMeasured {
    const KIND: &'static str = "attribute-lds";

    fn document(&self) -> Document {
        let row = |row: &LdsRow| {
            vec![
                row.method.to_string(),
                row.damping.clone().unwrap_or_default(),
                format!("{:.4}", row.lds),
                format!("{:.4}", row.lds_stderr),
            ]
        };
        let queries = self.results.first().map_or(0, |row| row.by_query.len());
        let line = format!(
            "{} networks trained on {} examples each, {queries} queries",
            self.subsets * self.repeats,
            self.examples_of_a_subset
        );
        let heads = ["method", "damping", "LDS", "standard error"];
        let rows = self.results.iter().map(row).collect();
        Document {
            title: "Which scores predict what networks learn?".into(),
            ..page(vec![text([line]), table(&heads, rows)])
        }
    }
}

/// Which answers change when the best examples of a query are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemovalMeasured {
    /// The store.
    pub store: String,
    /// The images whose answers are attributed.
    pub images: String,
    /// Examples of the store.
    pub examples: usize,
    /// Queries.
    pub queries: usize,
    /// Networks trained on each part.
    pub repeats: usize,
    /// Networks trained in all.
    pub networks: usize,
    /// The methods, and random examples.
    pub changes: Vec<Change>,
}

/// Effect of leaving out examples: means over queries with standard errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The method, or `random`.
    pub method: String,
    /// Its damping.
    pub damping: Option<String>,
    /// Examples that are left out for each query.
    pub removed: usize,
    /// Queries whose margin is above zero without removal.
    pub queries: usize,
    /// Of the queries whose right class has more than half of the probability without removal, the
    /// share that has no longer.
    pub flipped: f64,
    /// Its standard error.
    pub flipped_stderr: f64,
    /// How much the margin falls.
    pub margin_drop: f64,
    /// Its standard error.
    pub margin_drop_stderr: f64,
}

impl Report for RemovalMeasured {
    const KIND: &'static str = "attribute-lds-removal";

    fn document(&self) -> Document {
        let row = |change: &Change| {
            vec![
                change.method.clone(),
                change.damping.clone().unwrap_or_default(),
                change.removed.to_string(),
                change.queries.to_string(),
                format!("{:.4}", change.flipped),
                format!("{:.4}", change.flipped_stderr),
                format!("{:.4}", change.margin_drop),
                format!("{:.4}", change.margin_drop_stderr),
            ]
        };
        let heads =
            ["method", "damping", "removed", "queries", "flipped", "±", "margin drop", "± "];
        let networks = self.networks;
        let line =
            format!("{networks} networks trained; queries are those with a margin above zero");
        let rows = self.changes.iter().map(row).collect();
        Document {
            title: "Which answers depend on their best examples?".into(),
            ..page(vec![text([line]), table(&heads, rows)])
        }
    }
}

/// Parts whose networks are trained, while others are left to other shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LdsPart {
    /// Parts that are done.
    pub known: usize,
    /// All parts.
    pub subsets: usize,
}

impl Report for LdsPart {
    const KIND: &'static str = "attribute-lds-part";

    fn document(&self) -> Document {
        let Self { known, subsets } = self;
        page(vec![text([format!("{known} of {subsets} networks are trained")])])
    }
}
