//! What a job computed.

use super::Failure;
use linwright_report::{AnyReport, Block, Document, Report, Table, html, markdown};
use linwright_run::{measured, state};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a job computed: data, and the same for readers.
pub struct Outcome {
    /// The result.
    pub result: Box<dyn AnyReport>,
    /// The result for readers; its title may be empty.
    pub report: Document,
    /// Times and memory for readers; saved in `measured.json` alone.
    pub measured: Vec<Block>,
    /// A failure that does not invalidate the result: a missed quality gate.
    pub failure: Option<Failure>,
}

/// Data without a kind.
struct Plain<T>(T);

impl<T: Serialize> AnyReport for Plain<T> {
    fn document(&self) -> Document {
        Document::default()
    }

    fn times(&self) -> Vec<Block> {
        Vec::new()
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, &self.0)
    }

    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(&self.0)
    }
}

impl Outcome {
    /// An outcome with a result that has a kind.
    #[must_use]
    pub fn of(result: impl Report) -> Self {
        let (report, measured) = (Report::document(&result), Report::times(&result));
        Self { result: Box::new(result), report, measured, failure: None }
    }

    /// The outcome of a process that only helped others.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self::new(Map::new(), Vec::new())
    }

    /// The outcome as a command shows it, where that is shorter than the report of the result.
    #[must_use]
    pub(crate) fn showing(self, blocks: Vec<Block>) -> Self {
        Self { report: page(blocks), ..self }
    }

    /// An outcome with a result.
    #[must_use]
    pub fn new(result: impl Serialize + 'static, blocks: Vec<Block>) -> Self {
        let report = Document { blocks, ..Document::default() };
        Self { result: Box::new(Plain(result)), report, measured: Vec::new(), failure: None }
    }

    /// The result as a value.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written as JSON.
    pub fn value(&self) -> Result<Value, Failure> {
        self.result.to_value().map_err(unwritten)
    }

    /// The result without what was measured, and that in the same form.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written as JSON.
    pub(crate) fn apart(&self) -> Result<(Value, Value), Failure> {
        apart(self.result.as_ref())
    }
}

/// A result without what was measured, and that in the same form.
///
/// # Errors
/// [`Failure`] if it cannot be written as JSON.
pub(crate) fn apart(result: &dyn AnyReport) -> Result<(Value, Value), Failure> {
    measured::apart(|| result.to_value()).map_err(unwritten)
}

fn unwritten(error: serde_json::Error) -> Failure {
    Failure::general(format!("cannot write the result as JSON: {error}"))
}

/// Lines of text as a block, one paragraph each.
pub(crate) fn text(lines: impl IntoIterator<Item = impl Into<String>>) -> Block {
    Block::Text(lines.into_iter().map(Into::into).collect())
}

/// Blocks as a document without a title.
pub(crate) fn page(blocks: Vec<Block>) -> Document {
    Document { blocks, ..Document::default() }
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
    state::write(&directory.join("report.md"), markdown::render(document).as_bytes())?;
    let page = directory.join("report.html");
    state::write(&page, html::render(document)?.as_bytes())?;
    Ok(page)
}
