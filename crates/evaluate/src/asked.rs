//! Requests from other programs, outside of a task.

use crate::{
    Bos, EvaluationError, Hooks, Item, LanguageModel, Reply, Request, RunOptions, Task, TaskResult,
    evaluate,
};
use std::cell::RefCell;

/// Requests as a task without a score: each is an item, and the replies are kept.
struct Asked<'a> {
    requests: Vec<Request<'a>>,
    replies: RefCell<Vec<Reply>>,
}

impl Task for Asked<'_> {
    fn id(&self) -> String {
        "asked".to_owned()
    }

    fn version(&self) -> f64 {
        1.0
    }

    fn bos(&self) -> Bos {
        Bos::Auto
    }

    fn items(&self) -> Vec<Item<'_>> {
        fn item<'a>((index, request): (usize, &Request<'a>)) -> Item<'a> {
            let place = format!("request {}", index + 1);
            Item { place, requests: vec![request.clone()], own: &[] }
        }
        self.requests.iter().enumerate().map(item).collect()
    }

    fn leave_out(&mut self, _indices: &[usize]) -> bool {
        false
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        self.replies.replace(replies.iter().flatten().cloned().collect());
        Ok(TaskResult { task: self.id(), bos_used, ..TaskResult::default() })
    }
}

/// Answers requests in batches, in their order.
///
/// # Errors
/// As [`evaluate`].
pub fn answer(
    requests: Vec<Request<'_>>,
    model: &dyn LanguageModel,
    options: &RunOptions,
    hooks: &mut Hooks<'_>,
) -> Result<Vec<Reply>, EvaluationError> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let task = Asked { requests, replies: RefCell::default() };
    evaluate(&task, model, options, hooks)?.complete()?;
    Ok(task.replies.into_inner())
}
