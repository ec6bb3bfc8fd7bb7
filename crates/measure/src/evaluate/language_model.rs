//! What evaluation needs of a language model.

use super::Generation;
use linwright_model::TokenScore;
use std::error::Error;

/// What a model may say is wrong.
pub type ModelFailure = Box<dyn Error + Send + Sync>;

/// A token sequence to be scored.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The tokens; positions count from zero.
    pub tokens: &'a [u32],
    /// Index of the first token whose score is wanted, at least 1: the first token of a sequence is
    /// predicted by nothing.
    pub first_counted: usize,
    /// Tokens at the start that all sequences of its group have in common. Zero begins a group, so
    /// that only later members tell the number.
    pub shared: usize,
}

/// A continuation that a model wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The text, without what stopped it.
    pub text: String,
    /// Its tokens, with what stopped it.
    pub tokens: usize,
}

/// A model and its tokenizer, seen as one.
pub trait LanguageModel {
    /// The tokens of a text, without any special token around it.
    ///
    /// # Errors
    /// What the tokenizer says.
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure>;

    /// The beginning-of-sequence token, where there is one.
    fn bos(&self) -> Option<u32>;

    /// The end-of-sequence token, where there is one.
    fn eos(&self) -> Option<u32>;

    /// Whether the tokenizer starts a text with the beginning-of-sequence token unless told
    /// otherwise.
    fn adds_bos(&self) -> bool;

    /// The longest input in tokens, where there is a limit.
    fn max_positions(&self) -> Option<usize>;

    /// For each sequence the scores of its tokens from `first_counted` on. Sequences do not see each
    /// other; what a group shares need be computed only once. The last token of a sequence is
    /// predicted and is no input, so that a sequence may have one token more than the model has
    /// positions.
    ///
    /// # Errors
    /// What the model says.
    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure>;

    /// Continues prompts greedily.
    ///
    /// # Errors
    /// What the model says.
    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Written>, ModelFailure>;
}
