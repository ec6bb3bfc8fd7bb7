//! Which items of a task a kind of model can answer. Apart from the registry, only this module
//! names tasks.

use crate::{EvaluationError, Item, LASER_TASKS, LanguageModel, Request, SENTENCE_TASKS, Task};

/// Items of a task for a kind of model.
pub(super) fn items_of<'a>(
    task: &'a dyn Task,
    model: &dyn LanguageModel,
) -> Result<Vec<Item<'a>>, EvaluationError> {
    let pairs = SENTENCE_TASKS.iter().map(|task| task.name);
    let items = match model.is_masked() {
        true => task.cloze_items(),
        false => Some(task.items_for(model)?.unwrap_or_else(|| task.items())),
    };
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
