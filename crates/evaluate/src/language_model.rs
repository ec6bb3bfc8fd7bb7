//! The language model interface of the evaluation.

use super::packed::{LastOutput, Packed};
use super::{Cloze, Generation};
use linwright_model::TokenScore;
use linwright_tensor::kernels::divergence::Divergence;
use serde::{Deserialize, Serialize};
use std::error::Error;

/// The error of models that answer no other requests.
const TEXTS_ONLY: &str = "these models read texts together, and answer nothing else";

/// Any error of a model or tokenizer.
pub type ModelFailure = Box<dyn Error + Send + Sync>;

/// A token sequence to score.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The tokens; positions count from zero.
    pub tokens: &'a [u32],
    /// Index of the first scored token, at least 1: the first token of a sequence has no
    /// prediction.
    pub first_counted: usize,
    /// Length in tokens of the prefix that all sequences of the group share, given in its second
    /// and later members. Zero starts a new group.
    pub shared: usize,
}

/// A request for the largest log-probabilities at one position of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopLogprobsRequest {
    /// Index of the predicted token, one of the scored tokens.
    pub token: usize,
    /// Number of largest log-probabilities.
    pub count: usize,
}

/// The most likely tokens at one position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopLogprobs {
    /// Rank of the target token, from 0; ties are broken by token id.
    pub rank: usize,
    /// Most likely tokens in descending order: text and log-probability in nats.
    pub tokens: Vec<(String, f64)>,
}

/// Scores of several sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scored {
    /// For each sequence the scores of its tokens.
    pub scores: Vec<Vec<TokenScore>>,
    /// For each sequence the largest log-probabilities, if they were requested.
    pub top_logprobs: Vec<Option<TopLogprobs>>,
    /// For each sequence the divergence of its scored tokens from the first model; no sequences
    /// where it was not requested, and for the first model.
    pub divergences: Vec<Vec<Divergence>>,
}

/// Input tokens with one contiguous span of masks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedInput {
    /// The whole input with its special tokens.
    pub tokens: Vec<u32>,
    /// Index of the first mask.
    pub first: usize,
    /// Number of masks.
    pub masks: usize,
    /// Tokens cut from the left of the context.
    pub truncated: usize,
    /// Candidate answers, each with as many tokens as there are masks.
    pub answers: Vec<Vec<u32>>,
    /// Number of largest log-probabilities to report at the first mask.
    pub top_logprobs: usize,
    /// Index of the answer whose first token is ranked.
    pub gold: usize,
}

/// Predictions of a masked language model for a [`MaskedInput`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Infilled {
    /// Log-likelihoods of the answers in nats.
    pub log_likelihoods: Vec<f64>,
    /// The most likely token of each mask, decoded as one text.
    pub text: String,
    /// Largest log-probabilities at the first mask.
    pub top_logprobs: TopLogprobs,
}

/// A generated continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The text without the stop string.
    pub text: String,
    /// Number of generated tokens, with those of the stop string.
    pub tokens: usize,
}

/// A model together with its tokenizer.
pub trait LanguageModel {
    /// The tokens of a text without special tokens.
    ///
    /// # Errors
    /// Any error of the tokenizer.
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure>;

    /// The beginning-of-sequence token, if any.
    fn bos(&self) -> Option<u32>;

    /// The end-of-sequence token, if any.
    fn eos(&self) -> Option<u32>;

    /// Whether the tokenizer adds the beginning-of-sequence token by default.
    fn adds_bos(&self) -> bool;

    /// The longest input in tokens, if limited.
    fn max_positions(&self) -> Option<usize>;

    /// Scores of the tokens of each sequence from `first_counted` on. Sequences do not attend to
    /// each other; a prefix shared by a group may be computed once. The last token of a sequence is
    /// predicted but is not an input, so a sequence may have one token more than the model has
    /// positions.
    ///
    /// # Errors
    /// Any error of the model.
    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure>;

