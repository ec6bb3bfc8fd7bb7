//! One row of named values, and the formats that hold rows.

use serde_json::{Map, Value};
use std::path::Path;

/// Named values of one row.
pub type Fields = Map<String, Value>;

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its values, in the order of the file.
    pub fields: Fields,
    /// Line of the file where it begins, from one; for a list in one JSON value and for columns its
    /// place there.
    pub line: usize,
}

/// How a file holds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// One JSON object a line, or one JSON value: a list of objects, or an object that holds one.
    Json,
    /// One JSON object a line, whatever is in it.
    JsonLines,
    /// Values between commas, names in the first line.
    Csv,
    /// The same between tabs.
    Tsv,
    /// Each line is a row with the one value `text`.
    Text,
    /// Columns in Parquet; read with the feature `parquet`.
    Parquet,
    /// Columns in Arrow, as a stream or as a file; read with the feature `parquet`.
    Arrow,
}

impl TableFormat {
    /// The format of a file, where its name says more than this: one whose name says lines holds
    /// lines.
    #[must_use]
    pub fn narrowed(self, path: &Path) -> Self {
        match (self, Self::of(path)) {
            (Self::Json, Some(Self::JsonLines)) => Self::JsonLines,
            _ => self,
        }
    }

    /// The format that a file name says: `.json`, `.jsonl` and `.ndjson`, `.csv`, `.tsv`,
    /// `.txt`, `.parquet`, and `.arrow`.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_string_lossy().to_lowercase();
        match extension.as_str() {
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            "txt" | "text" => Some(Self::Text),
            "parquet" => Some(Self::Parquet),
            "arrow" => Some(Self::Arrow),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::JsonLines => "JSON lines",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Text => "text",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }

    /// Whether it holds columns, which have rows and no lines.
    #[must_use]
    pub fn is_columns(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }

    /// The word for the places in it that are counted.
    #[must_use]
    pub fn place(self) -> &'static str {
        if self.is_columns() { "row" } else { "line" }
    }
}
