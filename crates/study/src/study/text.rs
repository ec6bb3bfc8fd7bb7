//! Studies of language models: calibration text, and tasks.

use super::{StudyError, Trial};
use crate::recipe::{CalibrationSource, Recipe};
use linwright_data::{CalibrationText, Corpus, Overlap};
use linwright_evaluate as evaluate;
use linwright_evaluate::{
    EvaluationError, Hooks, Progress, RunOptions, Subject, Task, TaskResult, overlap,
};
use linwright_model::checkpoint::LoadedModel;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Split, Transformer, Windows, WindowsError};
use linwright_ops::Examples;
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use std::cell::RefCell;

/// A language model, calibration text and tasks.
pub struct TextTrial<'a> {
    /// The original model.
    pub model: &'a LoadedModel,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Calibration text.
    pub calibration: &'a Corpus,
    /// Number of tokens after which its documents are cut, if they are.
    pub longest: Option<usize>,
    /// How windows are made of it.
    pub source: &'a CalibrationSource,
    /// Tasks of the evaluation.
    pub tasks: &'a [Box<dyn Task>],
}

impl TextTrial<'_> {
    /// Windows of a seed: documents in an order drawn with it, encoded and divided.
    ///
    /// # Errors
    /// [`WindowsError`] if a document cannot be encoded, there is too little text, or a window is
    /// too long for the model.
    pub fn windows(&self, seed: u64) -> Result<Windows, WindowsError> {
        let source = self.source;
        let mut order: Vec<usize> = (0..self.calibration.documents.len()).collect();
        RngKey::new(seed).fold("calibration documents").stream().shuffle(&mut order);
        let documents = order.into_iter().map(|index| &self.calibration.documents[index]);
        let tokens = Windows::documents(
            documents.map(|document| (document.line, document.text.as_str())),
            self.tokenizer,
            source.bos,
            source.num_tokens,
            self.longest,
        )?;
        let first =
            self.tokenizer.first(source.bos).map_err(|source| WindowsError::First { source })?;
        let (length, most) = (source.seq_len, source.num_tokens);
        let windows = Windows::new(&tokens, first, length, most, source.split)?;
        windows.check_positions(self.model.decoder.config().max_positions)?;
        Ok(windows)
    }
}

impl Trial for TextTrial<'_> {
    type Network = Transformer;

    fn network(&self) -> &Transformer {
        &self.model.decoder
    }

    fn hash(&self) -> &str {
        &self.model.hash
    }

    fn calibration_sha256(&self) -> &str {
        &self.calibration.sha256
    }

    fn examples(&self, seed: u64) -> Result<Box<dyn Examples<Batch>>, StudyError> {
        Ok(Box::new(self.windows(seed)?))
    }

    fn scores(
        &self,
        decoder: &Transformer,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, StudyError> {
        Ok(measure(decoder, self.tokenizer, self.tasks, monitor)?)
    }
}

/// Removes items that overlap with the calibration text from the tasks, if the recipe says so;
/// returns notes for the report.
///
/// # Errors
/// If a task has no items left.
pub fn leave_out_overlap(
    recipe: &Recipe,
    calibration: &Corpus,
    tasks: &mut [Box<dyn Task>],
) -> Result<Vec<String>, StudyError> {
    let mut notes = Vec::new();
    if !recipe.eval.exclude_overlap {
        return Ok(notes);
    }
    let calibration = CalibrationText::new(std::slice::from_ref(calibration));
    for task in tasks {
        let Overlap { task, words, documents, overlapping, .. } =
            evaluate::leave_out_overlap(task.as_mut(), &calibration)?;
        if overlapping > 0 {
            notes.push(format!(
                "{} of {documents} documents of task {task} are scored; the other {overlapping} are left out, since they have \
                 {words} words in a row, or all of theirs, in common with the calibration text",
                documents - overlapping
            ));
        }
    }
    Ok(notes)
}

/// Notes on the data for the report.
#[must_use]
pub fn notes(recipe: &Recipe, inputs: &TextTrial<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if recipe.calibration.split == Split::RotorPaper {
        notes.push(
            "calibration windows overlap and are split at random, as in arXiv 2507.11688: most validation tokens are also training tokens".to_owned(),
        );
    }
    let calibration = CalibrationText::new(std::slice::from_ref(inputs.calibration));
    for task in inputs.tasks {
        let Overlap { task, words, documents, overlapping, first } =
            overlap(task.as_ref(), &calibration);
        if let Some(one) = first.first() {
            notes.push(format!(
                "{overlapping} of {documents} documents of task {task} have {words} words in a row, or all of \
                 theirs, in common with the calibration text, which flatters the figures; the first is {}, in {}",
                one.document, one.calibration
            ));
        }
    }
    notes
}

/// Evaluates all tasks on one model.
///
/// # Errors
/// [`EvaluationError`].
fn measure(
    decoder: &Transformer,
    tokenizer: &Tokenizer,
    tasks: &[Box<dyn Task>],
    monitor: &mut dyn Monitor,
) -> Result<Vec<TaskResult>, EvaluationError> {
    let model = Subject::new(decoder, tokenizer);
    let monitor = RefCell::new(monitor);
    let mut results = Vec::new();
    for task in tasks {
        let mut hooks = Hooks {
            progress: &mut |p: Progress| {
                monitor.borrow_mut().progress(p.done_tokens, p.total_tokens);
            },
            cancelled: &|| monitor.borrow().interrupted(),
            journal: None,
        };
        let outcome =
            evaluate::evaluate(task.as_ref(), &model, &RunOptions::default(), &mut hooks)?;
        let result = outcome.complete()?;
        result.check_finite()?;
        results.push(result);
    }
    Ok(results)
}
