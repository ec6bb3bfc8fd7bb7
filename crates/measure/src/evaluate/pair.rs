//! Cuts a context and its continuation into tokens.

use super::{EvaluationError, LanguageModel};

/// Tokens of context and continuation, ready for the model.
pub(super) struct Pair {
    /// Context, as much of its end as fits, then the continuation.
    pub(super) tokens: Vec<u32>,
    /// Index of the continuation's first token, at least 1.
    pub(super) continuation: usize,
    /// Tokens cut from the left of the context.
    pub(super) truncated: usize,
}

/// Tokenises as the evaluation harness does: spaces at the end of the context go to the
/// continuation, both are tokenised as one text, and the context's own number of tokens says where
/// the continuation begins. An empty context is the beginning-of-sequence token. What is longer
/// than the model loses tokens from the left.
///
/// One deviation: the harness keeps one token more, since the last token is never an input; here
/// the whole sequence fits the model.
pub(super) fn encode_pair(
    model: &dyn LanguageModel,
    (context, continuation): (&str, &str),
    bos: Option<u32>,
    place: &str,
) -> Result<Pair, EvaluationError> {
    let kept = context.trim_end();
    let continuation = format!("{}{continuation}", &context[kept.len()..]);
    let encode = |text: &str| {
        model
            .encode(text)
            .map_err(|source| EvaluationError::Tokenizer { place: place.to_owned(), source })
    };
    let mut tokens: Vec<u32> = bos.into_iter().collect();
    let start;
    if kept.is_empty() {
        if tokens.is_empty() {
            let first = model.bos().ok_or_else(|| EvaluationError::NoBos {
                needed_by: format!("{place}, whose context is empty"),
                advice: "give the question a context",
            })?;
            tokens.push(first);
        }
        start = tokens.len();
        tokens.extend(encode(&continuation)?);
    } else {
        start = tokens.len() + encode(kept)?.len();
        tokens.extend(encode(&format!("{kept}{continuation}"))?);
    }
    let found = tokens.len().saturating_sub(start);
    let limit = model.max_positions().unwrap_or(usize::MAX);
    if start == 0 || found == 0 || found >= limit {
        return Err(EvaluationError::Continuation {
            place: place.to_owned(),
            found,
            limit: limit - 1,
        });
    }
    let truncated = tokens.len().saturating_sub(limit);
    Ok(Pair { tokens: tokens.split_off(truncated), continuation: start - truncated, truncated })
}
