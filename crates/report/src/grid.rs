//! Values over two axes, shaded by size.

use serde::Serialize;

/// Values over two axes, such as names of weights and layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// What is shown.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// What the columns are.
    pub axis: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows, each with a cell for each column; none where there is no value.
    pub rows: Vec<(String, Vec<Option<GridCell>>)>,
}

/// A cell of a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GridCell {
    /// The value in words.
    pub text: String,
    /// The value as shades show it, such as its logarithm; they reach from the least of the grid to
    /// the largest.
    pub shade: f64,
}

impl Grid {
    /// The shade of a cell between 0 and 1.
    pub(crate) fn share(&self, cell: &GridCell) -> f64 {
        let shades = || self.rows.iter().flat_map(|(_, cells)| cells).flatten().map(|c| c.shade);
        let (low, high) =
            (shades().fold(f64::INFINITY, f64::min), shades().fold(f64::NEG_INFINITY, f64::max));
        (cell.shade - low) / (high - low).max(1e-12)
    }
}
