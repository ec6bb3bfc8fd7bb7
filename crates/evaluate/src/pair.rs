//! Tokenization of a context with its continuation.

use super::{EvaluationError, LanguageModel};
use linwright_model::tokenizer::beginning;

/// Tokens of a context with its continuation.
pub(super) struct Pair {
    /// The end of the context, as far as it fits, then the continuation.
    pub(super) tokens: Vec<u32>,
    /// Index of the continuation's first token, at least 1.
    pub(super) continuation: usize,
    /// Tokens cut from the left of the context.
    pub(super) truncated: usize,
}

/// Tokenizes as lm-evaluation-harness does: trailing spaces of the context belong to the
/// continuation, both are tokenized as one text, and the continuation begins after as many tokens
/// as the context alone has. An empty context is replaced by the beginning- or else the
/// end-of-sequence token. Longer inputs are truncated from the left; the last token is never an
/// input, so one more token than the model has positions fits.
pub(super) fn encode_pair(
    model: &dyn LanguageModel,
    context: &str,
    continuation: &str,
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
    let mut tokens;
    let start;
    if kept.is_empty() {
        let first = bos.or(model.bos()).or(model.eos()).ok_or_else(|| EvaluationError::NoBos {
            needed_by: format!("{place}, whose context is empty"),
            advice: "give the question a context",
        })?;
        let continuation = encode(&continuation)?;
        // A continuation that begins with that token needs no other.
        tokens = if continuation.first() == Some(&first) { Vec::new() } else { vec![first] };
        start = 1;
        tokens.extend(continuation);
    } else {
        let text = encode(&format!("{kept}{continuation}"))?;
        tokens = beginning(bos, text);
        start = beginning(bos, encode(kept)?).len();
    }
    let found = tokens.len().saturating_sub(start);
    let limit = model.max_positions().unwrap_or(usize::MAX - 1);
    if start == 0 || found == 0 || found > limit {
        return Err(EvaluationError::Continuation { place: place.to_owned(), found, limit });
    }
    let truncated = tokens.len().saturating_sub(limit + 1);
    Ok(Pair { tokens: tokens.split_off(truncated), continuation: start - truncated, truncated })
}
