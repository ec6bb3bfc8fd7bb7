//! Continuous batching: sequences with their own sampling parameters and limits are generated
//! together, and others may join between two steps. The continuation of a sequence does not depend
//! on the others.

use super::{Choice, Finish, Limits, choose};
use crate::Role;
use crate::batch::Batch;
use crate::config::RopeScaling;
use crate::error::ModelError;
use crate::transformer::{Cache, Ranked, Transformer};
use linwright_ops::{SiteId, Sites};
use linwright_tensor::{Mat, MatRef};

/// A request for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// Sampling parameters; the random stream depends on this key only.
    pub choice: Choice,
    /// Stopping conditions. With no new tokens only the prompt is scored, and its last token is
    /// predicted without being an input.
    pub limits: Limits,
    /// The requested log-probabilities, if any.
    pub ranks: Option<Ranks>,
}

/// Log-probabilities to report: of the new tokens, and optionally of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Largest `logprobs` per position.
    pub top: usize,
    /// Whether the prompt is scored too.
    pub prompt: bool,
}

/// Result of one step for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// After the first step, if requested: the scores of the prompt from its second token on.
    pub prompt: Vec<Ranked>,
    /// The new token, also if it is an end-of-sequence token; none if no new token was requested.
    pub token: Option<u32>,
    /// Its log-probability and rank, if requested.
    pub rank: Option<Ranked>,
    /// Reason why the sequence ended, if it did. It has then left the session.
    pub finish: Option<Finish>,
}

/// A sequence being generated.
#[derive(Debug)]
struct Growing {
    id: u64,
    ask: Ask,
    tokens: Vec<u32>,
    /// Tokens that are not yet in the KV cache.
    pending: usize,
    added: usize,
}

/// A batch of sequences being generated.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Transformer,
    cache: Cache,
    growing: Vec<Growing>,
    admitted: u64,
}

impl<'m> Session<'m> {
    /// An empty session.
    ///
    /// # Panics
    /// If the model has no head.
    #[must_use]
    pub fn new(model: &'m Transformer) -> Self {
        assert!(model.has_head(), "a model without a head cannot generate");
        Self { model, cache: Cache::new(model, 0), growing: Vec::new(), admitted: 0 }
    }

    /// Adds a sequence and returns its id; ids count from 0.
    ///
    /// # Errors
    /// [`ModelError`] if the prompt is empty, longer than the longest input, or has an unknown
    /// token; the session is then unchanged.
    pub fn admit(&mut self, ask: Ask) -> Result<u64, ModelError> {
        let (config, sequence) = (self.model.config(), self.growing.len());
        if ask.prompt.is_empty() {
            return Err(ModelError::EmptySequence { sequence });
        }
        let (length, max) = (ask.inputs(), config.max_positions);
        if length > max {
            return Err(ModelError::SequenceTooLong { sequence, length, max });
        }
        let vocab = config.vocab;
        if let Some(at) = ask.prompt.iter().position(|&token| token as usize >= vocab) {
            let row = at + self.growing.iter().map(|one| one.pending).sum::<usize>();
            return Err(ModelError::TokenOutOfRange { token: ask.prompt[at], row, vocab });
        }
        let id = self.admitted;
        self.admitted += 1;
        let (tokens, pending) = (ask.prompt.clone(), length);
        self.growing.push(Growing { id, ask, tokens, pending, added: 0 });
        self.cache.append(Cache::new(self.model, 1));
        Ok(id)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.growing.is_empty()
    }

    /// Largest number of tokens that the sequences may reach in total.
    #[must_use]
    pub fn room(&self) -> usize {
        self.growing.iter().map(|one| one.ask.room()).sum()
    }

    /// Removes a sequence, if it has not ended yet.
    pub fn end(&mut self, id: u64) {
        self.keep(|one| one.id != id);
    }

    /// Generates one token for every sequence; returns the results in the order of admission. A
    /// sequence that fails leaves the session, and the others continue.
    pub fn step(&mut self) -> Vec<(u64, Result<Step, ModelError>)> {
        let passed = match pass(self.model, &mut self.cache, &mut self.growing) {
            Ok(passed) => passed.into_iter().map(Ok).collect(),
            Err(error) if self.growing.len() == 1 => vec![Err(error)],
            Err(_) => self.apart(),
        };
        let mut steps = Vec::with_capacity(self.growing.len());
        for (one, passed) in self.growing.iter_mut().zip(passed) {
            let step = passed.and_then(|passed| one.grow(self.model, passed));
            steps.push((one.id, step));
        }
        let gone = |(_, step): &(u64, Result<Step, ModelError>)| match step {
            Ok(step) => step.finish.is_some(),
            Err(_) => true,
        };
        let ended: Vec<u64> = steps.iter().filter(|step| gone(step)).map(|(id, _)| *id).collect();
        self.keep(|one| !ended.contains(&one.id));
        steps
    }

    /// One pass per sequence, after the pass of the whole batch failed, to find the sequence
    /// responsible.
    fn apart(&mut self) -> Vec<Result<Passed, ModelError>> {
        self.cache.repair();
        let cache = std::mem::replace(&mut self.cache, Cache::new(self.model, 0));
        let alone = |(one, mut cache): (&mut Growing, Cache)| {
            let passed = pass(self.model, &mut cache, std::slice::from_mut(one));
            cache.repair();
            self.cache.append(cache);
            passed.map(|mut passed| passed.remove(0))
        };
        self.growing.iter_mut().zip(cache.split()).map(alone).collect()
    }

