//! What can go wrong in an evaluation.

use linwright_data::DataError;
use linwright_data::sets::SetError;
use linwright_run::{JournalError, shown};
use std::error::Error;

/// An evaluation that could not be started or finished.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// A data file cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// No task of this name.
    #[error("no task is called \"{found}\"; {known}", found = shown(found))]
    UnknownTask {
        /// The name asked for.
        found: String,
        /// The names there are, or those that are near.
        known: String,
    },
    /// A task file that cannot be used.
    #[error("{origin}: {reason}")]
    TaskFile {
        /// Its path, or the name of a task that comes along.
        origin: String,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A document that does not fit its task.
    #[error("{place}: {field} of task {task}: {reason}", task = shown(task), field = shown(field))]
    Document {
        /// File and line.
        place: String,
        /// The task.
        task: String,
        /// The field of the task file.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// A data set whose rows nobody gave.
    #[error(
        "{origin}: the data set {name} is not on this machine; give the rows of its split {split} \
         with --data {task}:{split}=FILE", task = shown(task), name = shown(name), split = shown(split)
    )]
    NoRows {
        /// Path of the task file, or the name of a task that comes along.
        origin: String,
        /// The task.
        task: String,
        /// The data set.
        name: String,
        /// The split.
        split: String,
    },
    /// A data set that is not on this machine and cannot be brought.
    #[error(
        "{origin}: {source}; or give the rows of its split {split} with --data {task}:{split}=FILE", task = shown(task), split = shown(split)
    )]
    Set {
        /// Its path, or the name of a task that comes along.
        origin: String,
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// Why.
        source: Box<SetError>,
    },
    /// What was kept of an interrupted evaluation cannot be used or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Window and stride do not make a protocol.
    #[error("window {window} and stride {stride} do not fit: {reason}")]
    BadProtocol {
        /// Tokens in a window.
        window: usize,
        /// Tokens from one window to the next.
        stride: usize,
        /// What must hold.
        reason: &'static str,
    },
    /// A window longer than the model has positions.
    #[error(
        "a window of {window} tokens is longer than the model's {positions} positions; use --window {positions} or less"
    )]
    WindowTooLong {
        /// Tokens in a window.
        window: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// A beginning-of-sequence token was asked for and the tokenizer has none.
    #[error(
        "a beginning-of-sequence token is needed for {needed_by}, but the tokenizer has none; {advice}"
    )]
    NoBos {
        /// The option or the item that needs it.
        needed_by: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A text that the tokenizer refuses.
    #[error("{place}: the tokenizer failed: {source}")]
    Tokenizer {
        /// Document or question.
        place: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The model failed.
    #[error("{place}: the model failed: {source}")]
    Model {
        /// Document and window, or question and choice.
        place: String,
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A loss that is not a finite number.
    #[error("{place}: the loss of token {token} is {found}; the model overflows or holds NaN")]
    NonFinite {
        /// Document and window, or question and choice.
        place: String,
        /// Index of the token in its window.
        token: usize,
        /// The loss.
        found: f64,
    },
    /// A continuation that leaves no room in the model, or has no tokens.
    #[error("{place}: the continuation has {found} tokens, expected 1 to {limit}")]
    Continuation {
        /// Question and choice.
        place: String,
        /// Its tokens.
        found: usize,
        /// Tokens that fit.
        limit: usize,
    },
    /// A context from which nothing can be written.
    #[error(
        "{place}: {new_tokens} new tokens leave no room for a context in {positions} positions, or the context is empty"
    )]
    NoRoom {
        /// The document.
        place: String,
        /// Tokens to be written.
        new_tokens: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// A sequence for which the memory allowed has no room.
    #[error(
        "{place}: a sequence of {tokens} tokens, and the memory allowed has room for {longest}; \
         allow more, or cut inputs with --max-length"
    )]
    TooLong {
        /// Document or question.
        place: String,
        /// Its tokens.
        tokens: usize,
        /// Tokens that fit.
        longest: usize,
    },
    /// A task that scores or generates continuations, on a masked language model.
    #[error(
        "task {task} needs continuations, and this is a masked language model, which answers cloze requests only; the cloze tasks are {known}", task = shown(task)
    )]
    Masked {
        /// The task.
        task: String,
        /// Tasks that such a model can be asked.
        known: String,
    },
    /// A task that asks for tokens, and a model that predicts none.
    #[error(
        "task {task} asks for tokens, and this model has no head that predicts them; it can be asked how alike sentences are ({known})", task = shown(task)
    )]
    NoHead {
        /// The task.
        task: String,
        /// Tasks that such a model can be asked.
        known: String,
    },
    /// A task that compares vectors of texts, and a model that makes none.
    #[error(
        "{place}: how this model makes one vector of a text is not known, since its modules.json is not supported; remove that file to take the mean over all tokens"
    )]
    NoVectors {
        /// The pair of texts.
        place: String,
    },
    /// Nothing was left to score.
    #[error("task {task} has no {what} to score", task = shown(task))]
    Nothing {
        /// The task.
        task: String,
        /// Tokens or questions.
        what: &'static str,
    },
    /// The caller asked to stop.
    #[error("interrupted after {done_tokens} of {total_tokens} tokens")]
    Interrupted {
        /// Tokens seen by the model.
        done_tokens: u64,
        /// Tokens of the whole task.
        total_tokens: u64,
    },
}
