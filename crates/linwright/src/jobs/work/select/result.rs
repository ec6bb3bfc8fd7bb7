//! Selected rows, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_measure::vendi::{Diversity, Effort, Gamma};
use linwright_report::number::seconds;
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use linwright_run::undefined::or_nan;
use serde::{Deserialize, Serialize};

/// Selected rows in the report; the JSON has all.
const SHOWN: usize = 20;

/// The most or the least diverse rows of a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowsSelected {
    /// The model.
    pub model: String,
    /// The matrix.
    pub matrix: SelectedMatrix,
    /// What was asked for.
    pub options: SelectionOptions,
    /// γ of the kernel.
    pub gamma: f64,
    /// The rows, in the order of selection.
    pub indices: Vec<usize>,
    /// The score after each.
    pub scores: Vec<f64>,
    /// Logarithms of the scores.
    #[serde(deserialize_with = "or_nan")]
    pub log_scores: Vec<f64>,
    /// Logarithm of the mean quality of the rows, if quality counts.
    pub log_mean_quality: Option<f64>,
    /// Rows that equal an earlier one.
    pub duplicates: usize,
    /// The matrix projected onto the rows.
    pub projection: Option<Projection>,
    /// Why there is no projection.
    pub no_projection: Option<String>,
    /// What the selection took.
    pub effort: Effort,
    /// Times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Measured<SelectionSeconds>>,
    /// The processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Measured<String>>,
    /// Threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Measured<usize>>,
}

/// A matrix of which rows are selected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelectedMatrix {
    /// The tensor or layer.
    pub name: String,
    /// Number type of the tensor.
    pub dtype: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// How rows are selected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelectionOptions {
    /// Number of rows.
    pub rank: usize,
    /// Order of the score.
    pub order: Diversity,
    /// Whether quality counts.
    pub quality: bool,
    /// Whether the score is the least possible.
    pub minimise: bool,
    /// γ of the kernel as it was given.
    pub gamma: Gamma,
}

/// A matrix projected onto selected rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Projection {
    /// What is left of the matrix, relative to its norm.
    pub relative_residual: f64,
    /// Condition number of the rows.
    #[serde(deserialize_with = "or_nan")]
    pub condition: f64,
}

/// Times of a selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelectionSeconds {
    /// Of the selection.
    pub selection: f64,
    /// Of the projection.
    pub projection: f64,
}

impl Report for RowsSelected {
    const KIND: &'static str = "select";

    fn document(&self) -> Document {
        let picks = self.indices.iter().zip(&self.scores).enumerate();
        let line = |(place, (row, score)): (usize, (&usize, &f64))| {
            vec![(place + 1).to_string(), row.to_string(), format!("{score:.6}")]
        };
        let SelectedMatrix { name, rows, cols, .. } = &self.matrix;
        let (count, gamma) = (self.indices.len(), self.gamma);
        let head = format!("{name}: {rows} x {cols}, {count} of {rows} rows, gamma {gamma:.6}");
        let more =
            count.checked_sub(SHOWN + 1).map(|more| format!("and {} more: see --json", more + 1));
        let equal = (self.duplicates > 0)
            .then(|| format!("{} selected rows equal an earlier one", self.duplicates));
        let projection = match &self.projection {
            Some(projection) => format!(
                "projection onto these rows: relative residual {:.6}, condition number {:.3e}",
                projection.relative_residual, projection.condition
            ),
            None => format!("no projection: {}", self.no_projection.as_deref().unwrap_or_default()),
        };
        page(vec![
            text([head]),
            table(&["pick", "row", "score"], picks.take(SHOWN).map(line).collect()),
            text(more.into_iter().chain(equal).chain([projection])),
        ])
    }

    fn times(&self) -> Vec<Block> {
        let line = |times: &Measured<SelectionSeconds>| {
            let SelectionSeconds { selection, projection } = times.0;
            let (selection, projection) = (seconds(selection), seconds(projection));
            text([format!("selection: {selection}, projection: {projection}")])
        };
        self.seconds.iter().map(line).collect()
    }
}
