//! Tables, independent of the output format.

use serde::{Deserialize, Serialize};

/// A table with text cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Caption.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Row>,
    /// Whether names in the first column may be shortened in a terminal, so that lines fit 100
    /// characters.
    pub shortens: bool,
}

/// Head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Title.
    pub head: String,
    /// Whether the column has numbers, which are right-aligned.
    pub numeric: bool,
}

/// Row of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The cells.
    pub cells: Vec<String>,
    /// Marker in a page.
    pub mark: Mark,
    /// Whether the row starts a new group.
    pub starts_block: bool,
}

/// Marker of a table row in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Nothing.
    #[default]
    Plain,
    /// The dashed line of the baseline.
    Baseline,
    /// Colour and marker of a series.
    Series(usize),
}

impl Table {
    /// A table without rows; each column has a title and whether it is numeric.
    #[must_use]
    pub fn new<'a>(caption: &str, columns: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let column = |(head, numeric): (&str, bool)| Column { head: head.to_owned(), numeric };
        Self {
            caption: caption.to_owned(),
            columns: columns.into_iter().map(column).collect(),
            ..Self::default()
        }
    }

    /// Adds rows of cells.
    #[must_use]
    pub fn with(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.rows.extend(rows.into_iter().map(|cells| Row { cells, ..Row::default() }));
        self
    }

    /// A table whose columns of numbers are found by their cells.
    #[must_use]
    pub fn of_cells(heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        let is_number =
            |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        let is_numeric = |column: usize| {
            !rows.is_empty() && rows.iter().all(|row| row.get(column).is_some_and(is_number))
        };
        let columns = heads.iter().enumerate().map(|(index, head)| (*head, is_numeric(index)));
        Self::new("", columns.collect::<Vec<_>>()).with(rows)
    }

    /// A table of names and values.
    #[must_use]
    pub fn of_pairs(caption: &str, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let rows = pairs.into_iter().map(|(name, value)| vec![name, value]);
        Self::new(caption, [("What", false), ("Value", false)]).with(rows)
    }
}
