//! Which tasks a kind of model supports. Apart from the registry, only this module names tasks.

use crate::runner::{check_requests, resolve};
use crate::{EvaluationError, Item, LASER_TASKS, LanguageModel, Request, SENTENCE_TASKS, Task};

/// Items of a task for a kind of model.
pub(super) fn items_of<'a>(
    task: &'a dyn Task,
    model: &dyn LanguageModel,
) -> Result<Vec<Item<'a>>, EvaluationError> {
    let pairs = SENTENCE_TASKS.iter().map(|task| task.name);
    let items = if model.is_masked() { task.cloze_items() } else { Some(task.items()) };
    let is_pair = |request: &Request<'_>| matches!(request, Request::Similarity(_));
    let asks_tokens = |items: &Vec<Item<'_>>| {
        items.iter().flat_map(|item| &item.requests).any(|request| !is_pair(request))
    };
    if !model.has_head() && items.as_ref().is_none_or(asks_tokens) {
        let known = pairs.collect::<Vec<_>>().join(", ");
        return Err(EvaluationError::NoHead { task: task.id(), known });
    }
    items.ok_or_else(|| {
        let sets = LASER_TASKS.iter().filter(|set| set.has_cloze()).map(|set| set.name);
        let known = sets.chain(pairs).collect::<Vec<_>>().join(", ");
        EvaluationError::Masked { task: task.id(), known }
    })
}

/// Checks that a model supports a task and can answer its requests, before anything is computed.
///
/// # Errors
/// [`EvaluationError`]: a causal task on a masked language model, token predictions without a head,
/// embeddings without pooling, a missing beginning-of-sequence token, or windows, answers and
/// generated texts that are too long for it.
pub fn check_model(task: &dyn Task, model: &dyn LanguageModel) -> Result<(), EvaluationError> {
    let bos = resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
    check_requests(&items, model, bos)?;
    let compared = items
        .iter()
        .find(|item| item.requests.iter().any(|request| matches!(request, Request::Similarity(_))));
    match compared {
        Some(item) if model.pooling().is_none() => {
            Err(EvaluationError::NoVectors { place: item.place.clone() })
        }
        _ => Ok(()),
    }
}
