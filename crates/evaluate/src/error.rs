//! Errors of an evaluation.

use crate::{LogitsFileError, RegistryError};
use linwright_data::DataError;
use linwright_data::sets::SetError;
use linwright_ops::SiteId;
use linwright_run::{JournalError, Shard, shown};
use std::error::Error;
use std::path::PathBuf;

/// An evaluation that cannot start or finish.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// An unusable data file.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An unknown task.
    #[error("no task is called \"{found}\"; {known}", found = shown(found))]
    UnknownTask {
        /// The name.
        found: String,
        /// All names, or the closest ones.
        known: String,
    },
    /// Tasks, data or options that do not fit together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An invalid task file.
    #[error("{origin}: {reason}")]
    TaskFile {
        /// Its path, or the name of a built-in task.
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
    /// A data set without data.
    #[error(
        "{origin}: the data set {name} is not on this machine; give the rows of its split {split} \
         with --data {task}:{split}=FILE", task = shown(task), name = shown(name), split = shown(split)
    )]
    NoRows {
        /// Path of the task file, or the name of a built-in task.
        origin: String,
        /// The task.
        task: String,
        /// The data set.
        name: String,
        /// The split.
        split: String,
    },
    /// A data set that is not cached and cannot be downloaded.
    #[error(
        "{origin}: {source}; or give the rows of its split {split} with --data {task}:{split}=FILE", task = shown(task), split = shown(split)
    )]
    Set {
        /// Path of the task file, or the name of a built-in task.
        origin: String,
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The cause.
        source: Box<SetError>,
    },
    /// A file of log-probabilities that does not fit.
    #[error(transparent)]
    LogitsFile(#[from] LogitsFileError),
    /// An unusable journal of an interrupted evaluation.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A journal whose answers do not match the requests, despite its fingerprint.
    #[error(
        "the journal's answers to batch {batch} do not match the requests of this evaluation; remove the journal"
    )]
    JournalAnswers {
        /// Number of the batch, from 0.
        batch: usize,
    },
    /// Two journals of one evaluation with different answers.
    #[error(
        "{}: its answers to batch {batch} differ from those of another journal of this evaluation; evaluate this shard again on the same program and processor", path.display()
    )]
    Contradiction {
        /// The second journal.
        path: PathBuf,
        /// Number of the batch, from 0.
        batch: usize,
    },
    /// A shard without a journal for its results.
    #[error(
        "the results of shard {shard} are kept only in a journal, and this evaluation has none; name an output file"
    )]
    ShardWithoutJournal {
        /// The shard.
        shard: Shard,
    },
    /// Results of which other shards are missing.
    #[error(
        "{known} of {total} batches are known; evaluate the other shards and merge their journals"
    )]
    Incomplete {
        /// Number of known batches.
        known: usize,
        /// Number of all batches.
        total: usize,
    },
    /// An invalid combination of window and stride.
    #[error("window {window} and stride {stride} do not fit: {reason}")]
    BadProtocol {
        /// Window in tokens.
        window: usize,
        /// Stride in tokens.
        stride: usize,
        /// The violated condition.
        reason: &'static str,
    },
    /// A window with more tokens than the model has positions.
    #[error(
        "a window of {window} tokens is longer than the model's {positions} positions; use --window {positions} or less"
    )]
    WindowTooLong {
        /// Window in tokens.
        window: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// A beginning-of-sequence token was requested and the tokenizer has none.
    #[error(
        "a beginning-of-sequence token is needed for {needed_by}, but the tokenizer has none; {advice}"
    )]
    NoBos {
        /// The option or item that needs it.
        needed_by: String,
        /// Advice for the user.
        advice: &'static str,
    },
    /// A text that the tokenizer rejects.
    #[error("{place}: the tokenizer failed: {source}")]
    Tokenizer {
        /// Document or question.
        place: String,
        /// The error of the tokenizer.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The model failed.
    #[error("{place}: the model failed: {source}")]
    Model {
        /// Document and window, or question and choice.
        place: String,
        /// The error of the model.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A non-finite loss.
    #[error(
        "{place}: the loss of token {token} is {found}; the model overflows or has NaN weights"
    )]
    NonFinite {
        /// Document and window, or question and choice.
        place: String,
        /// Index of the token in its window.
        token: usize,
        /// The loss.
        found: f64,
    },
    /// A metric that overflows although the losses are finite.
    #[error(
        "{task}: {metric} is {found}: its losses are finite, and their exponential overflows; the \
         weights of the model are damaged"
    )]
    Overflow {
        /// The task.
        task: String,
        /// The metric.
        metric: String,
        /// Its value.
        found: f64,
    },
    /// A continuation that is empty or longer than the model's context.
    #[error("{place}: the continuation has {found} tokens, expected 1 to {limit}")]
    Continuation {
        /// Question and choice.
        place: String,
        /// Its number of tokens.
        found: usize,
        /// Largest number of tokens.
        limit: usize,
    },
    /// An empty context, or one without room for new tokens.
    #[error(
        "{place}: {new_tokens} new tokens leave no room for a context in {positions} positions, or the context is empty"
    )]
    NoRoom {
        /// The document.
        place: String,
        /// Number of tokens to generate.
        new_tokens: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// A sequence that does not fit in the allowed memory.
    #[error(
        "{place}: a sequence of {tokens} tokens, the allowed memory has room for {longest}; \
         allow more, or cut inputs with --max-length"
    )]
    TooLong {
        /// Document or question.
        place: String,
        /// Its number of tokens.
        tokens: usize,
        /// Largest number of tokens.
        longest: usize,
    },
    /// A task that scores or generates continuations, on a masked language model.
    #[error(
        "task {task} needs continuations, and this is a masked language model, which answers cloze requests only; the cloze tasks are {known}", task = shown(task)
    )]
    Masked {
        /// The task.
        task: String,
        /// Tasks that such a model supports.
        known: String,
    },
    /// A task that needs token predictions, on a model without a head.
    #[error(
        "task {task} needs token predictions, but this model has no head for them; sentence similarity is possible ({known})", task = shown(task)
    )]
    NoHead {
        /// The task.
        task: String,
        /// Tasks that such a model supports.
        known: String,
    },
    /// A task that compares embeddings, on a model without pooling.
    #[error("{place}: the model's files name no supported pooling of a text into one vector")]
    NoVectors {
        /// The pair of texts.
        place: String,
    },
    /// A task without correct answers, where text with answers is needed.
    #[error(
        "task {task} has no correct answers to append to its documents", task = shown(task)
    )]
    NoAnswers {
        /// The task.
        task: String,
    },
    /// No items to score.
    #[error("task {task} has no {what} to score", task = shown(task))]
    Nothing {
        /// The task.
        task: String,
        /// Tokens or questions.
        what: &'static str,
    },
    /// Evaluation cancelled by the caller.
    #[error("interrupted after {done_tokens} of {total_tokens} tokens")]
    Interrupted {
        /// Tokens processed by the model.
        done_tokens: u64,
        /// Tokens in total.
        total_tokens: u64,
    },
}

impl EvaluationError {
    /// Whether the same evaluation would fail again: the model gives numbers that are not finite,
    /// or fails on an input.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Model { .. } | Self::NonFinite { .. } | Self::Overflow { .. })
    }

    /// The error of a model in which other operators stand at some sites.
    #[must_use]
    pub fn with<'a>(self, sites: impl Iterator<Item = &'a SiteId>) -> Self {
        let names: Vec<&str> = sites.map(|site| site.0.as_str()).collect();
        match self {
            Self::Overflow { task, metric, found } if !names.is_empty() => {
                let task = format!("{task} with other operators at {}", names.join(", "));
                Self::Overflow { task, metric, found }
            }
            other => other,
        }
    }
}
