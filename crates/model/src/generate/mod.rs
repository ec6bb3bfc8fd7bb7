//! Continuing sequences token by token.
//!
//! Keys and values of what came before are kept, so that each step computes one row a sequence.
//! Every sequence has its own random stream, so that what it becomes depends neither on the others
//! nor on their order.

mod settings;
mod text;

pub use settings::Settings;
pub use text::{GenerateError, Generated, Stopping, TextEnd, generate_text};

use crate::batch::Batch;
use crate::config::RopeScaling;
use crate::error::ModelError;
use crate::transformer::{Cache, Transformer};
use linwright_ops::SiteId;
use linwright_tensor::{Mat, RngKey};

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

/// A sequence that grows.
struct Growing {
    /// Its index among the prompts.
    index: usize,
    tokens: Vec<u32>,
    /// Tokens that are not in the cache yet.
    pending: usize,
    added: usize,
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
    let mut results: Vec<Option<Continuation>> = vec![None; prompts.len()];
    let mut cache = Cache::new(model, prompts.len());
    let mut growing: Vec<Growing> = prompts
        .iter()
        .enumerate()
        .map(|(index, prompt)| Growing {
            index,
            tokens: prompt.to_vec(),
            pending: prompt.len(),
            added: 0,
        })
        .collect();
    if limits.new_tokens == 0 {
        growing.clear();
        let nothing = Continuation { tokens: Vec::new(), finish: Finish::Length };
        results.fill(Some(nothing));
    }
    while !growing.is_empty() {
        let logits = next_logits(model, &mut cache, &mut growing)?;
        let mut going_on = Vec::with_capacity(growing.len());
        for (at, one) in growing.iter_mut().enumerate() {
            let token = choose(logits.row(at), one, choice)
                .ok_or_else(|| ModelError::NonFinite { site: head(model), stage: "logits" })?;
            let finish = one.accept(token, model, limits, on_token);
            match finish {
                None => going_on.push(at),
                Some(finish) => {
                    let tokens = one.tokens.split_off(one.tokens.len() - one.added);
                    results[one.index] = Some(Continuation { tokens, finish });
                }
            }
        }
        if going_on.len() < growing.len() {
            cache.select(&going_on);
            let mut left = going_on.into_iter().peekable();
            let mut at = 0;
            growing.retain(|_| {
                let stays = left.next_if_eq(&at).is_some();
                at += 1;
                stays
            });
        }
    }
    let all = results.into_iter().map(|result| result.expect("every sequence ends"));
    Ok(all.collect())
}

impl Growing {
    /// Takes a token, or says why the sequence ends.
    fn accept(
        &mut self,
        token: u32,
        model: &Transformer,
        limits: &Limits,
        on_token: &mut dyn FnMut(usize, u32) -> bool,
    ) -> Option<Finish> {
        if limits.end_tokens.contains(&token) {
            return Some(Finish::End);
        }
        self.tokens.push(token);
        (self.added, self.pending) = (self.added + 1, 1);
        if !on_token(self.index, token) {
            return Some(Finish::Caller);
        }
        if self.added == limits.new_tokens {
            return Some(Finish::Length);
        }
        (self.tokens.len() > model.config().max_positions).then_some(Finish::Positions)
    }
}

/// Logits of the token behind each sequence (sequences, vocab).
fn next_logits(
    model: &Transformer,
    cache: &mut Cache,
    growing: &mut [Growing],
) -> Result<Mat<f32>, ModelError> {
    for (at, one) in growing.iter_mut().enumerate() {
        if changes_frequencies(model, cache.lengths()[at], one.tokens.len()) {
            cache.truncate(at, 0);
            one.pending = one.tokens.len();
        }
    }
    let new: Vec<&[u32]> =
        growing.iter().map(|one| &one.tokens[one.tokens.len() - one.pending..]).collect();
    let batch = Batch::continuing(&new, cache.lengths());
    let mut hidden = model.embed(&batch)?;
    model.continue_layers(&mut hidden, &batch, cache)?;
    let mut last = Mat::zeros(growing.len(), hidden.cols());
    for (at, span) in batch.spans().iter().enumerate() {
        last.row_mut(at).copy_from_slice(hidden.row(span.end - 1));
    }
    Ok(model.logits(last.view()))
}

/// Whether keys of `from` tokens were turned by other frequencies than a sequence of `to` tokens
/// needs, of a model that has two sets of them. (Where the base grows with the length, transformers
/// keeps the old keys, and so do we.)
fn changes_frequencies(model: &Transformer, from: usize, to: usize) -> bool {
    from > 0
        && model.config().ropes.iter().any(|rope| {
            matches!(rope.scaling, RopeScaling::Long { .. })
                && rope.variant(from) != rope.variant(to)
        })
}

fn head(model: &Transformer) -> SiteId {
    use linwright_ops::Sites;
    let named = model.slots().into_iter().rfind(|slot| slot.role() == linwright_ops::Role::Head);
    named.map_or_else(|| SiteId("head".into()), |slot| slot.id().clone())
}

/// The next token; none if a logit is not finite.
fn choose(logits: &[f32], one: &Growing, choice: &Choice) -> Option<u32> {
    if !logits.iter().all(|logit| logit.is_finite()) {
        return None;
    }
    let mut logits = logits.to_vec();
    if choice.repetition_penalty != 1.0 {
        let mut seen = one.tokens.clone();
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
    let stream = choice.key.fold_index(one.index as u64).fold_index(one.added as u64);
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
