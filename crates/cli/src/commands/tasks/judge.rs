//! Evaluation of a model before and after its edits, in one run.

use crate::commands::eval::{render, render_comparisons};
use crate::commands::print;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::source::OpenModel;
use linwright::compress::intervention::{Variant, Variants};
use linwright::evaluate::{
    Comparison, Hooks, RunOptions, Subject, Task, TaskResult, check_model, compare, evaluate_each,
};
use linwright::jobs::EvaluationOptions;
use linwright::model::Transformer;
use linwright::ops::SiteId;
use linwright::run::Monitor;

/// Results of the dense and of the edited model.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) dense: Vec<TaskResult>,
    pub(crate) results: Vec<TaskResult>,
    pub(crate) comparisons: Vec<Comparison>,
}

impl Judged {
    /// Prints the metrics, if any, and their paired differences.
    pub(crate) fn show(&self) -> Result<(), Failure> {
        if self.results.is_empty() {
            return Ok(());
        }
        print(&format!("\n{}", render(&self.results, Some(&self.dense))))?;
        match self.comparisons.is_empty() {
            true => {
                print("\nno paired comparison: the tasks have a single item, or no scores per item")
            }
            false => print(&format!("\n{}", render_comparisons(&self.comparisons))),
        }
    }
}

/// Refuses tasks that the model does not support, before any work.
pub(crate) fn check_tasks<'a>(
    tasks: impl IntoIterator<Item = &'a dyn Task>,
    model: &OpenModel,
) -> Result<(), Failure> {
    for task in tasks {
        let subject = Subject::new(&model.loaded.decoder, model.tokenizer()?);
        check_model(task, &subject.with_sentence(model.sentence()))?;
    }
    Ok(())
}

/// Scores the dense model, and the model with the operators that an edited copy has in `sites`.
pub(crate) fn before_and_after<'s>(
    tasks: &[Box<dyn Task>],
    asked: &EvaluationOptions,
    model: &OpenModel,
    edited: &Transformer,
    sites: impl Iterator<Item = &'s SiteId>,
    console: &mut Console,
) -> Result<Judged, Failure> {
    let mut judged = Judged::default();
    if tasks.is_empty() {
        return Ok(judged);
    }
    let variants = [Variant::default(), Variant::of(edited, sites)];
    let max_batch_tokens = asked.batch_size.tokens();
    let options = RunOptions { max_batch_tokens, ..RunOptions::default() };
    for task in tasks {
        console.step(&format!("{}: before and after", task.id()));
        let decoder = &model.loaded.decoder;
        let both = Variants::new(decoder, model.tokenizer()?, &variants, asked.max_length)
            .with_sentence(model.sentence());
        let mut hooks = Hooks {
            progress: &mut |p| console.progress(p.done_tokens, p.total_tokens),
            cancelled: &interrupt::is_requested,
            journal: None,
        };
        let found = evaluate_each(task.as_ref(), &both, &options, &mut hooks, |result| result)?;
        let mut found = found.complete()?.into_iter();
        judged.dense.extend(found.next());
        judged.results.extend(found.next());
    }
    judged.comparisons = compare(&judged.results, &judged.dense);
    Ok(judged)
}
