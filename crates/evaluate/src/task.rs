//! Tasks and their list.

use super::{
    Bos, EvaluationError, Item, Join, Reply, TaskResult, completion, multiple_choice, perplexity,
};
use std::path::Path;

/// Something to measure: what to ask, and what the answers mean.
pub trait Task {
    /// Name, the key under `results`.
    fn id(&self) -> String;

    /// Version of the way of asking and scoring.
    fn version(&self) -> f64;

    /// Whether documents start with the beginning-of-sequence token.
    fn bos(&self) -> Bos;

    /// Everything to ask.
    fn items(&self) -> Vec<Item<'_>>;

    /// Items for masked language models; none if the task does not support them.
    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        None
    }

    /// Takes out the items at these places of [`Self::items`], which ascend; false, and nothing is
    /// done, if the task cannot.
    fn leave_out(&mut self, _places: &[usize]) -> bool {
        false
    }

    /// Turns the replies, one list for each item, into figures. `bos_used` says what [`Task::bos`]
    /// came to with this model.
    ///
    /// # Errors
    /// [`EvaluationError::Nothing`] if no token or question was scored.
    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError>;
}

/// Takes out what stands at these places, which ascend.
pub(super) fn take_out<T>(list: &mut Vec<T>, places: &[usize]) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        places.binary_search(&(index - 1)).is_err()
    });
}

/// Options from which a task is made; each task reads those that concern it.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Tokens in a window of running text.
    pub window: usize,
    /// Tokens from one window to the next.
    pub stride: usize,
    /// Beginning-of-sequence token.
    pub bos: Bos,
    /// Whether documents are joined before they are cut in windows.
    pub join: Join,
    /// Only this many documents or questions, from the start.
    pub limit: Option<usize>,
    /// The field of a record that holds its text, if it is not `text`.
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

/// Makes a task of a data file and options.
pub type OpenTask = fn(&Path, &TaskOptions) -> Result<Box<dyn Task>, EvaluationError>;

/// One line of the list of tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskEntry {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One sentence for the listing.
    pub summary: &'static str,
    /// Reads the data file and makes the task.
    pub open: OpenTask,
}

/// All tasks.
pub const TASKS: &[TaskEntry] = &[perplexity::ENTRY, multiple_choice::ENTRY, completion::ENTRY];

/// Makes the task of this name over a data file.
///
/// # Errors
/// [`EvaluationError::UnknownTask`], or what is wrong with the file or the options.
pub fn open_task(
    name: &str,
    data: &Path,
    options: &TaskOptions,
) -> Result<Box<dyn Task>, EvaluationError> {
    let entry = TASKS.iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| EvaluationError::UnknownTask {
        found: name.to_owned(),
        known: format!("the tasks are {}", names().join(", ")),
    })?;
    (entry.open)(data, options)
}

fn names() -> Vec<&'static str> {
    TASKS.iter().map(|entry| entry.name).collect()
}
