//! What a job found.

use super::Failure;
use linwright_report::{Block, Document, Table, html, markdown};
use linwright_run::state;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Plain data that is written as JSON. It may be much larger as a [`Value`], so that it becomes one
/// only where it is taken apart.
pub trait ResultData {
    /// Writes it as indented JSON.
    ///
    /// # Errors
    /// Those of the writer.
    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()>;

    /// The data as a value.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    fn to_value(&self) -> serde_json::Result<Value>;
}

impl<T: Serialize> ResultData for T {
    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, self)
    }

    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// What a job found: data, and the same for readers.
pub struct Outcome {
    /// The result.
    pub result: Box<dyn ResultData>,
    /// The result for readers; its title may be empty.
    pub report: Document,
    /// Times and memory for readers; they stand in no file but `measured.json`.
    pub measured: Vec<Block>,
    /// A failure that does not invalidate the result: a missed quality gate.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// An outcome with a result.
    #[must_use]
    pub fn new(result: impl Serialize + 'static, blocks: Vec<Block>) -> Self {
        let report = Document { blocks, ..Document::default() };
        Self { result: Box::new(result), report, measured: Vec::new(), failure: None }
    }

    /// The result as a value.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written as JSON.
    pub fn value(&self) -> Result<Value, Failure> {
        self.result
            .to_value()
            .map_err(|error| Failure::general(format!("cannot write the result as JSON: {error}")))
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
    state::write(&directory.join("report.md"), markdown::render(document).as_bytes())?;
    let page = directory.join("report.html");
    state::write(&page, html::render(document)?.as_bytes())?;
    Ok(page)
}
