//! What evaluation needs of a language model.

use linwright_model::TokenScore;
use std::error::Error;

/// A token sequence to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The tokens; positions count from zero.
    pub tokens: &'a [u32],
    /// Index of the first token whose score is wanted, at least 1: the first token of a sequence is
    /// predicted by nothing.
    pub first_counted: usize,
}

/// A model and its tokenizer, seen as one.
pub trait LanguageModel {
    /// The tokens of a text, without any special token around it.
    ///
    /// # Errors
    /// What the tokenizer says.
    fn encode(&self, text: &str) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>>;

    /// The beginning-of-sequence token, where there is one.
    fn bos(&self) -> Option<u32>;

    /// Whether the tokenizer starts a text with that token unless told otherwise.
    fn adds_bos(&self) -> bool;

    /// The longest sequence in tokens, where there is a limit.
    fn max_positions(&self) -> Option<usize>;

    /// For each sequence the scores of its tokens from `first_counted` on. Sequences do not see
    /// each other.
    ///
    /// # Errors
    /// What the model says.
    fn score(
        &self,
        sequences: &[Sequence<'_>],
    ) -> Result<Vec<Vec<TokenScore>>, Box<dyn Error + Send + Sync>>;
}
