//! `--samples`: selects documents of tasks by index.

use crate::jobs::kit::Failure;
use linwright_run::{input, shown_reason};
use std::collections::BTreeMap;
use std::path::Path;

/// Indices of documents per task.
pub(super) type Selection = BTreeMap<String, Vec<usize>>;

/// Parses JSON, or a file with JSON.
pub(super) fn read(samples: Option<&str>) -> Result<Selection, Failure> {
    let Some(samples) = samples else { return Ok(Selection::new()) };
    let is_json = samples.trim_start().starts_with('{');
    let text = if is_json {
        samples.to_owned()
    } else {
        input::read_text(Path::new(samples), input::MAX_SETTINGS_BYTES)
            .map_err(|error| Failure::io(samples, &error))?
    };
    let origin = if is_json { "--samples" } else { samples };
    let selection: Selection = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{origin}: {}", shown_reason(&error.to_string())))
            .hint("expected indices from zero by task, such as {\"arc_easy\": [0, 7]}")
    })?;
    if selection.is_empty() {
        return Err(Failure::usage(format!("{origin} names no task")));
    }
    Ok(selection)
}
