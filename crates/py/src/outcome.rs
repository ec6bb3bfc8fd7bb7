//! The result of a job for Python: JSON, and the report in the forms of the command.

use linwright::jobs::{Failure, Outcome};
use linwright::report::{Document, html, markdown, terminal};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A result and its report. Forms are rendered on demand.
#[pyclass(frozen, module = "linwright._linwright")]
#[derive(Debug)]
pub(crate) struct RawOutcome {
    json: String,
    report: Document,
}

impl RawOutcome {
    /// Splits an outcome; text that the command prints after a report is appended to it.
    pub(crate) fn new(outcome: &mut Outcome) -> Result<Self, Failure> {
        let mut json = Vec::new();
        outcome.result.write(&mut json).map_err(unwritten)?;
        let json = String::from_utf8(json).map_err(unwritten)?;
        let mut report = std::mem::take(&mut outcome.report);
        report.blocks.append(&mut outcome.measured);
        Ok(Self { json, report })
    }
}

fn unwritten(error: impl std::fmt::Display) -> Failure {
    Failure::general(format!("cannot write the result as JSON: {error}"))
}

#[pymethods]
impl RawOutcome {
    /// The result as JSON.
    fn json(&self) -> &str {
        &self.json
    }

    /// The report as printed by the command.
    fn text(&self) -> String {
        let text = match self.report.title.is_empty() {
            true => terminal::blocks(&self.report.blocks),
            false => terminal::render(&self.report),
        };
        text.trim_matches('\n').to_owned()
    }

    /// The report as Markdown.
    fn markdown(&self) -> String {
        markdown::render(&self.report)
    }

    /// The report as a page, with this title if it has none.
    fn html(&self, title: &str) -> PyResult<String> {
        let mut report = self.report.clone();
        if report.title.is_empty() {
            title.clone_into(&mut report.title);
        }
        html::render(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// The blocks of the report as JSON.
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&self.report)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}
