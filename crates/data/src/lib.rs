//! Texts, questions, tables and images from files.
//!
//! A text file is one document, which [`Corpus::cut`] divides; in a JSONL file each line is one, in
//! its field `text` or another given one, and so is each row of a JSON, CSV or TSV file. Questions
//! are JSONL. Texts and questions may also be columns of Parquet or Arrow files, with the feature
//! `parquet`. All of them may be compressed with gzip; the decompressed size is bounded by the size
//! of the file. Errors name the file and the line, from one. [`images`] reads labelled images.
//! Every source records the SHA-256 of its bytes for provenance.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

#[cfg(feature = "parquet")]
mod columns;
mod corpus;
mod cut;
mod error;
mod file;
mod ids;
pub mod images;
mod indices;
mod inflate;
mod overlap;
mod questions;
mod row;
pub mod sets;
mod table;
pub mod world;

pub use corpus::{Corpus, Document, Format};
pub use error::DataError;
pub use file::{MAX_FILE_BYTES, MAX_LINE_BYTES};
pub use indices::Indices;
pub use inflate::{GzipError, content_bytes, inflate, most_inflated, open_content, without_gzip};
pub use overlap::{CalibrationText, Overlap, OverlapExample};
pub use questions::{Question, QuestionSet};
pub use row::{Fields, Row, TableFormat};
pub use table::Table;
