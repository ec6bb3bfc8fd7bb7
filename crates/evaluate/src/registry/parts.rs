//! Tasks divided into validation and test items.

use super::{OpenOptions, RegistryError, TaskOption, TaskRequest, entry};
use crate::{EvaluationError, Task, first_fifth};

/// A task divided into validation and test items.
pub struct Parts {
    /// Validation: the first fifth of the items.
    pub validation: Box<dyn Task>,
    /// Test: the rest; none for running text of one document, or few, which is all validation.
    pub test: Option<Box<dyn Task>>,
}

/// Opens the parts of the single requested task; `shuffle` is the seed that draws the validation
/// items, and without one they are the first of the data.
///
/// # Errors
/// [`EvaluationError`] of the task; [`RegistryError`] unless there is exactly one task that can be
/// divided, without options that it does not read or that select items.
pub fn open_parts(
    requests: &[TaskRequest],
    options: &OpenOptions<'_>,
    shuffle: Option<u64>,
) -> Result<Parts, EvaluationError> {
    let [request] = requests else {
        return Err(RegistryError::NotOne { count: requests.len() }.into());
    };
    let selects = [TaskOption::Samples, TaskOption::Chat, TaskOption::Split];
    if let Some(&option) = options.given().iter().find(|option| selects.contains(option)) {
        return Err(RegistryError::NotWithParts { option }.into());
    }
    super::check_read(requests, options)?;
    let parts = entry(&request.name).parts(request, options, shuffle)?;
    match options.data.iter().find(|data| data.task != parts.validation.id()) {
        Some(other) => Err(RegistryError::OtherData { task: other.task.clone() }.into()),
        None => Ok(parts),
    }
}

/// Indices of the first fifth and of the rest.
pub(crate) fn divided(
    count: usize,
    shuffle: Option<u64>,
) -> Result<(Vec<usize>, Vec<usize>), RegistryError> {
    first_fifth(count, shuffle).ok_or(RegistryError::TooFew { count })
}

/// Parts of text if it has documents to divide; otherwise all of it is validation.
pub(super) fn where_there_are_several(
    open: impl Fn() -> Result<Box<dyn Task>, EvaluationError>,
    shuffle: Option<u64>,
) -> Result<Parts, EvaluationError> {
    let mut whole = open()?;
    // A single document would have no interval.
    let is_enough = first_fifth(whole.items().len(), shuffle).is_some_and(|(own, _)| own.len() > 1);
    if whole.leave_out(&[]) && is_enough {
        return by_leaving_out(open, shuffle);
    }
    Ok(Parts { validation: whole, test: None })
}

/// Parts of a task that can leave out items.
pub(super) fn by_leaving_out(
    open: impl Fn() -> Result<Box<dyn Task>, EvaluationError>,
    shuffle: Option<u64>,
) -> Result<Parts, EvaluationError> {
    let (mut validation, mut test) = (open()?, open()?);
    let (mut first, mut others) = divided(validation.items().len(), shuffle)?;
    first.sort_unstable();
    others.sort_unstable();
    if validation.leave_out(&others) && test.leave_out(&first) {
        return Ok(Parts { validation, test: Some(test) });
    }
    Err(RegistryError::NotDivided { task: validation.id() }.into())
}
