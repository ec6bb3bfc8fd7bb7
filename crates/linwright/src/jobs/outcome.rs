//! What a job found.

use super::Failure;
use linwright_report::{Block, Document, Table, html, markdown};
use linwright_run::atomic::write_atomic;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What a job found: data, and the same for readers.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The result.
    pub result: Value,
    /// The result for readers; its title may be empty.
    pub report: Document,
    /// The model that the job wrote, if any: the one that later jobs of a recipe refer to.
    pub model: Option<PathBuf>,
    /// A failure that does not invalidate the result: a missed quality gate.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// An outcome with a result.
    ///
    /// # Errors
    /// [`Failure`] if the result cannot be written as JSON.
    pub fn new(result: &impl Serialize, blocks: Vec<Block>) -> Result<Self, Failure> {
        let result = serde_json::to_value(result).map_err(|error| {
            Failure::general(format!("cannot write the result as JSON: {error}"))
        })?;
        let report = Document { blocks, ..Document::default() };
        Ok(Self { result, report, ..Self::default() })
    }
}

/// Lines of text as a block, one paragraph each.
pub(crate) fn text(lines: impl IntoIterator<Item = impl Into<String>>) -> Block {
    Block::Text(lines.into_iter().map(Into::into).collect())
}

/// A table as a block, whose columns of numbers are found by their cells.
pub(crate) fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Block {
    Block::Table(Table::of_cells(heads, rows))
}

/// Writes `report.md` and `report.html`; gives the path of the latter.
///
/// # Errors
/// [`Failure`] if a file cannot be written.
pub fn write_pages(document: &Document, directory: &Path) -> Result<PathBuf, Failure> {
    write_atomic(&directory.join("report.md"), markdown::render(document).as_bytes())?;
    let page = directory.join("report.html");
    write_atomic(&page, html::render(document)?.as_bytes())?;
    Ok(page)
}
