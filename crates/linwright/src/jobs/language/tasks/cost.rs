//! What the evaluations of a job cost, before any is made.

use crate::jobs::kit::outcome::{page, table, text};
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::evaluation::EvaluationOptions;
use linwright_evaluate::{RunOptions, Subject, Task, tokens_of, tokens_per_second};
use linwright_lm::text::windows_without_text;
use linwright_model::Transformer;
use linwright_report::number::{self, grouped};
use linwright_report::{Document, Report};
use linwright_run::Monitor;
use serde::{Deserialize, Serialize};

/// Multiply-adds that timing a model for an estimate may take in one pass: some seconds on a
/// laptop.
const TIMED_WORK: u64 = 300_000_000_000;
/// Tokens of the shortest window that is timed.
const LEAST_TOKENS: usize = 16;

/// Estimated evaluations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvaluationCost {
    /// Evaluations on each task.
    pub(crate) tasks: Vec<TaskCost>,
    /// Speed of the model.
    pub(crate) tokens_per_second: f64,
    /// Time of all evaluations.
    pub(crate) seconds: f64,
}

/// Estimated evaluations on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskCost {
    task: String,
    /// Tokens of its requests, generated ones included.
    tokens: u64,
    /// Models that are evaluated on it, at most.
    models: u64,
}

impl Report for EvaluationCost {
    const KIND: &'static str = "evaluation-cost";

    fn document(&self) -> Document {
        let row =
            |cost: &TaskCost| vec![cost.task.clone(), grouped(cost.tokens), grouped(cost.models)];
        let rows = self.tasks.iter().map(row).collect();
        let lines = [
            format!(
                "time of the evaluations: about {} at {:.0} tokens/s",
                number::seconds(self.seconds),
                self.tokens_per_second
            ),
            "without loading and cutting; models that share layers take less".to_owned(),
        ];
        page(vec![table(&["task", "tokens", "models"], rows), text(lines)])
    }
}

/// The cost of evaluating so many models of the size of `model` on each task. The time is that at
/// the speed at which `model` scores text now: generated tokens take longer, and models that share
/// layers less.
pub(crate) fn cost(
    tasks: &[(&dyn Task, u64)],
    model: &OpenModel,
    asked: &EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<EvaluationCost, Failure> {
    let costs = costs(tasks, model, asked, session)?;
    session.finish();
    Ok(costs)
}

/// The seconds that scoring so many models on all tasks takes.
pub(crate) fn seconds(
    tasks: &[Box<dyn Task>],
    models: u64,
    model: &OpenModel,
    asked: &EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<f64, Failure> {
    if tasks.is_empty() {
        return Ok(0.0);
    }
    let all: Vec<(&dyn Task, u64)> = tasks.iter().map(|task| (task.as_ref(), models)).collect();
    Ok(costs(&all, model, asked, session)?.seconds)
}

fn costs(
    tasks: &[(&dyn Task, u64)],
    model: &OpenModel,
    asked: &EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<EvaluationCost, Failure> {
    session.step("counting tokens");
    let decoder = &model.loaded.decoder;
    let options =
        RunOptions { max_batch_tokens: asked.batch_size.tokens(), ..RunOptions::default() };
    let mut costs = Vec::new();
    for (task, models) in tasks {
        let subject = Subject::new(decoder, model.tokenizer()?)
            .with_max_length(asked.max_length)
            .with_sentence(model.sentence());
        let tokens = tokens_of(*task, &subject, &options, session.cancelled())?;
        costs.push(TaskCost { task: task.id(), tokens, models: *models });
    }
    session.step("timing the model");
    let speed = tokens_per_second(&[decoder], &timed_window(decoder), session.cancelled())?[0];
    let seconds = costs.iter().map(|cost| (cost.tokens * cost.models) as f64).sum::<f64>() / speed;
    Ok(EvaluationCost { tasks: costs, tokens_per_second: speed, seconds })
}

/// The window without text that studies time models on, shorter if the model is large: an estimate
/// shall not take minutes.
fn timed_window(model: &Transformer) -> Vec<Vec<u32>> {
    let affordable = usize::try_from(TIMED_WORK / model.config().parameters().max(1));
    let tokens = affordable.unwrap_or(usize::MAX).max(LEAST_TOKENS);
    let mut windows = windows_without_text(model);
    windows.iter_mut().for_each(|window| window.truncate(tokens));
    windows
}
