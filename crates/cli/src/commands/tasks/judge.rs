//! Evaluation of a model before and after its edits, in one run.

use super::TaskArgs;
use crate::commands::eval::{render, render_comparisons};
use crate::commands::print;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::source::{Place, sentence_of};
use linwright::compress::intervention::{Variant, Variants};
use linwright::evaluate::{
    Comparison, Hooks, RunOptions, Subject, Task, TaskResult, check_model, compare, evaluate_each,
};
use linwright::model::Transformer;
use linwright::model::checkpoint::LoadedModel;
use linwright::model::tokenizer::Tokenizer;
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

/// The tokenizer of the model to evaluate.
fn tokenizer<'a>(loaded: &'a LoadedModel, place: &Place) -> Result<&'a Tokenizer, Failure> {
    loaded.tokenizer.as_ref().ok_or_else(|| {
        Failure::general(format!("{} has no tokenizer.json", place.name))
            .hint("text can only be scored with the model's tokenizer")
    })
}

/// Refuses tasks that the model does not support, before any work.
pub(crate) fn check_tasks<'a>(
    tasks: impl IntoIterator<Item = &'a dyn Task>,
    (loaded, place): (&LoadedModel, &Place),
) -> Result<(), Failure> {
    for task in tasks {
        let subject = Subject::new(&loaded.decoder, tokenizer(loaded, place)?);
        check_model(task, &subject.with_sentence(sentence_of(loaded, place)))?;
    }
    Ok(())
}

/// Scores the dense model, and the model with the operators that an edited copy has in `sites`.
pub(crate) fn before_and_after<'s>(
    (tasks, asked): (&[Box<dyn Task>], &TaskArgs),
    (loaded, place): (&LoadedModel, &Place),
    (edited, sites): (&Transformer, impl Iterator<Item = &'s SiteId>),
    console: &mut Console,
) -> Result<Judged, Failure> {
    let mut judged = Judged::default();
    if tasks.is_empty() {
        return Ok(judged);
    }
    let variants = [Variant::default(), Variant::of(edited, sites)];
    let options = RunOptions { max_batch_tokens: asked.batch_size, longest: None };
    for task in tasks {
        console.stage(&format!("{}: before and after", task.id()));
        let tokenizer = tokenizer(loaded, place)?;
        let both = Variants::new(&loaded.decoder, tokenizer, &variants, asked.max_length)
            .with_sentence(sentence_of(loaded, place));
        let mut hooks = Hooks {
            progress: &mut |p| console.progress(p.done_tokens, p.total_tokens),
            cancelled: &interrupt::asked,
            journal: None,
        };
        let found = evaluate_each(task.as_ref(), &both, &options, &mut hooks, |result| result)?;
        let mut found = found.into_iter();
        judged.dense.extend(found.next());
        judged.results.extend(found.next());
    }
    judged.comparisons = compare(&judged.results, &judged.dense);
    Ok(judged)
}
