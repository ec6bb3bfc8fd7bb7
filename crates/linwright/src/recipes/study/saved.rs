//! Reports of studies as files.

use crate::jobs::kit::Failure;
use crate::jobs::kit::outcome::write_pages;
use linwright_data::MAX_FILE_BYTES;
use linwright_files::MEASURED as MEASURED_FILE;
use linwright_report::ReportError;
use linwright_run::{input, measured, shown_reason, state};
use linwright_study::report::Report;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes `report.json`, `report.md` and `report.html`, which have no times; returns the path of
/// the last, and the times.
///
/// # Errors
/// [`Failure`] if a file cannot be written.
pub fn write_report(report: &Report, directory: &Path) -> Result<(PathBuf, Value), Failure> {
    let (value, measured) = measured::apart(|| plain(report))?;
    let text = format!("{value:#}");
    state::write(&directory.join("report.json"), text.as_bytes())?;
    Ok((write_pages(&Report::from_json(&text)?.document(), directory)?, measured))
}

/// A saved report, with the times stored next to it, if any.
///
/// # Errors
/// [`Failure`] if the text is not a report, or the times cannot be read.
pub fn read_report(text: &str, path: &Path) -> Result<Report, Failure> {
    let report = Report::from_json(text).map_err(|error| {
        Failure::from(error).hint(
            "results begin with `kind`, but those of `eval` and of studies; files of versions \
             before have none: run the command again",
        )
    })?;
    let beside = path.with_file_name(MEASURED_FILE);
    if !beside.exists() {
        return Ok(report);
    }
    let shown = beside.display().to_string();
    let times = input::read_text(&beside, MAX_FILE_BYTES);
    let times = times.map_err(|error| Failure::io(&shown, &error))?;
    let wrong = |reason: String| {
        Failure::general(format!("{shown} is not a file of times: {}", shown_reason(&reason)))
            .hint("remove it to see the results without times")
    };
    let mut times: Value =
        serde_json::from_str(&times).map_err(|error| wrong(error.to_string()))?;
    let measured = times.get_mut("measured").map(Value::take);
    let measured = measured.ok_or_else(|| wrong("it has no key measured".to_owned()))?;
    // As saved: a report in memory has fields for times.
    let mut value: Value = serde_json::from_str(text).map_err(ReportError::from)?;
    measured::join(&mut value, measured);
    Ok(Report::from_json(&value.to_string())?)
}

/// The report as JSON.
pub(super) fn plain(report: &Report) -> Result<Value, Failure> {
    serde_json::to_value(report)
        .map_err(|error| Failure::general(format!("cannot write the report as JSON: {error}")))
}
