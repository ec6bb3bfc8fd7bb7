//! Values over two axes, shaded by size.

use serde::{Deserialize, Serialize};

/// A grid of values over two axes, such as weight names and layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Title.
    pub title: String,
    /// Caption.
    pub note: String,
    /// Title of the columns.
    pub axis: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows with one cell per column; `None` for a missing value.
    pub rows: Vec<(String, Vec<Option<GridCell>>)>,
}

/// A cell of a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridCell {
    /// The value as text.
    pub text: String,
    /// The value for the shade, such as its logarithm; shades range from the smallest to the
    /// largest value in the grid.
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
