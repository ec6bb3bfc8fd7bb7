//! What evaluation needs of a language model.

use super::{Gap, Generation};
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

/// A place of a sequence in which the likeliest tokens are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Index of the token that stands there, among those whose scores are wanted.
    pub token: usize,
    /// So many of the likeliest tokens.
    pub likeliest: usize,
}

/// The likeliest tokens in one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Likeliest {
    /// Tokens that are likelier than the one that stands there; of equally likely ones those before
    /// it in the vocabulary count.
    pub rank: usize,
    /// The likeliest tokens, falling: text and log-probability in nats.
    pub tokens: Vec<(String, f64)>,
}

/// Scores of sequences, and for each what a [`Peek`] found.
pub type Peeked = (Vec<Vec<TokenScore>>, Vec<Option<Likeliest>>);

/// Tokens with masks among them, side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// The whole input, with the tokens that begin and end texts.
    pub tokens: Vec<u32>,
    /// Index of the first mask.
    pub first: usize,
    /// Number of masks.
    pub masks: usize,
    /// Tokens cut from the left of the context.
    pub truncated: usize,
    /// Answers to be judged, each of as many tokens as there are masks.
    pub answers: Vec<Vec<u32>>,
    /// So many of the likeliest tokens in the place of the first mask.
    pub likeliest: usize,
    /// The answer whose first token has its rank told.
    pub gold: usize,
}

/// What a model says about [`Masked`].
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// Log-likelihoods of the answers in nats.
    pub log_likelihoods: Vec<f64>,
    /// The likeliest token of each mask, as one text.
    pub text: String,
    /// The first mask.
    pub likeliest: Likeliest,
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

    /// For each sequence the scores of its tokens from `first_counted` on. Sequences do not see
    /// each other; what a group shares need be computed only once. The last token of a sequence is
    /// predicted and is no input, so that a sequence may have one token more than the model has
    /// positions.
    ///
    /// # Errors
    /// What the model says.
    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure>;

    /// As [`Self::score`], and the likeliest tokens in one place of each sequence that has a peek.
    ///
    /// # Errors
    /// What the model says; by default, that it knows no likeliest tokens.
    fn score_and_peek(
        &self,
        sequences: &[Sequence<'_>],
        peeks: &[Option<Peek>],
    ) -> Result<Peeked, ModelFailure> {
        let _ = (sequences, peeks);
        Err("this model does not tell which tokens are the likeliest".into())
    }

    /// Whether it is a masked language model: it is asked about gaps, and nothing else.
    fn is_masked(&self) -> bool {
        false
    }

    /// The tokens of a text with so many masks in its gap.
    ///
    /// # Errors
    /// What the tokenizer says; by default, that the model fills no gaps.
    fn encode_gap(&self, gap: &Gap<'_>, masks: usize) -> Result<Masked, ModelFailure> {
        let _ = (gap, masks);
        Err("this model fills no gaps".into())
    }

    /// What stands behind masks.
    ///
    /// # Errors
    /// What the model says; by default, that it fills no gaps.
    fn fill(&self, texts: &[Masked]) -> Result<Vec<Filled>, ModelFailure> {
        let _ = texts;
        Err("this model fills no gaps".into())
    }

    /// Whether it predicts tokens; one that ends in its last layer only makes vectors.
    fn has_head(&self) -> bool {
        true
    }

    /// How it makes one vector of a text, in one word; none if it makes none.
    fn pooling(&self) -> Option<&'static str> {
        None
    }

    /// The tokens of a text with all special tokens around it, cut to the longest input, and how
    /// many tokens that left out.
    ///
    /// # Errors
    /// What the tokenizer says; by default, that the model makes no vectors.
    fn encode_whole(&self, text: &str) -> Result<(Vec<u32>, usize), ModelFailure> {
        let _ = text;
        Err("this model makes no vectors of texts".into())
    }

    /// For each pair of texts the cosine of their vectors.
    ///
    /// # Errors
    /// What the model says; by default, that it makes no vectors.
    fn cosines(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<f64>, ModelFailure> {
        let _ = pairs;
        Err("this model makes no vectors of texts".into())
    }

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

/// Several models of one tokenizer that are asked the same, such as edits of one model, which have
/// much of their work in common. One that is asked to stop between two models fails with any error:
/// whoever asked knows.
pub trait LanguageModels {
    /// One of them, for what all have in common: tokens, positions, and whether they fill gaps.
    fn first(&self) -> &dyn LanguageModel;

    /// How many there are.
    fn count(&self) -> usize;

    /// What [`LanguageModel::score_and_peek`] of each says.
    ///
    /// # Errors
    /// What a model says.
    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        peeks: &[Option<Peek>],
    ) -> Result<Vec<Peeked>, ModelFailure>;

    /// What [`LanguageModel::fill`] of each says.
    ///
    /// # Errors
    /// What a model says.
    fn fill_each(&self, texts: &[Masked]) -> Result<Vec<Vec<Filled>>, ModelFailure>;

    /// What [`LanguageModel::cosines`] of each says.
    ///
    /// # Errors
    /// What a model says.
    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure>;

    /// What [`LanguageModel::generate`] of each says.
    ///
    /// # Errors
    /// What a model says.
    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Written>>, ModelFailure>;
}
