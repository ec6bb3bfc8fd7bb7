//! Multiple choice by log-likelihood.
//!
//! Choice c of a question q scores ℓ(c) = log p(" " + c | q). `acc` takes the choice with the
//! largest ℓ, `acc_norm` that with the largest ℓ / characters of c, as in lm-evaluation-harness.
//! Ties are counted and go to the first choice. `log_loss` is the mean of -ℓ of the correct
//! choices; it changes with every likelihood, unlike accuracy.

use super::questions::{Questions, VERSION, likelihoods};
use super::result::accuracy;
use super::task::{keep_at, remove_at};
use super::{
    AnsweredDocuments, Bos, EvaluationError, FileTask, Item, Metric, Reply, Request, Sample, Task,
    TaskResult,
};
use linwright_data::{Question, QuestionSet};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Registry entry of this task.
pub(super) const ENTRY: FileTask = FileTask {
    name: "multiple_choice",
    summary: "accuracy of the most likely choice (acc) and of the most likely per character (acc_norm)",
    reads: &[],
    is_divided: true,
    open: |path, options| Ok(Box::new(MultipleChoice(Questions::open(path, options)?))),
};

/// The task for one set of questions.
#[derive(Clone, Debug)]
pub struct MultipleChoice(Questions);

/// Scores of one question.
#[derive(Clone, Copy)]
struct Outcome {
    acc: bool,
    acc_norm: bool,
    tie: bool,
    /// Negative log-likelihood of the correct choice in nats.
    loss: f64,
}

impl Outcome {
    fn new(question: &Question, replies: &[Reply]) -> Self {
        let scores: Vec<f64> = likelihoods(replies).map(|likelihood| likelihood.nats).collect();
        let per_character: Vec<f64> = scores
            .iter()
            .zip(&question.choices)
            .map(|(score, choice)| score / choice.chars().count() as f64)
            .collect();
        let (best, tie) = argmax(&scores);
        Self {
            acc: best == question.gold,
            acc_norm: argmax(&per_character).0 == question.gold,
            tie,
            loss: -scores[question.gold],
        }
    }

    /// A question with its scores, for comparisons and logs.
    fn sample(&self, question: &Question, place: String, replies: &[Reply]) -> Sample {
        let bit = |is: bool| f64::from(u8::from(is));
        let numbers: BTreeMap<String, f64> =
            [("acc", bit(self.acc)), ("acc_norm", bit(self.acc_norm)), ("log_loss", self.loss)]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let nats: Vec<f64> = likelihoods(replies).map(|likelihood| likelihood.nats).collect();
        let record = json!({
            "place": place, "question": question.context, "choices": question.choices,
            "target": question.gold, "log_likelihoods": nats, "band": question.group,
            "acc": bit(self.acc), "acc_norm": bit(self.acc_norm), "log_loss": self.loss,
        });
        let Value::Object(record) = record else { unreachable!("an object was written") };
        let group = question.group.clone();
        Sample { place, filter: "none".to_owned(), group, numbers, record }
    }
}

impl MultipleChoice {
    /// The questions of `set`.
    #[must_use]
    pub fn new(set: QuestionSet, bos: Bos) -> Self {
        Self(Questions { set, bos })
    }
}

impl Task for MultipleChoice {
    fn id(&self) -> String {
        ENTRY.name.to_owned()
    }

    fn version(&self) -> f64 {
        VERSION
    }

    fn bos(&self) -> Bos {
        self.0.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        self.0.items(|question| {
            let choices = question.choices.iter();
            choices
                .map(|choice| Request::LogLikelihood {
                    context: Cow::Borrowed(&question.context),
                    continuation: Cow::Owned(format!(" {choice}")),
                    details: None,
                })
                .collect()
        })
    }

    fn answered(&self) -> Option<AnsweredDocuments> {
        let right = |question: &Question| {
            Some(format!("{} {}", question.context, question.choices.get(question.gold)?))
        };
        self.0.answered(right)
    }

    fn leave_out(&mut self, indices: &[usize]) -> bool {
        remove_at(&mut self.0.set.questions, indices);
        true
    }

    fn only(&self, indices: &[usize]) -> Option<Box<dyn Task>> {
        let mut part = self.clone();
        keep_at(&mut part.0.set.questions, indices);
        Some(Box::new(part))
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        if replies.is_empty() {
            return Err(EvaluationError::Nothing { task: self.id(), what: "questions" });
        }
        let questions = self.0.set.questions.iter().zip(replies);
        let outcomes: Vec<Outcome> =
            questions.map(|(question, replies)| Outcome::new(question, replies)).collect();
        let figures = |members: &[usize]| {
            let share = |name: &str, right: fn(&Outcome) -> bool| {
                accuracy(name, members.iter().map(|&item| right(&outcomes[item])))
            };
            let losses: Vec<f64> = members.iter().map(|&item| outcomes[item].loss).collect();
            vec![
                share("acc", |outcome| outcome.acc),
                share("acc_norm", |outcome| outcome.acc_norm),
                mean("log_loss", &losses),
            ]
        };
        let mut result = self.0.result(&ENTRY, "multiple_choice", replies, bos_used, figures);
        let rows = self.0.set.questions.iter().zip(&outcomes).zip(replies).zip(self.items());
        result.samples = rows
            .map(|(((question, outcome), replies), item)| {
                outcome.sample(question, item.place, replies)
            })
            .collect();
        result.counts.ties = outcomes.iter().filter(|outcome| outcome.tie).count();
        Ok(result)
    }
}

/// Mean of a metric for which lower is better, with its standard error.
fn mean(name: &str, values: &[f64]) -> Metric {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let stderr = (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
    Metric::new(name, mean, stderr, false)
}

/// Index of the first maximum, and whether it occurs again.
fn argmax(scores: &[f64]) -> (usize, bool) {
    let (mut best, mut tie) = (0, false);
    for (index, score) in scores.iter().enumerate().skip(1) {
        if *score > scores[best] {
            (best, tie) = (index, false);
        } else if *score == scores[best] {
            tie = true;
        }
    }
    (best, tie)
}
