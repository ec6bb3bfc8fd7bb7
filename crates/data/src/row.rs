//! Rows of named values, and table formats.

use crate::inflate::without_gzip;
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

/// File extensions and their formats, the usual extension of a format first.
const EXTENSIONS: [(&str, TableFormat); 9] = [
    ("jsonl", TableFormat::JsonLines),
    ("ndjson", TableFormat::JsonLines),
    ("json", TableFormat::Json),
    ("csv", TableFormat::Csv),
    ("tsv", TableFormat::Tsv),
    ("txt", TableFormat::Text),
    ("text", TableFormat::Text),
    ("parquet", TableFormat::Parquet),
    ("arrow", TableFormat::Arrow),
];

impl TableFormat {
    /// A more specific format by the file extension: `.jsonl` is JSON lines.
    #[must_use]
    pub fn narrowed(self, path: &Path) -> Self {
        match (self, Self::of(path)) {
            (Self::Json, Some(Self::JsonLines)) => Self::JsonLines,
            _ => self,
        }
    }

    /// Format by the file extension, in upper or lower case and before a `.gz`: see
    /// [`Self::extensions`].
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = without_gzip(path).extension()?.to_string_lossy().to_lowercase();
        let named = EXTENSIONS.iter().find(|(name, _)| *name == extension);
        named.map(|(_, format)| *format)
    }

    /// The usual extension of each of these formats, for messages: `.jsonl, .json or .csv`.
    #[must_use]
    pub fn extensions(is_meant: fn(Self) -> bool) -> String {
        let mut meant: Vec<_> = EXTENSIONS.iter().filter(|(_, known)| is_meant(*known)).collect();
        meant.dedup_by_key(|(_, format)| *format);
        let names: Vec<String> = meant.iter().map(|(name, _)| format!(".{name}")).collect();
        match names.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => names.concat(),
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
