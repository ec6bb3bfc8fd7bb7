//! The documents that a search scores: those of a task, or windows of a text.

use super::accuracy::Blocks;
use super::{Searched, Splits};
use crate::LmError;
use linwright_compress::CompressError;
use linwright_evaluate::{
    EvaluationError, Hooks, LanguageModel, LanguageModels, Metric, Prepared, RunOptions, Sequence,
    Task, TaskResult,
};
use linwright_model::tokenizer::{Bos, Tokenizer};
use serde::{Deserialize, Serialize};

/// Number of blocks of a chunk, and smallest number of documents in one: a check ends between
/// blocks.
const BLOCKS_OF_CHUNK: usize = 8;
const SMALLEST_BLOCK: usize = 4;

/// Windows of a block.
const WINDOWS_AT_ONCE: usize = 8;

fn wrong(reason: impl Into<String>) -> LmError {
    LmError::Search { reason: reason.into() }
}

/// Name of a metric that is 1 or 0 for each document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricName {
    /// Its name.
    pub name: String,
    /// Name of the filter of the answers.
    pub filter: String,
}

impl MetricName {
    /// The metric asked for; otherwise `acc_norm`, or `acc`, or the first one.
    ///
    /// # Errors
    /// [`LmError::Search`] if there is no such metric, or lower is better.
    pub fn of(result: &TaskResult, asked: Option<&str>) -> Result<Self, LmError> {
        let found = match asked {
            Some(name) => result.metric(name),
            None => ["acc_norm", "acc"]
                .iter()
                .find_map(|name| result.metric(name))
                .or(result.metrics.first()),
        };
        let known = || {
            let names: Vec<&str> = result.metrics.iter().map(|m| m.name.as_str()).collect();
            names.join(", ")
        };
        let found = found.ok_or_else(|| {
            let asked = asked.unwrap_or_default();
            wrong(format!("{} has no metric {asked}; it has {}", result.task, known()))
        })?;
        if !found.higher_is_better {
            let (task, name) = (&result.task, &found.name);
            return Err(wrong(format!(
                "{name} of {task} is no share of right answers; give --evaluation metric=NAME with one \
                 of {}",
                known()
            )));
        }
        Ok(Self { name: found.name.clone(), filter: found.filter.clone() })
    }

    fn in_result<'r>(&self, result: &'r TaskResult) -> Option<&'r Metric> {
        let is_own = |metric: &&Metric| metric.name == self.name && metric.filter == self.filter;
        result.metrics.iter().find(is_own)
    }

    /// Number of right answers among `documents`.
    fn right(&self, result: &TaskResult, documents: usize) -> Result<usize, LmError> {
        let value = self.in_result(result).map_or(f64::NAN, |metric| metric.value);
        let right = value * documents as f64;
        if (right - right.round()).abs() <= 1e-6 && (0.0..=1.0).contains(&value) {
            return Ok(right.round() as usize);
        }
        Err(wrong(format!(
            "{} of {} is {value} on {documents} documents: no share of right answers; give \
             --evaluation metric=NAME with one that is 1 or 0 for each document, such as acc",
            self.name, result.task
        )))
    }
}

/// Copies of a task with the documents of each block.
pub struct TaskBlocks {
    /// Their sizes.
    pub blocks: Blocks,
    tasks: Vec<Box<dyn Task>>,
}

impl TaskBlocks {
    /// Divides the search documents of a task.
    ///
    /// # Errors
    /// [`LmError::Search`] if the task cannot be divided.
    pub fn new(task: &dyn Task, splits: &Splits) -> Result<Self, LmError> {
        let (mut documents, mut tasks) = (Vec::new(), Vec::new());
        let mut add = |places: std::ops::Range<usize>| {
            let start = documents.len();
            let size = places.len().div_ceil(BLOCKS_OF_CHUNK).max(SMALLEST_BLOCK);
            for first in places.clone().step_by(size) {
                let indices = splits.documents(first..places.end.min(first + size));
                documents.push(indices.len());
                tasks.push(part(task, &indices)?);
            }
            Ok::<_, LmError>(start..documents.len())
        };
        let chunks = [add(splits.chunk(0))?, add(splits.chunk(1))?, add(splits.chunk(2))?];
        add(3 * splits.chunk..splits.search)?;
        Ok(Self { blocks: Blocks { documents, chunks }, tasks })
    }

