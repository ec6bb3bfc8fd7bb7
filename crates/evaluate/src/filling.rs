//! From a gap and its answers to masked texts, and back.

use super::{EvaluationError, Filled, Gap, LanguageModel, Masked, Reply, Seen};

/// A masked text that the model is to see.
pub(super) struct Filling {
    pub(super) item: usize,
    pub(super) request: usize,
    pub(super) text: Masked,
    /// Which answers of the request are judged here.
    answers: Vec<usize>,
    /// Whether the gold answer is one of them.
    is_gold: bool,
    /// Whether what is written is read here.
    is_written: bool,
}

/// The masked texts of a gap: one for each number of tokens that its answers have, and one to write
/// in if none of them has that many masks. With a reply to which nothing was added yet.
pub(super) fn plan(
    (item, request): (usize, usize),
    gap: &Gap<'_>,
    model: &dyn LanguageModel,
    place: &str,
) -> Result<(Vec<Filling>, Reply), EvaluationError> {
    let failed = |source| EvaluationError::Tokenizer { place: place.to_owned(), source };
    let mut fillings: Vec<Filling> = Vec::new();
    let mut lengths = Vec::with_capacity(gap.answers.len());
    let made = |masks| -> Result<Filling, EvaluationError> {
        let text = model.encode_gap(gap, masks).map_err(failed)?;
        let (answers, is_gold, is_written) = (Vec::new(), false, masks == gap.written);
        Ok(Filling { item, request, text, answers, is_gold, is_written })
    };
    for (index, answer) in gap.answers.iter().enumerate() {
        let tokens = model.encode(answer).map_err(failed)?;
        if tokens.is_empty() {
            let limit = model.max_positions().unwrap_or(usize::MAX);
            let place = format!("{place}, answer {index}");
            return Err(EvaluationError::Continuation { place, found: 0, limit });
        }
        lengths.push((0.0, tokens.len()));
        let known = fillings.iter().position(|filling| filling.text.masks == tokens.len());
        let known = match known {
            Some(known) => known,
            None => {
                fillings.push(made(tokens.len())?);
                fillings.len() - 1
            }
        };
        let filling = &mut fillings[known];
        if index == gap.gold {
            filling.is_gold = true;
            filling.text.gold = filling.answers.len();
            filling.text.likeliest = gap.likeliest;
        }
        filling.answers.push(index);
        filling.text.answers.push(tokens);
    }
    if gap.written > 0 && !fillings.iter().any(|filling| filling.is_written) {
        fillings.push(made(gap.written)?);
    }
    let truncated = fillings.iter().map(|filling| filling.text.truncated).max().unwrap_or(0);
    let seen = Box::new(Seen::default());
    Ok((fillings, Reply::Filled { answers: lengths, text: String::new(), seen, truncated }))
}

impl Filling {
    /// Adds to the reply what the model says.
    pub(super) fn add(
        &self,
        filled: Filled,
        reply: &mut Reply,
        place: &str,
    ) -> Result<(), EvaluationError> {
        let Reply::Filled { answers, text, seen, .. } = reply else { return Ok(()) };
        for (&answer, found) in self.answers.iter().zip(filled.log_likelihoods) {
            if !found.is_finite() {
                let (place, token) = (format!("{place}, answer {answer}"), self.text.first);
                return Err(EvaluationError::NonFinite { place, token, found: -found });
            }
            answers[answer].0 = found;
        }
        if self.is_gold {
            seen.rank = filled.likeliest.rank;
            seen.likeliest = filled.likeliest.tokens;
            seen.context_tokens = self.text.tokens.len() - self.text.masks;
        }
        if self.is_written {
            *text = filled.text;
        }
        Ok(())
    }
}
