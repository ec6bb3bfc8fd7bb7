//! The registry of tasks: names and descriptions, the data and options that they read, how they are
//! opened, and how they are divided into validation and test items.
//!
//! [`entries`] lists them all; other names are task files of lm-evaluation-harness. A new task of
//! one data file is one file with an `ENTRY` and one line of the list in `lib.rs`.

mod error;
mod options;
mod parts;
#[cfg(test)]
mod tests;

pub use error::RegistryError;
pub use options::{OpenOptions, TaskOption};
pub(crate) use parts::divided;
pub use parts::{Parts, open_parts};

use crate::harness::group_with_data;
use crate::{
    DataFile, EvaluationError, LASER_TASKS, PROTOCOLS, SENTENCE_TASKS, STANDARD_TASKS, Selection,
    StandardTask, TASKS, Task, TaskGroup, TaskOptions,
};
use linwright_data::QuestionSet;
use std::path::{Path, PathBuf};

/// Data that a task takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskData {
    /// One file: a text, questions, or sentence pairs.
    File(&'static str),
    /// Files of records in order.
    Files,
    /// The splits of a data set, each found by name or given as a file.
    Set,
}

/// A task, or several of a group, opened.
#[derive(Default)]
pub struct OpenTasks {
    /// The tasks.
    pub all: Vec<Box<dyn Task>>,
    /// Groups with means over tasks.
    pub groups: Vec<TaskGroup>,
}

/// A task that a command names, or the task of a file that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRequest {
    /// Name of the task, or path of its file.
    pub name: String,
    /// Its data; by default the files of [`OpenOptions`] with its name.
    pub path: Option<PathBuf>,
    /// Field with the text in that file; by default that of [`OpenOptions`].
    pub text_field: Option<String>,
}

impl TaskRequest {
    /// The task of this name, with the data of the options.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), path: None, text_field: None }
    }

    /// The perplexity of a text.
    #[must_use]
    pub fn text(path: PathBuf, text_field: Option<String>) -> Self {
        Self { name: crate::perplexity::ENTRY.name.to_owned(), path: Some(path), text_field }
    }

    /// The tasks that a file of questions has data for, of which the first `limit` are used:
    /// multiple choice, and completion if some of them have one.
    ///
    /// # Errors
    /// [`EvaluationError::Data`].
    pub fn questions(path: &Path, limit: Option<usize>) -> Result<Vec<Self>, EvaluationError> {
        let mut set = QuestionSet::open(path)?;
        set.questions.truncate(limit.unwrap_or(usize::MAX));
        let mut names = vec![crate::multiple_choice::ENTRY.name];
        names.extend(set.has_completions().then_some(crate::completion::ENTRY.name));
        let of = |name: &str| Self { path: Some(path.to_owned()), ..Self::named(name) };
        Ok(names.into_iter().map(of).collect())
    }

    /// Options of texts, with the field of this one.
    pub(crate) fn text_options(&self, options: &OpenOptions<'_>) -> TaskOptions {
        match self.path {
            Some(_) => TaskOptions { text_field: self.text_field.clone(), ..options.text.clone() },
            None => options.text.clone(),
        }
    }

    /// The single file of the task.
    pub(crate) fn file<'a>(
        &'a self,
        options: &'a OpenOptions<'_>,
        what: &'static str,
    ) -> Result<&'a Path, RegistryError> {
        let mut given = options.data.iter().filter(|data| data.task == self.name);
        let path = self.path.as_deref().or_else(|| given.next().map(|data| data.path.as_path()));
        path.ok_or_else(|| RegistryError::NoData { task: self.name.clone(), what })
    }
}

/// An entry of the registry.
pub trait TaskEntry: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence for the listing.
    fn summary(&self) -> &'static str;

    /// The data that it takes.
    fn data(&self) -> TaskData;

    /// Whether it reads an option. All tasks read data, limit and beginning-of-sequence token.
    fn reads(&self, option: TaskOption) -> bool;

    /// Whether a name is one of its names.
    fn is_called(&self, name: &str) -> bool {
        self.name() == name
    }

    /// Whether its items must be divided into validation and test. Otherwise text that is one
    /// document, or joined, is all validation.
    fn is_divided(&self) -> bool {
        true
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`EvaluationError`]: missing or malformed data, invalid options.
    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError>;

    /// Opens its validation items, the first fifth in an order drawn with the seed `shuffle`, or
    /// without one in that of the data, and its other items as test.
    ///
    /// By default the task must support [`Task::leave_out`], and each part keeps the order of the
    /// data.
    ///
    /// # Errors
    /// As [`Self::open`]; [`RegistryError::NotDivided`], [`RegistryError::TooFew`],
    /// [`RegistryError::Several`].
    fn parts(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
        shuffle: Option<u64>,
    ) -> Result<Parts, EvaluationError> {
        let open = || Ok::<_, EvaluationError>(self.open(request, options)?.single()?);
        match self.is_divided() {
            true => parts::by_leaving_out(open, shuffle),
            false => parts::where_there_are_several(open, shuffle),
        }
    }
}

impl OpenTasks {
    /// One task.
    #[must_use]
    pub fn one(task: impl Task + 'static) -> Self {
        Self { all: vec![Box::new(task)], groups: Vec::new() }
    }

    /// The only task.
    ///
    /// # Errors
    /// [`RegistryError::Several`].
    pub fn single(mut self) -> Result<Box<dyn Task>, RegistryError> {
        match (self.all.pop(), self.all.len()) {
            (Some(task), 0) => Ok(task),
            _ => Err(RegistryError::Several),
        }
    }
}

