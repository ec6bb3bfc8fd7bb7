//! Whether a task can be asked of a kind of model, and which tasks can where it cannot: the one
//! place that names tasks beside the registry.

use crate::runner::resolve;
use crate::{EvaluationError, Item, LASER_TASKS, LanguageModel, Request, SENTENCE_TASKS, Task};

/// What is asked of a model of this kind.
pub(super) fn items_of<'a>(
    task: &'a dyn Task,
    model: &dyn LanguageModel,
) -> Result<Vec<Item<'a>>, EvaluationError> {
    let pairs = SENTENCE_TASKS.iter().map(|(name, _)| *name);
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

/// Whether a task can be asked of a model of this kind, before anything is encoded or computed.
///
/// # Errors
/// [`EvaluationError`]: a masked language model that is asked how texts go on, one without a head
/// that is asked for tokens, one that makes no vectors and is asked to compare, or a tokenizer
/// without the token that begins texts.
pub fn check_model(task: &dyn Task, model: &dyn LanguageModel) -> Result<(), EvaluationError> {
    resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
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
