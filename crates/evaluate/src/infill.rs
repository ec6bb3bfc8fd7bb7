//! Cloze requests as masked inputs, and their responses.

use super::{Cloze, Details, EvaluationError, Infilled, LanguageModel, MaskedInput, Reply};

/// A masked input to be predicted.
pub(super) struct MaskedInfill {
    pub(super) item: usize,
    pub(super) request: usize,
    pub(super) text: MaskedInput,
    /// Indices of the answers that are scored with this input.
    answers: Vec<usize>,
    /// Whether they include the correct answer.
    is_gold: bool,
    /// Whether the text of the response comes from this input.
    gives_text: bool,
}

/// Masked inputs of a cloze request, with an empty response: one input per number of tokens of its
/// answers, and one for the filled text if none of them has `filled_masks` masks.
pub(super) fn plan(
    item: usize,
    request: usize,
    cloze: &Cloze<'_>,
    model: &dyn LanguageModel,
    place: &str,
) -> Result<(Vec<MaskedInfill>, Reply), EvaluationError> {
    let failed = |source| EvaluationError::Tokenizer { place: place.to_owned(), source };
    let mut infills: Vec<MaskedInfill> = Vec::new();
    let mut lengths = Vec::with_capacity(cloze.answers.len());
    let masked = |masks| -> Result<MaskedInfill, EvaluationError> {
        let text = model.encode_cloze(cloze, masks).map_err(failed)?;
        let (answers, is_gold, gives_text) = (Vec::new(), false, masks == cloze.filled_masks);
        Ok(MaskedInfill { item, request, text, answers, is_gold, gives_text })
    };
    for (index, answer) in cloze.answers.iter().enumerate() {
        let tokens = model.encode(answer).map_err(failed)?;
        if tokens.is_empty() {
            let limit = model.max_positions().unwrap_or(usize::MAX);
            let place = format!("{place}, answer {index}");
            return Err(EvaluationError::Continuation { place, found: 0, limit });
        }
        lengths.push((0.0, tokens.len()));
        let known = infills.iter().position(|infill| infill.text.masks == tokens.len());
        let known = match known {
            Some(known) => known,
            None => {
                infills.push(masked(tokens.len())?);
                infills.len() - 1
            }
        };
        let infill = &mut infills[known];
        if index == cloze.gold {
            infill.is_gold = true;
            infill.text.gold = infill.answers.len();
            infill.text.top_logprobs = cloze.top_logprobs;
        }
        infill.answers.push(index);
        infill.text.answers.push(tokens);
    }
    if cloze.filled_masks > 0 && !infills.iter().any(|infill| infill.gives_text) {
        infills.push(masked(cloze.filled_masks)?);
    }
    let truncated = infills.iter().map(|infill| infill.text.truncated).max().unwrap_or(0);
    let details = Box::new(Details::default());
    Ok((infills, Reply::Infilled { answers: lengths, text: String::new(), details, truncated }))
}

impl MaskedInfill {
    /// Number of tokens of the input.
    pub(super) fn cost(&self) -> usize {
        self.text.tokens.len()
    }

    /// Rejects non-finite predictions.
    pub(super) fn check(&self, infilled: &Infilled, place: &str) -> Result<(), EvaluationError> {
        for (answer, found) in self.answers.iter().zip(&infilled.log_likelihoods) {
            if !found.is_finite() {
                let (place, token) = (format!("{place}, answer {answer}"), self.text.first);
                return Err(EvaluationError::NonFinite { place, token, found: -found });
            }
        }
        Ok(())
    }

    /// Whether the number of predictions matches the answers.
    pub(super) fn fits(&self, infilled: &Infilled) -> bool {
        self.answers.len() == infilled.log_likelihoods.len()
    }

    /// Adds the predictions of the model to the response.
    pub(super) fn add(&self, infilled: &Infilled, reply: &mut Reply) {
        let Reply::Infilled { answers, text, details, .. } = reply else { return };
        for (&answer, found) in self.answers.iter().zip(&infilled.log_likelihoods) {
            answers[answer].0 = *found;
        }
        if self.is_gold {
            details.rank = infilled.top_logprobs.rank;
            details.top_logprobs.clone_from(&infilled.top_logprobs.tokens);
            details.context_tokens = self.text.tokens.len() - self.text.masks;
        }
        if self.gives_text {
            text.clone_from(&infilled.text);
        }
    }
}
