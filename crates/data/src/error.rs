//! What can be wrong with a data file.

use linwright_run::shown;
use std::io;
use std::path::PathBuf;

/// A text or question file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A JSON file where text is expected.
    #[error("{}: a .json file is neither text nor JSONL; put one object with a `text` field on each line and call it .jsonl", path.display())]
    Json {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory; expected a text file or a .jsonl file", path.display())]
    IsDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The file is longer than what is read into memory.
    #[error(
        "{} is longer than {limit_bytes} bytes; cut it into smaller files and evaluate each",
        path.display()
    )]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// Longest file accepted.
        limit_bytes: u64,
    },
    /// One line is too long to be a record.
    #[error(
        "{}, line {line}: {found_bytes} bytes on one line, at most {limit_bytes} are accepted",
        path.display()
    )]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// Length of the line.
        found_bytes: usize,
        /// Longest line accepted.
        limit_bytes: usize,
    },
    /// Bytes that are not UTF-8.
    #[error(
        "{}, line {line}: byte {byte} of the file is not UTF-8; convert the file to UTF-8",
        path.display()
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// Offset of the first bad byte in the file, from zero.
        byte: usize,
    },
    /// A line that is not JSON.
    #[error("{}, line {line}: not valid JSON: {reason}", path.display())]
    BrokenJson {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// What the parser said.
        reason: String,
    },
    /// A record without something that it needs, or with something else in its place.
    #[error("{}, line {line}: {reason}", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// Field, what was found and what was expected.
        reason: String,
    },
    /// A record without the field that should hold its text.
    #[error(
        "{}, line {line}: field `{}` is missing; the fields are {fields:?}; {}",
        path.display(), shown(field), advice(likely.as_deref())
    )]
    NoText {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// The field that was looked for.
        field: String,
        /// The fields there are, as they can be shown.
        fields: Vec<String>,
        /// The one that was probably meant.
        likely: Option<String>,
    },
    /// A document without any text.
    #[error("{}, line {line}: the text is empty; remove the document or give it text", path.display())]
    EmptyText {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
    },
    /// A file without a single record.
    #[error("{} holds no {what}", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
        /// What was looked for: `documents`, `questions`.
        what: &'static str,
    },
    /// A file of columns that cannot be decoded.
    #[error("{} cannot be read as {format}: {reason}", path.display())]
    BrokenColumns {
        /// The file.
        path: PathBuf,
        /// Parquet or Arrow.
        format: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that would become much larger in memory.
    #[error(
        "{} has {file_bytes} bytes and would take more than {limit_bytes} in memory, which no data set does; cut it into smaller files if it is meant",
        path.display()
    )]
    RowsTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        file_bytes: usize,
        /// Most bytes that are taken for such a file.
        limit_bytes: u64,
    },
    /// A file of columns, and a program that reads none.
    #[error(
        "{}: this program was built without {format} files; build it with `--features parquet`, or give the rows as JSONL",
        path.display()
    )]
    NotBuilt {
        /// The file.
        path: PathBuf,
        /// Parquet or Arrow.
        format: &'static str,
    },
    /// Two records with one id.
    #[error(
        "{}, line {line}: id {id} is that of line {first} as well; remove one of the two",
        path.display(), id = shown(id)
    )]
    DuplicateId {
        /// The file.
        path: PathBuf,
        /// The second of them, from one.
        line: usize,
        /// The first one.
        first: usize,
        /// The id, as JSON.
        id: String,
    },
}

/// What to do about a field that is missing.
fn advice(likely: Option<&str>) -> String {
    match likely {
        Some(field) => format!(
            "for `{}` give --text-field (in a recipe text_field) with this name",
            shown(field)
        ),
        None => "none of them holds text".to_owned(),
    }
}
