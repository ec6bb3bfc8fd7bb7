//! Whether what a model is asked was in the text that it was fitted to.

use super::{EvaluationError, Task};
use linwright_data::{CalibrationText, Overlap};
use std::borrow::Cow;

/// The overlap of a task's documents with calibration text. Of a document counts what is its own,
/// not the examples before it; each of its choices is looked at with the context.
#[must_use]
pub fn overlap(task: &dyn Task, calibration: &CalibrationText) -> Overlap {
    look(task, calibration).0
}

/// Takes from a task what overlaps with calibration text, so that nothing is asked that a fit has
/// seen. The overlap is that of before.
///
/// # Errors
/// [`EvaluationError::Nothing`] if nothing would be left, or the task cannot leave anything out.
pub fn leave_out_overlap(
    task: &mut dyn Task,
    calibration: &CalibrationText,
) -> Result<Overlap, EvaluationError> {
    let (overlap, places) = look(task, calibration);
    let is_possible = places.is_empty() || task.leave_out(&places);
    if !is_possible || overlap.overlapping == overlap.documents {
        let what = "documents apart from the calibration text";
        return Err(EvaluationError::Nothing { task: task.id(), what });
    }
    Ok(overlap)
}

fn look(task: &dyn Task, calibration: &CalibrationText) -> (Overlap, Vec<usize>) {
    let items = task.items();
    let documents: Vec<(&str, Vec<Cow<'_, str>>)> =
        items.iter().map(|item| (item.place.as_str(), item.own_texts())).collect();
    calibration.overlap_and_places(&task.id(), &documents)
}
