//! Overlap of task documents with calibration text.

use super::{EvaluationError, Task};
use linwright_data::{CalibrationText, Overlap};
use std::borrow::Cow;

/// Overlap of a task's documents with calibration text. Few-shot examples do not count; each choice
/// is compared together with its context.
#[must_use]
pub fn overlap(task: &dyn Task, calibration: &CalibrationText) -> Overlap {
    overlap_and_indices(task, calibration).0
}

/// Removes from a task the items that overlap with calibration text. Returns the overlap before
/// removal.
///
/// # Errors
/// [`EvaluationError::Nothing`] if no item would remain, or the task does not support removal.
pub fn leave_out_overlap(
    task: &mut dyn Task,
    calibration: &CalibrationText,
) -> Result<Overlap, EvaluationError> {
    let (overlap, indices) = overlap_and_indices(task, calibration);
    let is_possible = indices.is_empty() || task.leave_out(&indices);
    if !is_possible || overlap.overlapping == overlap.documents {
        let what = "documents without overlap with the calibration text";
        return Err(EvaluationError::Nothing { task: task.id(), what });
    }
    Ok(overlap)
}

fn overlap_and_indices(task: &dyn Task, calibration: &CalibrationText) -> (Overlap, Vec<usize>) {
    let items = task.items();
    let documents: Vec<(&str, Vec<Cow<'_, str>>)> =
        items.iter().map(|item| (item.place.as_str(), item.own_texts())).collect();
    calibration.overlap_and_indices(&task.id(), &documents)
}
