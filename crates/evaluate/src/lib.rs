//! Scores a language model on tasks.
//!
//! A [`Task`] lists [`Item`]s, each a few [`Request`]s; [`evaluate`] answers them with a
//! [`LanguageModel`], and the task turns the [`Reply`]s into a [`TaskResult`]. Requests are the
//! only interface between tasks and models, so a task never sees a tensor and a model never sees a
//! metric.
//!
//! A new task is one file and one line of the list below, [`TASKS`]. The registry, [`entries`], has
//! all tasks: [`open_tasks`] opens those that a command names, [`open_parts`] divides one.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

mod answered;
mod asked;
mod beside;
mod cloze;
mod compare;
mod decoder;
mod divergence;
mod division;
mod error;
mod harness;
mod infill;
mod journal;
mod language_model;
mod laser;
mod logits_file;
mod overlap;
mod packed;
mod pair;
mod paired;
mod provenance;
mod questions;
mod registry;
pub mod report;
mod request;
mod result;
mod result_json;
pub mod room;
mod runner;
mod sentences;
mod similarity;
mod suitable;
mod task;
mod throughput;
mod top_tokens;
mod with_file;

#[cfg(test)]
mod tests;

macro_rules! tasks {
    ($($(#[$attribute:meta])* $module:ident;)*) => {
        $($(#[$attribute])* mod $module;)*

        /// The tasks of one data file.
        pub const TASKS: &[FileTask] = &[$($(#[$attribute])* $module::ENTRY),*];
    };
}

tasks! {
    perplexity;
    multiple_choice;
    completion;
    needle;
    // Shows that a new task is one file and one line here.
    #[cfg(test)]
    dummy;
}

pub use answered::{Answered, AnsweredDocuments, AnsweredTask, answered_tasks};
pub use asked::answer;
pub use beside::{Beside, LastOutputs};
pub use cloze::ClozeBatch;
pub use compare::{Comparison, GroupComparisons, ItemScores, NORMAL_95, compare, compare_groups};
pub use completion::Completion;
pub use decoder::Subject;
pub use divergence::{KL_MEAN, SAME_TOP, TokenDivergences};
pub use division::first_fifth;
pub use error::EvaluationError;
pub use harness::{ChatPrompts, DataFile, HarnessOptions, HarnessTask, STANDARD_TASKS, Selection};
pub use harness::{StandardTask, TaskGroup, Validated, prompt_of_text, python_shuffle, validate};
pub use journal::{
    FileJournal, Journal, Merged, journal_fingerprint, merge_journals, requests_digest,
};
pub use language_model::{
    Generated, Infilled, LanguageModel, LanguageModels, MaskedInput, ModelFailure, Scored,
    Sequence, TopLogprobs, TopLogprobsRequest,
};
pub use laser::{LASER_TASKS, LaserOptions, LaserSet, LaserTask, Scoring, Split};
pub use linwright_model::TokenScore;
pub use linwright_model::tokenizer::Bos;
pub use logits_file::{LogitsFile, LogitsFileError, LogitsWriter};
pub use multiple_choice::MultipleChoice;
pub use overlap::{leave_out_overlap, overlap};
pub use packed::{LastOutput, Packed, Wanted, last_stages};
pub use perplexity::{Join, NamedProtocol, PROTOCOLS, Protocol, TextPerplexity};
pub use provenance::{Build, add_results, file_of_task, provenance, provenance_of};
pub use registry::{
    OpenOptions, OpenTasks, Parts, RegistryError, TaskData, TaskEntry, TaskOption, TaskRequest,
    canonical_task, entries, entry, open_parts, open_tasks,
};
pub use request::{
    Cloze, Cut, DetailRequest, Details, Generation, Item, Reply, Request, Sampling, WindowLoss,
};
pub use result::{Counts, DataUsed, GroupResult, Metric, Sample, TaskResult};
pub use result_json::{EvaluationRecord, ParameterCounts, Prompting, result_json};
pub use runner::{
    Answer, BatchAnswers, Hooks, Outcome, Prepared, Progress, RunOptions, Several, check_model,
    evaluate, evaluate_each, tokens_of, windows_of,
};
pub use sentences::{SENTENCE_TASKS, SentencePairs, SentenceTask};
pub use similarity::Pairs;
pub use task::{FileTask, OpenTask, Task, TaskOptions, is_text, open_task};
pub use throughput::tokens_per_second;
pub use with_file::{Compared, Recorded};
