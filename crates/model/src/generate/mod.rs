//! Text generation, token by token.
//!
//! Keys and values are cached, so that each step computes one row per sequence. Every sequence has
//! its own random stream, so its continuation depends neither on the other sequences nor on their
//! order.

mod session;
mod settings;
mod text;

pub use session::{Ask, Ranks, Session, Step};
pub use settings::SamplingSettings;
pub use text::{GenerateError, Generated, Stopping, TextEnd, TextWriter};
pub use text::{generate_text, generate_text_each};

use crate::error::ModelError;
use crate::transformer::Transformer;
use linwright_tensor::RngKey;

/// Sampling parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Temperature, by which logits are divided; 0 is greedy: the most likely token, ties to the
    /// first.
    pub temperature: f32,
    /// Top-k: samples from this many of the most likely tokens.
    pub top_k: Option<usize>,
    /// Top-p (nucleus): samples from the most likely tokens that together have this probability
    /// (Holtzman et al. 2019, arXiv:1904.09751).
    pub top_p: Option<f32>,
    /// Min-p: samples from tokens with at least this share of the highest probability.
    pub min_p: Option<f32>,
    /// Repetition penalty: positive logits of earlier tokens are divided by it, negative ones
    /// multiplied (Keskar et al. 2019, arXiv:1909.05858, section 4.1).
    pub repetition_penalty: f32,
    /// Key of the random streams.
    pub key: RngKey,
}

impl Choice {
    /// Greedy decoding.
    #[must_use]
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: 1.0,
            key: RngKey::new(0),
        }
    }

    /// The same parameters for this many prompts, each with a random stream of its place.
    pub(crate) fn of_places(&self, count: usize) -> Vec<Self> {
        let of = |index: usize| Self { key: self.key.fold_index(index as u64), ..self.clone() };
        (0..count).map(of).collect()
    }
}

/// Stopping conditions of a continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of new tokens.
    pub new_tokens: usize,
    /// End-of-sequence tokens, which are not part of the continuation.
    pub end_tokens: Vec<u32>,
}

/// Reason why a continuation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end-of-sequence token.
    End,
    /// The limit of new tokens.
    Length,
    /// The longest input of the model.
    Positions,
    /// The caller stopped it.
    Caller,
}

/// A generated continuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// Reason why it ended.
    pub finish: Finish,
}

/// Continues prompts as one batch, each with a random stream of its place. `on_token` receives each
/// new token as (index of the prompt, token) and returns whether to continue that sequence;
/// end-of-sequence tokens are not passed.
///
/// # Errors
/// [`ModelError`] if a prompt is empty or too long, a token is unknown, or numbers are not finite.
///
/// # Panics
/// If the model has no head.
pub fn generate(
    model: &Transformer,
    prompts: &[&[u32]],
    choice: &Choice,
    limits: &Limits,
    on_token: &mut dyn FnMut(usize, u32) -> bool,
) -> Result<Vec<Continuation>, ModelError> {
    generate_each(model, prompts, &choice.of_places(prompts.len()), limits, on_token)
}

/// As [`generate`], with sampling parameters of each prompt.
///
/// # Errors
/// As [`generate`].
///
/// # Panics
/// If the model has no head, or the numbers of prompts and choices differ.
pub fn generate_each(
    model: &Transformer,
    prompts: &[&[u32]],
    choices: &[Choice],
    limits: &Limits,
    on_token: &mut dyn FnMut(usize, u32) -> bool,
) -> Result<Vec<Continuation>, ModelError> {
    assert_eq!(prompts.len(), choices.len(), "prompts, and their choices");
    if let Some(sequence) = prompts.iter().position(|prompt| prompt.is_empty()) {
        return Err(ModelError::EmptySequence { sequence });
    }
    if limits.new_tokens == 0 {
        let nothing = Continuation { tokens: Vec::new(), finish: Finish::Length };
        return Ok(vec![nothing; prompts.len()]);
    }
    let mut session = Session::new(model);
    let mut results: Vec<Continuation> = Vec::with_capacity(prompts.len());
    for (prompt, choice) in prompts.iter().zip(choices) {
        let (choice, limits) = (choice.clone(), limits.clone());
        session.admit(Ask { prompt: prompt.to_vec(), choice, limits, ranks: None })?;
        results.push(Continuation { tokens: Vec::new(), finish: Finish::Caller });
    }
    while !session.is_empty() {
        for (id, step) in session.step() {
            let (step, index) = (step?, id as usize);
            let Some(token) = step.token.filter(|_| step.finish != Some(Finish::End)) else {
                results[index].finish = Finish::End;
                continue;
            };
            results[index].tokens.push(token);
            if !on_token(index, token) {
                session.end(id);
            } else if let Some(finish) = step.finish {
                results[index].finish = finish;
            }
        }
    }
    Ok(results)
}

/// Samples the next token after the tokens `seen`, of which `added` are new; none if a logit is not
/// finite.
fn choose(logits: &[f32], seen: &[u32], added: usize, choice: &Choice) -> Option<u32> {
    if !logits.iter().all(|logit| logit.is_finite()) {
        return None;
    }
    let mut logits = logits.to_vec();
    if choice.repetition_penalty != 1.0 {
        let mut seen = seen.to_vec();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            let logit = &mut logits[token as usize];
            *logit = match *logit > 0.0 {
                true => *logit / choice.repetition_penalty,
                false => *logit * choice.repetition_penalty,
            };
        }
    }
    if choice.temperature == 0.0 {
        let better = |best: usize, at: usize| if logits[at] > logits[best] { at } else { best };
        return Some((1..logits.len()).fold(0, better) as u32);
    }
    let mut ranked: Vec<(u32, f64)> =
        (0u32..).zip(&logits).map(|(t, &l)| (t, f64::from(l / choice.temperature))).collect();
    // Ties keep the order of token ids, so that the result is the same on every machine.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(choice.top_k.unwrap_or(usize::MAX).max(1));
    let largest = ranked[0].1;
    ranked.iter_mut().for_each(|(_, weight)| *weight = (*weight - largest).exp());
    let keep = kept(&ranked, choice);
    ranked.truncate(keep);
    let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
    let stream = choice.key.fold_index(added as u64);
    let mut left = stream.stream().uniform() * total;
    for (token, weight) in &ranked {
        left -= weight;
        if left < 0.0 {
            return Some(*token);
        }
    }
    ranked.last().map(|(token, _)| *token)
}

/// Number of ranked tokens to sample from; the weight of the first is 1.
fn kept(ranked: &[(u32, f64)], choice: &Choice) -> usize {
    let mut keep = ranked.len();
    if let Some(share) = choice.top_p {
        let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        // A token is kept while the tokens before it have less than the share.
        let reached = ranked.iter().position(|(_, weight)| {
            let before = sum;
            sum += weight;
            before >= f64::from(share) * total
        });
        keep = reached.unwrap_or(keep).max(1);
    }
    if let Some(share) = choice.min_p {
        let unlikely = ranked.iter().position(|(_, weight)| *weight < f64::from(share));
        keep = keep.min(unlikely.unwrap_or(keep).max(1));
    }
    keep
}

#[cfg(test)]
mod tests;