    /// The blocks with their requests encoded.
    ///
    /// # Errors
    /// [`LmError::Evaluation`].
    pub fn prepared(
        &self,
        model: &dyn LanguageModel,
        options: &RunOptions,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Prepared<'_>>, LmError> {
        let tasks = self.tasks.iter().map(AsRef::as_ref);
        let prepared = tasks.map(|task| Prepared::new(task, model, options, cancelled));
        Ok(prepared.collect::<Result<_, EvaluationError>>()?)
    }
}

/// A task with some of its documents.
///
/// # Errors
/// [`LmError::Search`] if the task cannot be divided.
pub fn part(task: &dyn Task, indices: &[usize]) -> Result<Box<dyn Task>, LmError> {
    task.only(indices).ok_or_else(|| {
        wrong(format!("the documents of task {} cannot be divided; give another task", task.id()))
    })
}

/// The result of a model on the documents of a block.
pub(super) fn result_of(
    block: &Prepared<'_>,
    models: &dyn LanguageModels,
    cancelled: &dyn Fn() -> bool,
) -> Result<TaskResult, LmError> {
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled, journal: None };
    let found = block.evaluate_each(models, &mut hooks, |result| result)?.complete()?;
    found.into_iter().next().ok_or_else(|| wrong("no model was evaluated"))
}

/// Number of right answers of a model in a block.
pub(super) fn right_in(
    block: &Prepared<'_>,
    models: &dyn LanguageModels,
    metric: &MetricName,
    cancelled: &dyn Fn() -> bool,
) -> Result<usize, LmError> {
    metric.right(&result_of(block, models, cancelled)?, block.items())
}

/// Windows of a text, in blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWindows {
    windows: Vec<Vec<u32>>,
}

impl TextWindows {
    /// Joins rows by blank lines and cuts the text in windows of so many tokens; what is left at
    /// the end is not used. Each window begins with the beginning-of-sequence token by policy, in
    /// place of its own first token, as in llama.cpp.
    ///
    /// # Errors
    /// [`LmError::Search`] if there is no whole window, or the tokenizer fails.
    pub fn new(
        rows: &[&str],
        tokenizer: &Tokenizer,
        bos: Bos,
        length: usize,
    ) -> Result<Self, LmError> {
        let failed = |error| wrong(format!("the text cannot be encoded: {error}"));
        let first = tokenizer.first(bos).map_err(failed)?;
        let tokens = tokenizer.encode_document(&rows.join("\n\n"), bos).map_err(failed)?;
        let mut windows: Vec<Vec<u32>> = tokens.chunks_exact(length).map(<[u32]>::to_vec).collect();
        if let Some(first) = first {
            windows.iter_mut().for_each(|window| window[0] = first);
        }
        if windows.is_empty() || length < 2 {
            let (rows, count) = (rows.len(), tokens.len());
            return Err(wrong(format!(
                "{rows} rows of the text have {count} tokens, at least one window of {length} is \
                 needed; give more text, or shorter windows"
            )));
        }
        Ok(Self { windows })
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.windows.len().div_ceil(WINDOWS_AT_ONCE)
    }

    /// Number of windows.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Number of input tokens.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.windows.iter().map(|window| window.len() - 1).sum()
    }

    /// Sum of negative log-likelihoods of the tokens of a block, but of the first of each window.
    pub(super) fn loss(&self, block: usize, searched: &Searched<'_>) -> Result<f64, LmError> {
        let windows = self.windows.chunks(WINDOWS_AT_ONCE).nth(block).unwrap_or_default();
        let sequences: Vec<Sequence<'_>> =
            windows.iter().map(|tokens| Sequence { tokens, first_counted: 1, shared: 0 }).collect();
        let scored = searched
            .score_each(&sequences, &vec![None; sequences.len()])
            .map_err(CompressError::Network)?;
        let all = scored.iter().flat_map(|scored| scored.scores.iter().flatten());
        let loss: f64 = all.map(|score| score.nll).sum();
        if loss.is_finite() {
            return Ok(loss);
        }
        Err(wrong(format!("the loss of windows from {} on is {loss}", block * WINDOWS_AT_ONCE)))
    }

    /// Perplexity of a model.
    pub(super) fn perplexity(
        &self,
        searched: &Searched<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<f64, LmError> {
        let mut sum = 0.0;
        for block in 0..self.blocks() {
            if cancelled() {
                return Err(CompressError::Interrupted.into());
            }
            sum += self.loss(block, searched)?.max(0.0);
        }
        let perplexity = (sum / self.rows() as f64).exp();
        match perplexity.is_finite() {
            true => Ok(perplexity),
            false => Err(wrong(format!("the perplexity is {perplexity}: its losses overflow"))),
        }
    }
}
