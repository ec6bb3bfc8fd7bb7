//! Rows of named values, and table formats.

use serde_json::{Map, Value};
use std::path::Path;

/// Named values of one row.
pub type Fields = Map<String, Value>;

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Values in the order of the file.
    pub fields: Fields,
    /// Line where it begins, from one; for a JSON list and for columns, the index of the row from
    /// one.
    pub line: usize,
}

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// One JSON object per line, or one JSON value: a list of objects, or an object with such a
    /// list.
    Json,
    /// One JSON object per line.
    JsonLines,
    /// Comma-separated values with names in the first line.
    Csv,
    /// Tab-separated values with names in the first line.
    Tsv,
    /// Each line is a row with the single value `text`.
    Text,
    /// Parquet; needs the feature `parquet`.
    Parquet,
    /// An Arrow stream or file; needs the feature `parquet`.
    Arrow,
}

impl TableFormat {
    /// A more specific format by the file extension: `.jsonl` is JSON lines.
    #[must_use]
    pub fn narrowed(self, path: &Path) -> Self {
        match (self, Self::of(path)) {
            (Self::Json, Some(Self::JsonLines)) => Self::JsonLines,
            _ => self,
        }
    }

    /// Format by the file extension: `.json`, `.jsonl` and `.ndjson`, `.csv`, `.tsv`, `.txt`,
    /// `.parquet`, and `.arrow`.
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

    /// Whether the format is columnar, with rows instead of lines.
    #[must_use]
    pub fn is_columns(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }

    /// `line` or `row`, for messages.
    #[must_use]
    pub fn place(self) -> &'static str {
        if self.is_columns() { "row" } else { "line" }
    }
}
