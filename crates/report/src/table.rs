//! Tables before they are rendered.

use crate::document::Mark;
use serde::Serialize;

/// A table in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Row>,
    /// Whether a terminal may shorten the first column, so that lines have at most 100 columns.
    pub shortens: bool,
}

/// Head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The words.
    pub head: String,
    /// Whether the column holds numbers, which are aligned to the right.
    pub numeric: bool,
}

/// One line of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The cells.
    pub cells: Vec<String>,
    /// Its mark in a page.
    pub mark: Mark,
    /// Whether it starts a new block of lines.
    pub starts_block: bool,
}

impl Table {
    /// A table with these heads, and whether each column holds numbers, without rows.
    #[must_use]
    pub fn new<'a>(caption: &str, columns: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let column = |(head, numeric): (&str, bool)| Column { head: head.to_owned(), numeric };
        Self {
            caption: caption.to_owned(),
            columns: columns.into_iter().map(column).collect(),
            ..Self::default()
        }
    }

    /// The table with these lines of cells.
    #[must_use]
    pub fn with(mut self, rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        self.rows.extend(rows.into_iter().map(|cells| Row { cells, ..Row::default() }));
        self
    }

    /// A table of names and values.
    #[must_use]
    pub fn of_pairs(caption: &str, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let rows = pairs.into_iter().map(|(name, value)| vec![name, value]);
        Self::new(caption, [("What", false), ("Value", false)]).with(rows)
    }
}
