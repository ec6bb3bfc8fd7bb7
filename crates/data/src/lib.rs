//! Texts and questions read from files.
//!
//! A text file is one document; a JSONL file holds one document a line, in its field `text` or in
//! another that is named; so do the rows of CSV and TSV files. Question files are JSONL too, and
//! both may be columns of a Parquet or Arrow file, which are read with the feature `parquet`.
//! Whatever is wrong with a file is an error that names the file and the line, counted from one.
//! Every source records the sha256 of its bytes, so that a report can say what exactly was read.

#[cfg(feature = "parquet")]
mod columns;
mod corpus;
mod error;
mod file;
mod ids;
mod overlap;
mod questions;
mod row;
pub mod sets;
mod table;
pub mod world;

pub use corpus::{Corpus, Document, Format};
pub use error::DataError;
pub use file::{MAX_FILE_BYTES, MAX_LINE_BYTES};
pub use overlap::{CalibrationText, Overlap, OverlapExample};
pub use questions::{Question, QuestionSet};
pub use row::{Fields, Row, TableFormat};
pub use table::Table;