/// All entries, in the order of the listing.
pub fn entries() -> impl Iterator<Item = &'static dyn TaskEntry> {
    fn of<E: TaskEntry>(entry: &'static E) -> &'static dyn TaskEntry {
        entry
    }
    let datasets = TASKS.iter().map(of).chain(PROTOCOLS.iter().map(of));
    let sets = SENTENCE_TASKS.iter().map(of).chain(STANDARD_TASKS.iter().map(of));
    datasets.chain(sets).chain(LASER_TASKS.iter().map(of))
}

/// The entry with this name; of other names that of task files.
#[must_use]
pub fn entry(name: &str) -> &'static dyn TaskEntry {
    entries().find(|entry| entry.is_called(name)).unwrap_or(&TASK_FILES)
}

/// The name in the registry; some tasks have a paper's name as well.
#[must_use]
pub fn canonical_task(name: &str) -> &str {
    entries().find(|entry| entry.is_called(name)).map_or(name, |entry| entry.name())
}

/// Opens tasks in the given order.
///
/// # Errors
/// [`EvaluationError`] of a task; [`RegistryError`] if no task or one twice is asked for, or data
/// or an option is given that none of them reads.
pub fn open_tasks(
    requests: &[TaskRequest],
    options: &OpenOptions<'_>,
) -> Result<OpenTasks, EvaluationError> {
    for (index, request) in requests.iter().enumerate() {
        if request.path.is_none() && requests[..index].contains(request) {
            return Err(RegistryError::Named { name: request.name.clone() }.into());
        }
    }
    check_read(requests, options)?;
    let (mut opened, mut sampled) = (OpenTasks::default(), Vec::new());
    for request in requests {
        let entry = entry(&request.name);
        let tasks = entry.open(request, options)?;
        if entry.reads(TaskOption::Samples) {
            sampled.extend(tasks.all.iter().map(|task| task.id()));
        }
        opened.all.extend(tasks.all);
        opened.groups.extend(tasks.groups);
    }
    check_samples(options, sampled)?;
    let mut names: Vec<String> = opened.all.iter().map(|task| task.id()).collect();
    let is_group =
        |task: &String| names.iter().any(|name| group_with_data(name) == Some(task.as_str()));
    let is_known =
        |task: &String| names.contains(task) || options.elsewhere.contains(task) || is_group(task);
    if let Some(DataFile { task, .. }) = options.data.iter().find(|data| !is_known(&data.task)) {
        return Err(RegistryError::OtherData { task: task.clone() }.into());
    }
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(RegistryError::Twice { name: twice[0].clone() }.into());
    }
    if names.is_empty() { Err(RegistryError::Nothing.into()) } else { Ok(opened) }
}

/// Refuses options that none of the tasks reads.
fn check_read(requests: &[TaskRequest], options: &OpenOptions<'_>) -> Result<(), RegistryError> {
    let is_read =
        |option: TaskOption| requests.iter().any(|request| entry(&request.name).reads(option));
    // A name in the selection is refused with the names of the tasks.
    let mut given = options.given().into_iter().filter(|option| *option != TaskOption::Samples);
    match given.find(|option| !is_read(*option)) {
        Some(option) if !requests.is_empty() => Err(RegistryError::Unread { option }),
        _ => Ok(()),
    }
}

/// Refuses a selection of documents of other tasks than `tasks`.
fn check_samples(options: &OpenOptions<'_>, tasks: Vec<String>) -> Result<(), RegistryError> {
    match options.harness.samples.keys().find(|name| !tasks.contains(name)) {
        Some(name) => Err(RegistryError::OtherSamples { name: name.clone(), tasks }),
        None => Ok(()),
    }
}

impl TaskEntry for StandardTask {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn data(&self) -> TaskData {
        TASK_FILES.data()
    }

    fn reads(&self, option: TaskOption) -> bool {
        TASK_FILES.reads(option)
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        TASK_FILES.open(request, options)
    }

    fn parts(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
        shuffle: Option<u64>,
    ) -> Result<Parts, EvaluationError> {
        TASK_FILES.parts(request, options, shuffle)
    }
}

/// Task files of lm-evaluation-harness, by path, tag or pattern.
struct TaskFiles;

static TASK_FILES: TaskFiles = TaskFiles;

impl TaskEntry for TaskFiles {
    fn name(&self) -> &'static str {
        "TASK.yaml"
    }

    fn summary(&self) -> &'static str {
        "task files of lm-evaluation-harness, by path, tag or pattern"
    }

    fn data(&self) -> TaskData {
        TaskData::Set
    }

    fn reads(&self, option: TaskOption) -> bool {
        option.is_of_harness()
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        let names = std::slice::from_ref(&request.name);
        let Selection { tasks, groups } = Selection::open(names, &options.harness)?;
        let all = tasks.into_iter().map(|task| Box::new(task) as Box<dyn Task>).collect();
        Ok(OpenTasks { all, groups })
    }

    /// In the order drawn, as `--samples` selects documents.
    fn parts(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
        shuffle: Option<u64>,
    ) -> Result<Parts, EvaluationError> {
        let whole = self.open(request, options)?.single()?;
        let (first, others) = divided(whole.items().len(), shuffle)?;
        let part = |indices: Vec<usize>| -> Result<_, EvaluationError> {
            let mut options = options.clone();
            options.harness.samples = [(whole.id(), indices)].into();
            options.harness.limit = None;
            Ok(self.open(request, &options)?.single()?)
        };
        Ok(Parts { validation: part(first)?, test: Some(part(others)?) })
    }
}
