//! Documents of tasks with their correct answers, for calibration.

use super::{DataUsed, EvaluationError, OpenOptions, TaskOption, TaskRequest, entry};

/// A document followed by its correct answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Source of the document, for messages: `rows.jsonl, line 3`.
    pub place: String,
    /// The document and its answer, as the model reads them without examples.
    pub text: String,
}

/// Documents of a task with their correct answers, and their source files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredDocuments {
    /// The documents, in the order of the data.
    pub documents: Vec<Answered>,
    /// Their files.
    pub data: Vec<DataUsed>,
}

/// The documents of one of the tasks selected by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredTask {
    /// Name of the task.
    pub task: String,
    /// Its documents.
    pub found: AnsweredDocuments,
}

/// Reads the documents of the task with this name, or of the tasks that it selects, with their
/// correct answers and without examples: from the training split if it has data, otherwise from the
/// validation split or else from the test split. Texts are not split.
///
/// # Errors
/// [`EvaluationError`] of the task; [`EvaluationError::NoAnswers`] if it has no correct answers.
pub fn answered_tasks(
    name: &str,
    options: &OpenOptions<'_>,
) -> Result<Vec<AnsweredTask>, EvaluationError> {
    let entry = entry(name);
    let mut options = options.clone();
    options.harness.shots = entry.reads(TaskOption::Shots).then_some(0);
    options.harness.to_learn_from = true;
    let opened = entry.open(&TaskRequest::named(name), &options)?;
    let of = |task: Box<dyn crate::Task>| {
        let found = task.answered();
        let found = found.ok_or_else(|| EvaluationError::NoAnswers { task: task.id() })?;
        Ok(AnsweredTask { task: task.id(), found })
    };
    opened.all.into_iter().map(of).collect()
}
