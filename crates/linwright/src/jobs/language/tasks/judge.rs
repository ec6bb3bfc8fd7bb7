//! Evaluation of a model before and after its edits, in one run.

use crate::jobs::kit::Failure;
use crate::jobs::kit::Session;
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::language::eval::{comparison_table, metric_table};
use crate::jobs::language::evaluation::EvaluationOptions;
use linwright_evaluate::{
    Comparison, EvaluationError, Hooks, LanguageModel, LanguageModels, Metric, RunOptions, Several,
    Subject, Task, TaskResult, check_model, compare, evaluate_each,
};
use linwright_lm::cuts::{Variant, Variants};
use linwright_model::Stored;
use linwright_ops::SiteId;
use linwright_report::Block;
use linwright_run::Monitor;
use serde::{Deserialize, Serialize};

/// Perplexity, as a multiple of that of the original model, from which a model is called damaged.
const DAMAGED: f64 = 2.0;

/// Said where nothing was asked to judge by: a model of fewer parameters may be of no use.
const NOT_JUDGED: &str = "quality: not measured; --text FILE compares perplexity and divergence \
                          with the original, --tasks NAME scores";

/// Results of the dense and of the edited model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) dense: Vec<TaskResult>,
    pub(crate) results: Vec<TaskResult>,
    pub(crate) comparisons: Vec<Comparison>,
}

impl Judged {
    /// Metrics and their paired differences, or that there are none.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        if self.results.is_empty() {
            return vec![text([NOT_JUDGED])];
        }
        let differences = match self.comparisons.is_empty() {
            true => text([
                "no paired comparison: the tasks have a single item or window, or no scores per item",
            ]),
            false => comparison_table(&self.comparisons),
        };
        let mut blocks = vec![metric_table(&self.results, Some(&self.dense)), differences];
        blocks.extend(self.damage().map(|damage| text([damage])));
        blocks
    }

    /// What is said of a model whose perplexity is a multiple of that of the original, and what may
    /// help.
    fn damage(&self) -> Option<String> {
        let mut worst: Option<(f64, &TaskResult)> = None;
        for (dense, result) in self.dense.iter().zip(&self.results) {
            let is_perplexity = |metric: &&Metric| metric.name.ends_with("token_perplexity");
            for own in result.metrics.iter().filter(is_perplexity) {
                let before = dense.metrics.iter().find(|other| other.name == own.name);
                let times = before.map_or(1.0, |before| own.value / before.value);
                if times >= worst.map_or(DAMAGED, |(most, _)| most) {
                    worst = Some((times, result));
                }
            }
        }
        let (times, TaskResult { task, .. }) = worst?;
        Some(format!(
            "this model is damaged: its perplexity on {task} is {times:.1} times that of the \
             original; more calibration text, a larger size, training of the replaced layers \
             (`compress --recover`) or another method (`linwright compare`) may help"
        ))
    }
}

/// Refuses tasks that the model does not support, before any work.
pub(crate) fn check_tasks<'a>(
    tasks: impl IntoIterator<Item = &'a dyn Task>,
    model: &OpenModel,
    asked: &EvaluationOptions,
) -> Result<(), Failure> {
    for task in tasks {
        let subject = Subject::new(&model.loaded.decoder, model.tokenizer()?)
            .with_max_length(asked.max_length);
        let checked = check_model(task, &subject.with_sentence(model.sentence()));
        checked.map_err(|error| match (&error, &model.loaded.sentence) {
            (EvaluationError::NoVectors { .. }, Err(reason)) => {
                let reason = reason.clone();
                Failure::from(error).hint(reason)
            }
            _ => error.into(),
        })?;
    }
    Ok(())
}

/// Scores the dense and an edited model. If both have the same shape and differ at `sites` alone,
/// stages before the first of them are computed once.
pub(crate) fn before_and_after(
    tasks: &[Box<dyn Task>],
    asked: &EvaluationOptions,
    model: &OpenModel,
    (edited, sites): (&Stored, &[&SiteId]),
    session: &mut Session<'_>,
) -> Result<Judged, Failure> {
    let mut judged = Judged::default();
    if tasks.is_empty() {
        return Ok(judged);
    }
    let (decoder, tokenizer) = (&model.loaded.decoder, model.tokenizer()?);
    let subject = |decoder| {
        let subject = Subject::new(decoder, tokenizer).with_max_length(asked.max_length);
        subject.with_sentence(model.sentence())
    };
    let elsewhere = |name: &String| !sites.iter().any(|site| site.0 == *name);
    let Stored { model: edited, changed } = edited;
    if edited.config() != decoder.config() || changed.iter().any(elsewhere) {
        let [dense, edited] = [decoder, edited].map(subject);
        let both: [&dyn LanguageModel; 2] = [&dense, &edited];
        score(&Several(&both), tasks, asked, &mut judged, session)?;
    } else {
        let variants = [Variant::default(), Variant::of(edited, sites.iter().copied())];
        let both = Variants::new(decoder, tokenizer, &variants, asked.max_length);
        let both = both.with_sentence(model.sentence());
        score(&both, tasks, asked, &mut judged, session)?;
    }
    judged.dense.iter().chain(&judged.results).try_for_each(TaskResult::check_finite)?;
    judged.comparisons = compare(&judged.results, &judged.dense);
    Ok(judged)
}

/// Scores two models, the dense one first.
fn score(
    both: &dyn LanguageModels,
    tasks: &[Box<dyn Task>],
    asked: &EvaluationOptions,
    judged: &mut Judged,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    let max_batch_tokens = asked.batch_size.tokens();
    let options = RunOptions { max_batch_tokens, divergence: true, ..RunOptions::default() };
    let cancelled = session.cancelled();
    for (index, task) in tasks.iter().enumerate() {
        let (id, total) = (task.id(), tasks.len());
        session.step(&format!("{id}: before and after ({} of {total})", index + 1));
        let mut hooks = Hooks {
            progress: &mut |p| session.progress(p.done_tokens, p.total_tokens),
            cancelled,
            journal: None,
        };
        let found = evaluate_each(task.as_ref(), both, &options, &mut hooks, |result| result)?;
        let mut found = found.complete()?.into_iter();
        judged.dense.extend(found.next());
        judged.results.extend(found.next());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_twice_the_perplexity_is_called_damaged() {
        let of = |perplexity: f64| TaskResult {
            task: "text".into(),
            metrics: vec![
                Metric::new("nll_nats_per_token", perplexity.ln(), None, false),
                Metric::new("token_perplexity", perplexity, None, false),
            ],
            ..TaskResult::default()
        };
        let told = |dense: f64, edited: f64| {
            let (dense, results) = (vec![of(5.0), of(dense)], vec![of(5.5), of(edited)]);
            Judged { dense, results, comparisons: Vec::new() }.damage()
        };
        assert_eq!((told(20.0, 39.9), told(20.0, 3.0)), (None, None));
        let broken = told(20.0, 68.0).expect("it is damaged");
        assert!(broken.contains("on text is 3.4 times that of the original"), "{broken}");
        assert!(broken.contains("calibration text") && broken.contains("--recover"), "{broken}");
    }
}
