//! Sequences that grow side by side, each with its own choice and limits; others may join them
//! between two steps. What a sequence becomes depends on none of the others.

use super::{Choice, Finish, Limits, choose};
use crate::batch::Batch;
use crate::config::RopeScaling;
use crate::error::ModelError;
use crate::transformer::{Cache, Ranked, Transformer};
use linwright_ops::{Role, SiteId, Sites};
use linwright_tensor::{Mat, MatRef};

/// What is asked of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What is continued.
    pub prompt: Vec<u32>,
    /// How tokens are chosen; the random stream is that of this key alone.
    pub choice: Choice,
    /// When it ends. Without new tokens only the prompt is ranked, and its last token is predicted
    /// without being an input.
    pub limits: Limits,
    /// Which tokens are to be ranked, if any.
    pub ranks: Option<Ranks>,
}

/// Which tokens are ranked: the new ones, and the prompt if asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Likeliest tokens told for each place.
    pub top: usize,
    /// Whether the prompt is ranked too.
    pub prompt: bool,
}

/// What one step did to one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// With the first step, where asked: the prompt from its second token on.
    pub prompt: Vec<Ranked>,
    /// The new token, also if it is one that ends sequences; none where none was asked for.
    pub token: Option<u32>,
    /// Its place among the others, where asked.
    pub rank: Option<Ranked>,
    /// Why the sequence has ended, if it has. It has then left the session.
    pub finish: Option<Finish>,
}

/// A sequence that grows.
#[derive(Debug)]
struct Growing {
    id: u64,
    ask: Ask,
    tokens: Vec<u32>,
    /// Tokens that are not in the cache yet.
    pending: usize,
    added: usize,
}

/// Sequences that grow side by side.
#[derive(Debug)]
pub struct Session<'m> {
    model: &'m Transformer,
    cache: Cache,
    growing: Vec<Growing>,
    admitted: u64,
}

impl<'m> Session<'m> {
    /// One without sequences.
    ///
    /// # Panics
    /// If the model has no head.
    #[must_use]
    pub fn new(model: &'m Transformer) -> Self {
        assert!(model.has_head(), "a model without a head continues nothing");
        Self { model, cache: Cache::new(model, 0), growing: Vec::new(), admitted: 0 }
    }

    /// Takes a sequence in, and gives the number by which it is known: they count from 0.
    ///
    /// # Errors
    /// [`ModelError`] if the prompt is empty, longer than the model has positions, or holds a token
    /// that the model does not know; nothing is taken in then.
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

    /// Whether there is no sequence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.growing.is_empty()
    }

    /// Tokens that the sequences may come to hold.
    #[must_use]
    pub fn room(&self) -> usize {
        self.growing.iter().map(|one| one.ask.room()).sum()
    }

    /// Ends a sequence, if it has not ended yet.
    pub fn end(&mut self, id: u64) {
        self.keep(|one| one.id != id);
    }

    /// Lets every sequence grow by one token; tells of each, in the order in which they came. A
    /// sequence that fails has left the session, and the others go on.
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

    /// A pass for each sequence by itself, after one for all failed: so it shows whose fault it
    /// was.
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
    /// Tokens of the prompt that are inputs.
    fn inputs(&self) -> usize {
        self.prompt.len() - usize::from(self.limits.new_tokens == 0)
    }

    /// Tokens that the sequence may come to hold.
    #[must_use]
    pub fn room(&self) -> usize {
        self.prompt.len().saturating_add(self.limits.new_tokens)
    }
}

/// What a pass gave for one sequence.
struct Passed {
    prompt: Vec<Ranked>,
    /// Logits of the next token; empty where none is wanted.
    logits: Vec<f32>,
}

impl Growing {
    /// Takes what a pass gave.
    fn grow(&mut self, model: &Transformer, passed: Passed) -> Result<Step, ModelError> {
        let Passed { prompt, logits } = passed;
        if self.ask.limits.new_tokens == 0 {
            return Ok(Step { prompt, token: None, rank: None, finish: Some(Finish::Length) });
        }
        let token = choose(&logits, (&self.tokens, self.added), &self.ask.choice)
            .ok_or_else(|| ModelError::NonFinite { site: head(model), stage: "logits" })?;
        let row = MatRef::new(&logits, 1, logits.len());
        let rank = match self.ask.ranks {
            Some(ranks) => model.rank_logits(row, &[token], ranks.top)?.pop(),
            None => None,
        };
        Ok(Step { prompt, token: Some(token), rank, finish: self.accept(token, model) })
    }

    /// Takes a token, or says why the sequence ends.
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

    /// The inputs of the next pass.
    fn inputs(&self) -> &[u32] {
        let end = match self.added {
            0 => self.ask.inputs(),
            _ => self.tokens.len(),
        };
        &self.tokens[end - self.pending..end]
    }
}

/// Computes what is new of each sequence.
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

/// Ranks the prompts of sequences that have not grown yet and want that.
fn rank_prompts(
    model: &Transformer,
    hidden: &Mat<f32>,
    batch: &Batch,
    growing: &[Growing],
) -> Result<Vec<Vec<Ranked>>, ModelError> {
    let mut all = Vec::with_capacity(growing.len());
    for (one, span) in growing.iter().zip(batch.spans()) {
        let Some(ranks) = one.ask.ranks.filter(|ranks| ranks.prompt && one.added == 0) else {
            all.push(Vec::new());
            continue;
        };
        let targets = one.tokens[1..].iter().copied();
        let wanted: Vec<(usize, u32)> = (span.start..).zip(targets).collect();
        all.push(model.rank_rows(hidden, &wanted, ranks.top)?);
    }
    Ok(all)
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
    let named = model.slots().into_iter().rfind(|slot| slot.role() == Role::Head);
    named.map_or_else(|| SiteId("head".into()), |slot| slot.id().clone())
}