    fn keep(&mut self, stays: impl Fn(&Growing) -> bool) {
        let indices: Vec<usize> =
            (0..self.growing.len()).filter(|&index| stays(&self.growing[index])).collect();
        if indices.len() < self.growing.len() {
            self.cache.select(&indices);
            self.growing.retain(stays);
        }
    }
}

impl Ask {
    /// Prompt tokens that are inputs.
    fn inputs(&self) -> usize {
        self.prompt.len() - usize::from(self.limits.new_tokens == 0)
    }

    /// Largest number of tokens that the sequence may reach.
    #[must_use]
    pub fn room(&self) -> usize {
        self.prompt.len().saturating_add(self.limits.new_tokens)
    }
}

/// Output of a pass for one sequence.
struct Passed {
    prompt: Vec<Ranked>,
    /// Logits of the next token; empty if none is wanted.
    logits: Vec<f32>,
}

impl Growing {
    /// Applies the output of a pass.
    fn grow(&mut self, model: &Transformer, passed: Passed) -> Result<Step, ModelError> {
        let Passed { prompt, logits } = passed;
        if self.ask.limits.new_tokens == 0 {
            return Ok(Step { prompt, token: None, rank: None, finish: Some(Finish::Length) });
        }
        let token = choose(&logits, &self.tokens, self.added, &self.ask.choice)
            .ok_or_else(|| ModelError::NonFinite { site: head(model), what: "logits" })?;
        let row = MatRef::new(&logits, 1, logits.len());
        let rank = match self.ask.ranks {
            Some(ranks) => model.rank_logits(row, &[token], ranks.top)?.pop(),
            None => None,
        };
        Ok(Step { prompt, token: Some(token), rank, finish: self.accept(token, model) })
    }

    /// Appends a token, or returns the reason why the sequence ends.
    fn accept(&mut self, token: u32, model: &Transformer) -> Option<Finish> {
        if self.ask.limits.end_tokens.contains(&token) {
            return Some(Finish::End);
        }
        self.tokens.push(token);
        (self.added, self.pending) = (self.added + 1, 1);
        if self.added == self.ask.limits.new_tokens {
            return Some(Finish::Length);
        }
        (self.tokens.len() > model.config().max_positions).then_some(Finish::Positions)
    }

    /// Inputs of the next pass.
    fn inputs(&self) -> &[u32] {
        let end = match self.added {
            0 => self.ask.inputs(),
            _ => self.tokens.len(),
        };
        &self.tokens[end - self.pending..end]
    }
}

/// Computes the new tokens of each sequence.
fn pass(
    model: &Transformer,
    cache: &mut Cache,
    growing: &mut [Growing],
) -> Result<Vec<Passed>, ModelError> {
    for (at, one) in growing.iter_mut().enumerate() {
        if changes_frequencies(model, cache.lengths()[at], one.tokens.len()) {
            cache.truncate(at, 0);
            one.pending = one.tokens.len();
        }
    }
    let new: Vec<&[u32]> = growing.iter().map(|one| one.inputs()).collect();
    let batch = Batch::continuing(&new, cache.lengths());
    let mut hidden = model.embed(&batch)?;
    model.continue_layers(&mut hidden, &batch, cache)?;
    let prompts = rank_prompts(model, &hidden, &batch, growing)?;
    let wants: Vec<bool> = growing.iter().map(|one| one.ask.limits.new_tokens > 0).collect();
    let ends = batch.spans().iter().zip(&wants).filter(|(_, wants)| **wants);
    let ends: Vec<usize> = ends.map(|(span, _)| span.end - 1).collect();
    let mut last = Mat::zeros(ends.len(), hidden.cols());
    for (at, &end) in ends.iter().enumerate() {
        last.row_mut(at).copy_from_slice(hidden.row(end));
    }
    let logits = if ends.is_empty() { Mat::default() } else { model.logits(last.view()) };
    let mut rows = (0..ends.len()).map(|at| logits.row(at).to_vec());
    let row = |wants: bool| if wants { rows.next().unwrap_or_default() } else { Vec::new() };
    let rows: Vec<Vec<f32>> = wants.into_iter().map(row).collect();
    Ok(prompts.into_iter().zip(rows).map(|(prompt, logits)| Passed { prompt, logits }).collect())
}

/// Scores the prompts of new sequences that request it.
fn rank_prompts(
    model: &Transformer,
    hidden: &Mat<f32>,
    batch: &Batch,
    growing: &[Growing],
) -> Result<Vec<Vec<Ranked>>, ModelError> {
    let mut ranked = Vec::with_capacity(growing.len());
    for (one, span) in growing.iter().zip(batch.spans()) {
        let Some(ranks) = one.ask.ranks.filter(|ranks| ranks.prompt && one.added == 0) else {
            ranked.push(Vec::new());
            continue;
        };
        let targets = one.tokens[1..].iter().copied();
        let wanted: Vec<(usize, u32)> = (span.start..).zip(targets).collect();
        ranked.push(model.rank_rows(hidden, &wanted, ranks.top)?);
    }
    Ok(ranked)
}

/// Whether cached keys of `from` tokens have other rotary frequencies than a sequence of `to`
/// tokens needs, for a model with two sets of frequencies. (With a dynamic base, old keys are kept,
/// as in transformers.)
fn changes_frequencies(model: &Transformer, from: usize, to: usize) -> bool {
    from > 0
        && model.config().ropes.iter().any(|rope| {
            matches!(rope.scaling, RopeScaling::Long { .. })
                && rope.variant(from) != rope.variant(to)
        })
}

fn head(model: &Transformer) -> SiteId {
    let named = model.slots().into_iter().rfind(|slot| Role::of(slot) == Role::Head);
    named.map_or_else(|| SiteId("head".into()), |slot| slot.id().clone())
}
