//! Whether what a model is asked was in the text that it was fitted to.

use super::Task;
use crate::data::{CalibrationText, Overlap};
use std::borrow::Cow;

/// The overlap of a task's documents with calibration text. Of a document counts what is its own, not
/// the examples before it; each of its choices is looked at with the context.
#[must_use]
pub fn overlap(task: &dyn Task, calibration: &CalibrationText) -> Overlap {
    let items = task.items();
    let documents: Vec<(&str, Vec<Cow<'_, str>>)> =
        items.iter().map(|item| (item.place.as_str(), item.own_texts())).collect();
    calibration.overlap(&task.id(), &documents)
}
