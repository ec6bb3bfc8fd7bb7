//! Open completion: does greedy decoding give exactly the known answer?
//!
//! A question counts as right if every token of its completion is the model's likeliest one after
//! the prompt and the tokens before, which is what greedy generation of that many tokens would
//! produce; no text is generated for it. Questions without a prompt and a completion are left out,
//! and the number of items says how many took part.

use super::questions::{Questions, VERSION, likelihoods};
use super::result::accuracy;
use super::task::take_out;
use super::{Bos, EvaluationError, Item, Reply, Request, Task, TaskEntry, TaskResult};
use linwright_data::QuestionSet;
use std::borrow::Cow;

/// The line of this task in the list.
pub(super) const ENTRY: TaskEntry = TaskEntry {
    name: "completion",
    summary: "share of prompts that greedy decoding completes exactly as known",
    open: |path, options| {
        let Questions { set, bos } = Questions::open(path, options)?;
        Ok(Box::new(Completion::new(set, bos)))
    },
};

/// The task over one set of questions.
#[derive(Clone, Debug)]
pub struct Completion(Questions);

impl Completion {
    /// Over the questions of `set` that have a prompt and a completion.
    #[must_use]
    pub fn new(mut set: QuestionSet, bos: Bos) -> Self {
        set.questions.retain(|question| question.completion.is_some());
        Self(Questions { set, bos })
    }
}

impl Task for Completion {
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
            let known = question.completion.iter();
            known
                .map(|(prompt, completion)| Request::LogLikelihood {
                    context: Cow::Borrowed(prompt),
                    continuation: Cow::Borrowed(completion),
                    details: None,
                })
                .collect()
        })
    }

    fn leave_out(&mut self, places: &[usize]) -> bool {
        take_out(&mut self.0.set.questions, places);
        true
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let right: Vec<bool> = replies
            .iter()
            .flat_map(|replies| likelihoods(replies))
            .map(|likelihood| likelihood.is_greedy)
            .collect();
        if right.is_empty() {
            return Err(EvaluationError::Nothing {
                task: self.id(),
                what: "questions with `prompt` and `completion`",
            });
        }
        Ok(self.0.result(&ENTRY, "completion_greedy", (replies, bos_used), |members| {
            vec![accuracy("exact_match", members.iter().map(|&item| right[item]))]
        }))
    }
}