    /// As [`Self::score`], with the largest log-probabilities at one position of each sequence that
    /// requests them.
    ///
    /// # Errors
    /// Any error of the model; the default implementation supports no such requests.
    fn score_with_top_logprobs(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Scored, ModelFailure> {
        let _ = (sequences, top_requests);
        Err("this model does not report top log-probabilities".into())
    }

    /// The output of the last layer for a batch, so that logits of several models can be compared.
    ///
    /// # Errors
    /// Any error of the model; the default implementation shows no logits.
    fn last_output(&self, packed: &Packed) -> Result<LastOutput<'_>, ModelFailure> {
        let _ = packed;
        Err("this model does not show its logits".into())
    }

    /// Whether this is a masked language model, which answers cloze requests only.
    fn is_masked(&self) -> bool {
        false
    }

    /// The tokens of a cloze text with `masks` masks in its blank.
    ///
    /// # Errors
    /// Any error of the tokenizer; the default implementation supports no cloze requests.
    fn encode_cloze(&self, cloze: &Cloze<'_>, masks: usize) -> Result<MaskedInput, ModelFailure> {
        let _ = (cloze, masks);
        Err("this model does not predict masked tokens".into())
    }

    /// Predicts the masked tokens.
    ///
    /// # Errors
    /// Any error of the model; the default implementation supports no cloze requests.
    fn infill(&self, texts: &[MaskedInput]) -> Result<Vec<Infilled>, ModelFailure> {
        let _ = texts;
        Err("this model does not predict masked tokens".into())
    }

    /// Whether the model has a language-model head and so predicts tokens; a model without one
    /// yields embeddings only.
    fn has_head(&self) -> bool {
        true
    }

    /// Name of the pooling from token vectors to the embedding of a text; none if the model has no
    /// pooling.
    fn pooling(&self) -> Option<String> {
        None
    }

    /// The tokens of a text with all special tokens, truncated to the longest input, and the number
    /// of tokens cut.
    ///
    /// # Errors
    /// Any error of the tokenizer; the default implementation supports no embeddings.
    fn encode_whole(&self, text: &str) -> Result<(Vec<u32>, usize), ModelFailure> {
        let _ = text;
        Err("this model computes no text embeddings".into())
    }

    /// Cosine similarity of the embeddings of each pair of texts.
    ///
    /// # Errors
    /// Any error of the model; the default implementation supports no embeddings.
    fn cosines(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<f64>, ModelFailure> {
        let _ = pairs;
        Err("this model computes no text embeddings".into())
    }

    /// Continues prompts.
    ///
    /// # Errors
    /// Any error of the model.
    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure>;
}

/// Several models with one tokenizer that answer the same requests, such as edits of one model,
/// which share much of their computation. If evaluation is cancelled between two models, the call
/// may fail with any error.
pub trait LanguageModels {
    /// One of the models, for common properties: tokenizer, positions and kind.
    fn first(&self) -> &dyn LanguageModel;

    /// Number of models.
    fn count(&self) -> usize;

    /// [`LanguageModel::score_with_top_logprobs`] of each model.
    ///
    /// # Errors
    /// Any error of a model; the default implementation compares texts only.
    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        let _ = (sequences, top_requests);
        Err(TEXTS_ONLY.into())
    }

    /// [`LanguageModel::score`] of each model, and for each but the first the divergence of every
    /// scored token from the first model: all models run over the same batch, and their logits are
    /// compared as they are computed.
    ///
    /// # Errors
    /// Any error of a model; the default implementation compares no tokens.
    fn score_against_first(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Scored>, ModelFailure> {
        let _ = sequences;
        Err("these models are not compared token by token".into())
    }

    /// [`LanguageModel::infill`] of each model.
    ///
    /// # Errors
    /// Any error of a model; the default implementation reads texts only.
    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        let _ = texts;
        Err(TEXTS_ONLY.into())
    }

    /// [`LanguageModel::cosines`] of each model.
    ///
    /// # Errors
    /// Any error of a model; the default implementation reads texts only.
    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        let _ = pairs;
        Err(TEXTS_ONLY.into())
    }

    /// [`LanguageModel::generate`] of each model.
    ///
    /// # Errors
    /// Any error of a model; the default implementation reads texts only.
    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        let _ = (prompts, generation);
        Err(TEXTS_ONLY.into())
    }
}
