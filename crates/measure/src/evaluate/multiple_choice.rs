//! Multiple choice by log-likelihood.
//!
//! Choice c of a question q scores ℓ(c) = log p(" " + c | q). `acc` takes the choice of the largest
//! ℓ, `acc_norm` that of the largest ℓ / characters of c, as the evaluation harness defines them. Of
//! equal scores the first is taken, as an argmax does, and such ties are counted.

use super::request::bos_word;
use super::result::{accuracy, by_group};
use super::{Bos, Counts, EvaluationError, Item, Metric, Reply, Request};
use super::{Task, TaskEntry, TaskOptions, TaskResult};
use crate::data::QuestionSet;
use std::borrow::Cow;

/// The line of this task in the list.
pub(super) const ENTRY: TaskEntry = TaskEntry {
    name: "multiple_choice",
    summary: "accuracy of the likeliest choice (acc) and of the likeliest per character (acc_norm)",
    open: |path, options: &TaskOptions| {
        let mut set = QuestionSet::open(path)?;
        set.questions.truncate(options.limit.unwrap_or(usize::MAX));
        Ok(Box::new(MultipleChoice::new(set, options.bos)))
    },
};

/// The task over one set of questions.
#[derive(Clone, Debug)]
pub struct MultipleChoice {
    set: QuestionSet,
    bos: Bos,
}

/// How one question went.
#[derive(Clone, Copy)]
struct Outcome {
    acc: bool,
    acc_norm: bool,
    tie: bool,
}

impl MultipleChoice {
    /// Over the questions of `set`.
    #[must_use]
    pub fn new(set: QuestionSet, bos: Bos) -> Self {
        Self { set, bos }
    }
}

impl Task for MultipleChoice {
    fn id(&self) -> String {
        ENTRY.name.to_owned()
    }

    fn version(&self) -> u32 {
        1
    }

    fn bos(&self) -> Bos {
        self.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        let file = self.set.path.display();
        self.set
            .questions
            .iter()
            .map(|question| Item {
                place: format!("{file}, question at line {}", question.line),
                requests: question
                    .choices
                    .iter()
                    .map(|choice| Request::LogLikelihood {
                        context: Cow::Borrowed(&question.context),
                        continuation: Cow::Owned(format!(" {choice}")),
                    })
                    .collect(),
            })
            .collect()
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        if replies.is_empty() {
            return Err(EvaluationError::Nothing { task: self.id(), what: "questions" });
        }
        let mut counts = Counts { items: replies.len(), ..Counts::default() };
        let mut outcomes = Vec::with_capacity(replies.len());
        for (question, replies) in self.set.questions.iter().zip(replies) {
            let mut scores = Vec::with_capacity(replies.len());
            for reply in replies {
                if let Reply::LogLikelihood { log_likelihood, tokens, truncated, .. } = reply {
                    scores.push(*log_likelihood);
                    counts.tokens_counted += tokens;
                    counts.truncated += usize::from(*truncated > 0);
                }
            }
            let per_character: Vec<f64> = scores
                .iter()
                .zip(&question.choices)
                .map(|(score, choice)| score / choice.chars().count() as f64)
                .collect();
            let (best, tie) = argmax(&scores);
            outcomes.push(Outcome {
                acc: best == question.gold,
                acc_norm: argmax(&per_character).0 == question.gold,
                tie,
            });
        }
        counts.ties = outcomes.iter().filter(|outcome| outcome.tie).count();
        let groups: Vec<Option<&str>> =
            self.set.questions.iter().map(|question| question.group.as_deref()).collect();
        let figures = |members: &[usize]| -> Vec<Metric> {
            vec![
                accuracy("acc", members.iter().map(|&item| outcomes[item].acc)),
                accuracy("acc_norm", members.iter().map(|&item| outcomes[item].acc_norm)),
            ]
        };
        Ok(TaskResult {
            task: self.id(),
            protocol: format!("multiple_choice_bos-{}", bos_word(self.bos)),
            version: self.version(),
            data_sha256: self.set.sha256.clone(),
            bos_used,
            metrics: figures(&(0..outcomes.len()).collect::<Vec<_>>()),
            groups: by_group(&groups, figures),
            counts,
        })
    }
}

/// Index of the first largest score, and whether another one equals it.
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
