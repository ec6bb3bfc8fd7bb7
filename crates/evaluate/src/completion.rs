//! Open completion: whether greedy decoding yields the known answer.
//!
//! A question is correct if every token of its completion is the most likely one after the prompt
//! and the preceding tokens, as in greedy generation; no text is generated. Questions without a
//! prompt and a completion are left out and not counted as items.

use super::questions::{Questions, VERSION, likelihoods};
use super::result::accuracy;
use super::task::{keep_at, remove_at};
use super::{
    AnsweredDocuments, Bos, EvaluationError, FileTask, Item, Reply, Request, Task, TaskResult,
};
use linwright_data::QuestionSet;
use std::borrow::Cow;

/// Registry entry of this task.
pub(super) const ENTRY: FileTask = FileTask {
    name: "completion",
    summary: "share of prompts that greedy decoding completes with the known answer",
    reads: &[],
    is_divided: true,
    open: |path, options| {
        let Questions { set, bos } = Questions::open(path, options)?;
        Ok(Box::new(Completion::new(set, bos)))
    },
};

/// The task for one set of questions.
#[derive(Clone, Debug)]
pub struct Completion(Questions);

impl Completion {
    /// The questions of `set` that have a prompt and a completion.
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

    fn answered(&self) -> Option<AnsweredDocuments> {
        self.0.answered(|question| {
            let (prompt, completion) = question.completion.as_ref()?;
            Some(format!("{prompt}{completion}"))
        })
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
        Ok(self.0.result(&ENTRY, "completion_greedy", replies, bos_used, |members| {
            vec![accuracy("exact_match", members.iter().map(|&item| right[item]))]
        }))
    }
}
