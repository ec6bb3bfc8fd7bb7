//! Tasks, and those of one data file.

use super::{
    AnsweredDocuments, Bos, EvaluationError, HarnessOptions, Item, Join, LanguageModel,
    LaserOptions, OpenOptions, OpenTasks, Reply, Request, TaskData, TaskEntry, TaskOption,
    TaskRequest, TaskResult, entry,
};
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

    /// Items whose texts depend on the tokenizer and the context of the model; none if those of
    /// [`Self::items`] are for all models.
    ///
    /// # Errors
    /// [`EvaluationError`] if the context is too short, or of the tokenizer.
    fn items_for(
        &self,
        _model: &dyn LanguageModel,
    ) -> Result<Option<Vec<Item<'_>>>, EvaluationError> {
        Ok(None)
    }

    /// Items for masked language models; none if the task does not support them.
    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        None
    }

    /// Its documents with their correct answers; none if the task has none.
    fn answered(&self) -> Option<AnsweredDocuments> {
        None
    }

    /// Removes the items with these ascending indices in [`Self::items`]. Returns `false` without
    /// effect if the task does not support it.
    fn leave_out(&mut self, _indices: &[usize]) -> bool {
        false
    }

    /// A copy with only the items with these ascending indices in [`Self::items`]; none if the task
    /// does not support it.
    fn only(&self, _indices: &[usize]) -> Option<Box<dyn Task>> {
        None
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

/// Keeps the elements with these ascending indices.
pub(super) fn keep_at<T>(list: &mut Vec<T>, indices: &[usize]) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        indices.binary_search(&(index - 1)).is_ok()
    });
}

/// Whether a task consists of texts that are read from their start, and nothing else.
#[must_use]
pub fn is_text(task: &dyn Task) -> bool {
    let items = task.items();
    let mut requests = items.iter().flat_map(|item| &item.requests);
    requests.all(|request| matches!(request, Request::Rolling { .. }))
}

/// Options of tasks; each task reads those that concern it.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Window in tokens.
    pub window: usize,
    /// Stride in tokens.
    pub stride: usize,
    /// Whether only the tokens after the first half of each window count, as in `llama-perplexity`;
    /// windows are then side by side, and `limit` is their number.
    pub second_half: bool,
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
            second_half: false,
            bos: Bos::Auto,
            join: Join::Separate,
            limit: None,
            text_field: None,
        }
    }
}

/// Opens a task from a data file and options.
pub type OpenTask = fn(&Path, &TaskOptions) -> Result<Box<dyn Task>, EvaluationError>;

/// A task of one data file.
#[derive(Clone, Copy, Debug)]
pub struct FileTask {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence for the listing.
    pub summary: &'static str,
    /// Options that it reads in addition to limit and beginning-of-sequence token.
    pub reads: &'static [TaskOption],
    /// See [`TaskEntry::is_divided`].
    pub is_divided: bool,
    /// Reads the data file and builds the task.
    pub open: OpenTask,
}

impl TaskEntry for FileTask {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn data(&self) -> TaskData {
        TaskData::File("data")
    }

    fn reads(&self, option: TaskOption) -> bool {
        self.reads.contains(&option)
    }

    fn is_divided(&self) -> bool {
        self.is_divided
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        let path = request.file(options, "data")?;
        let task = (self.open)(path, &request.text_options(options))?;
        Ok(OpenTasks { all: vec![task], groups: Vec::new() })
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
    let request = TaskRequest {
        path: Some(data.to_owned()),
        text_field: options.text_field.clone(),
        ..TaskRequest::named(name)
    };
    let options = OpenOptions::new(
        Vec::new(),
        options.clone(),
        HarnessOptions::default(),
        LaserOptions::default(),
    );
    Ok(entry(name).open(&request, &options)?.single()?)
}
