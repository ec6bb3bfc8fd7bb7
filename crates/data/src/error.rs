//! Errors in data files.

use crate::inflate::GzipError;
use linwright_run::shown;
use std::io;
use std::path::PathBuf;

/// An unusable file of texts or questions.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// An unreadable file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A gzip file that cannot be decompressed, or is too large when decompressed.
    #[error("{}: {source}", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: GzipError,
    },
    /// A file with another compression.
    #[error(
        "{} is compressed as {how}, expected a plain file or gzip; decompress it first",
        path.display()
    )]
    Packed {
        /// The file.
        path: PathBuf,
        /// The kind of compression.
        how: &'static str,
    },
    /// The path is a directory.
    #[error("{} is a directory; expected a text file or a .jsonl file", path.display())]
    IsDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A file larger than the limit.
    #[error(
        "{} is longer than {limit_bytes} bytes; split it into smaller files and evaluate each",
        path.display()
    )]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// A line longer than the limit.
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
        /// The limit.
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
    /// An invalid JSON line.
    #[error("{}, line {line}: not valid JSON: {reason}", path.display())]
    BrokenJson {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// The error of the parser.
        reason: String,
    },
    /// A record with a missing or invalid field.
    #[error("{}, line {line}: {reason}", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// Field, what was found and what was expected.
        reason: String,
    },
    /// A record without its text field.
    #[error(
        "{}, line {line}: field `{}` is missing; the fields are {fields:?}; {}",
        path.display(), shown(field), advice(likely.as_deref())
    )]
    NoText {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
        /// The expected field.
        field: String,
        /// The fields of the record, shortened for a message.
        fields: Vec<String>,
        /// The field that probably has the text.
        likely: Option<String>,
    },
    /// A separator of documents that does not occur in the text.
    #[error(
        "{} does not contain the separator \"{}\"; without one, documents end at blank lines",
        path.display(), shown(separator)
    )]
    NoSeparator {
        /// The file.
        path: PathBuf,
        /// The separator.
        separator: String,
    },
    /// A document with empty text.
    #[error("{}, line {line}: the text is empty; remove the document or give it text", path.display())]
    EmptyText {
        /// The file.
        path: PathBuf,
        /// Line, from one.
        line: usize,
    },
    /// A file without records.
    #[error("{} has no {what}", path.display())]
    NoRecords {
        /// The file.
        path: PathBuf,
        /// The expected records: `documents`, `questions`.
        what: &'static str,
    },
    /// An invalid columnar file.
    #[error("{} cannot be read as {format}: {reason}", path.display())]
    BrokenColumns {
        /// The file.
        path: PathBuf,
        /// Parquet or Arrow.
        format: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file whose decoded size exceeds the bound.
    #[error(
        "{} has {file_bytes} bytes and would take more than {limit_bytes} in memory, more than any known data set; if this is intended, split it into smaller files",
        path.display()
    )]
    RowsTooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        file_bytes: usize,
        /// The bound for such a file.
        limit_bytes: u64,
    },
    /// A columnar file in a build without support for it.
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
    /// Two records with the same id.
    #[error(
        "{}, line {line}: id {id} already occurs in line {first}; remove one of the two",
        path.display(), id = shown(id)
    )]
    DuplicateId {
        /// The file.
        path: PathBuf,
        /// Line of the second, from one.
        line: usize,
        /// Line of the first.
        first: usize,
        /// The id, as JSON.
        id: String,
    },
}

/// Advice about a missing field.
fn advice(likely: Option<&str>) -> String {
    match likely {
        Some(field) => format!(
            "for `{}` give --text-field (in a recipe text_field) with this name, or text_field in \
             --evaluation",
            shown(field)
        ),
        None => "none of them contains text".to_owned(),
    }
}
