//! Tasks and their registry.

use super::{Bos, EvaluationError, Item, Join, Reply, TASKS, TaskResult};
use std::path::Path;

/// A task: requests, and the scoring of the responses.
pub trait Task {
    /// Name, the key under `results`.
    fn id(&self) -> String;

    /// Version of the prompts and the scoring.
    fn version(&self) -> f64;

    /// Whether documents start with the beginning-of-sequence token.
    fn bos(&self) -> Bos;

    /// Items with their requests.
    fn items(&self) -> Vec<Item<'_>>;

    /// Items for masked language models; none if the task does not support them.
    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        None
    }

    /// Removes the items with these ascending indices in [`Self::items`]. Returns `false` without
    /// effect if the task does not support it.
    fn leave_out(&mut self, _indices: &[usize]) -> bool {
        false
    }

    /// Scores the responses, one list per item. `bos_used` is the outcome of [`Task::bos`] for this
    /// model.
    ///
    /// # Errors
    /// [`EvaluationError::Nothing`] if no token or question was scored.
    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError>;
}

/// Removes the elements with these ascending indices.
pub(super) fn remove_at<T>(list: &mut Vec<T>, indices: &[usize]) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        indices.binary_search(&(index - 1)).is_err()
    });
}

/// Options of tasks; each task reads those that concern it.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Window in tokens.
    pub window: usize,
    /// Stride in tokens.
    pub stride: usize,
    /// Beginning-of-sequence token.
    pub bos: Bos,
    /// Whether documents are joined before the division into windows.
    pub join: Join,
    /// Number of documents or questions to use, from the first; by default all.
    pub limit: Option<usize>,
    /// Field with the text of a record; `text` by default.
    pub text_field: Option<String>,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            window: 512,
            stride: 512,
            bos: Bos::Auto,
            join: Join::Separate,
            limit: None,
            text_field: None,
        }
    }
}

/// Opens a task from a data file and options.
pub type OpenTask = fn(&Path, &TaskOptions) -> Result<Box<dyn Task>, EvaluationError>;

/// A registry entry.
#[derive(Clone, Copy, Debug)]
pub struct TaskEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence for the listing.
    pub summary: &'static str,
    /// Reads the data file and builds the task.
    pub open: OpenTask,
}

impl TaskEntry {
    /// The entry with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TASKS.iter().find(|entry| entry.name == name)
    }
}

/// Opens the task with this name on a data file.
///
/// # Errors
/// [`EvaluationError::UnknownTask`], or an error in the file or the options.
pub fn open_task(
    name: &str,
    data: &Path,
    options: &TaskOptions,
) -> Result<Box<dyn Task>, EvaluationError> {
    let entry = TaskEntry::named(name).ok_or_else(|| EvaluationError::UnknownTask {
        found: name.to_owned(),
        known: format!("the tasks are {}", names().join(", ")),
    })?;
    (entry.open)(data, options)
}

fn names() -> Vec<&'static str> {
    TASKS.iter().map(|entry| entry.name).collect()
}
