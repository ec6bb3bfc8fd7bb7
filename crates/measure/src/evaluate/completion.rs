//! Open completion: does greedy decoding give exactly the known answer?
//!
//! A question counts as right if every token of its completion is the model's likeliest one after
//! the prompt and the tokens before, which is what greedy generation of that many tokens would
//! produce; no text is generated for it. Questions without a prompt and a completion are left out,
//! and the number of items says how many took part.

use super::request::bos_word;
use super::result::{accuracy, by_group};
use super::{Bos, Counts, EvaluationError, Item, Metric, Reply, Request};
use super::{Task, TaskEntry, TaskOptions, TaskResult};
use crate::data::QuestionSet;
use std::borrow::Cow;

/// The line of this task in the list.
pub(super) const ENTRY: TaskEntry = TaskEntry {
    name: "completion",
    summary: "share of prompts that greedy decoding completes exactly as known",
    open: |path, options: &TaskOptions| {
        let mut set = QuestionSet::open(path)?;
        set.questions.truncate(options.limit.unwrap_or(usize::MAX));
        Ok(Box::new(Completion::new(set, options.bos)))
    },
};

/// The task over one set of questions.
#[derive(Clone, Debug)]
pub struct Completion {
    set: QuestionSet,
    bos: Bos,
}

impl Completion {
    /// Over the questions of `set` that have a prompt and a completion.
    #[must_use]
    pub fn new(mut set: QuestionSet, bos: Bos) -> Self {
        set.questions.retain(|question| question.completion.is_some());
        Self { set, bos }
    }
}

impl Task for Completion {
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
                    .completion
                    .iter()
                    .map(|(prompt, completion)| Request::LogLikelihood {
                        context: Cow::Borrowed(prompt),
                        continuation: Cow::Borrowed(completion),
                    })
                    .collect(),
            })
            .collect()
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        let mut counts = Counts { items: replies.len(), ..Counts::default() };
        let mut right = Vec::with_capacity(replies.len());
        for reply in replies.iter().flatten() {
            if let Reply::LogLikelihood { is_greedy, tokens, truncated, .. } = reply {
                right.push(*is_greedy);
                counts.tokens_counted += tokens;
                counts.truncated += usize::from(*truncated > 0);
            }
        }
        if right.is_empty() {
            return Err(EvaluationError::Nothing {
                task: self.id(),
                what: "questions with `prompt` and `completion`",
            });
        }
        let groups: Vec<Option<&str>> =
            self.set.questions.iter().map(|question| question.group.as_deref()).collect();
        let figures = |members: &[usize]| -> Vec<Metric> {
            vec![accuracy("exact_match", members.iter().map(|&item| right[item]))]
        };
        Ok(TaskResult {
            task: self.id(),
            protocol: format!("completion_greedy_bos-{}", bos_word(self.bos)),
            version: self.version(),
            data_sha256: self.set.sha256.clone(),
            bos_used,
            metrics: figures(&(0..right.len()).collect::<Vec<_>>()),
            groups: by_group(&groups, figures),
            counts,
        })
    }
}
