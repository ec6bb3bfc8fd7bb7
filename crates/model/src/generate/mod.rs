//! Continuing sequences token by token.
//!
//! Keys and values of what came before are kept, so that each step computes one row a sequence.
//! Every sequence has its own random stream, so that what it becomes depends neither on the others
//! nor on their order.

mod session;
mod settings;
mod text;

pub use session::{Ask, Ranks, Session, Step};
pub use settings::SamplingSettings;
pub use text::{GenerateError, Generated, Stopping, TextEnd, TextWriter, generate_text};

use crate::error::ModelError;
use crate::transformer::Transformer;
use linwright_tensor::RngKey;

/// How the next token is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Logits are divided by this; 0 takes the likeliest token, the first of equal ones.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are drawn from.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability (Holtzman et al. 2019,
    /// arXiv:1904.09751).
    pub top_p: Option<f32>,
    /// Only tokens that are at least this likely, as a share of the likeliest.
    pub min_p: Option<f32>,
    /// Logits of tokens that occurred are divided by this if positive, multiplied if negative
    /// (Keskar et al. 2019, arXiv:1909.05858, section 4.1).
    pub repetition_penalty: f32,
    /// Names the random streams.
    pub key: RngKey,
}

impl Choice {
    /// The likeliest token.
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
}

/// When a continuation ends, at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens that are added at most.
    pub new_tokens: usize,
    /// Tokens that end a sequence; they are not part of it.
    pub end_tokens: Vec<u32>,
}

/// Why a continuation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// With a token that ends sequences.
    End,
    /// At the limit of new tokens.
    Length,
    /// At the last position that the model has.
    Positions,
    /// The caller had enough.
    Caller,
}

/// What was added to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub finish: Finish,
}

/// Continues prompts side by side. `on_token` sees each new token as (index of the prompt, token)
/// and says whether to go on with that sequence; a token that ends a sequence is not shown.
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
    if let Some(sequence) = prompts.iter().position(|prompt| prompt.is_empty()) {
        return Err(ModelError::EmptySequence { sequence });
    }
    if limits.new_tokens == 0 {
        let nothing = Continuation { tokens: Vec::new(), finish: Finish::Length };
        return Ok(vec![nothing; prompts.len()]);
    }
    let mut session = Session::new(model);
    let mut results: Vec<Continuation> = Vec::with_capacity(prompts.len());
    for (index, prompt) in (0..).zip(prompts) {
        let choice = Choice { key: choice.key.fold_index(index), ..choice.clone() };
        let limits = limits.clone();
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

/// The next token behind those that were `seen`, of which `added` are new; none if a logit is not
/// finite.
fn choose(logits: &[f32], (seen, added): (&[u32], usize), choice: &Choice) -> Option<u32> {
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
    // Equal logits keep the order of their tokens, so that the outcome is the same everywhere.
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

/// How many of the ranked tokens are drawn from; the weight of the first is 1.
fn kept(ranked: &[(u32, f64)], choice: &Choice) -> usize {
    let mut keep = ranked.len();
    if let Some(share) = choice.top_p {
        let total: f64 = ranked.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        // A token stays as long as those before it do not reach the share.
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
