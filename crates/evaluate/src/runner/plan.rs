//! The requests of a task as sequences for a model, and their division into batches.
//!
//! Both depend on the task, the limits of the model and the size of batches, never on earlier
//! results: a resumed evaluation and every shard of it have the same batches, so their
//! log-probabilities are bit-identical.

use crate::infill::{self, MaskedInfill};
use crate::pair::encode_pair;
use crate::similarity::PendingSimilarity;
use crate::{
    Cut, DetailRequest, EvaluationError, Generation, Item, LanguageModel, Protocol, Reply, Request,
    RunOptions, WindowLoss,
};
use linwright_model::tokenizer::beginning;
use std::ops::Range;

/// A part of a request that is scored as one sequence.
pub(super) struct Job {
    pub(super) item: usize,
    pub(super) request: usize,
    /// Index of the window, or none for a continuation.
    pub(super) window: Option<usize>,
    pub(super) tokens: Vec<u32>,
    pub(super) first_counted: usize,
    pub(super) details: Option<DetailRequest>,
}

impl Job {
    /// Index of the first scored token: that of the continuation, or of the context if its
    /// log-likelihood was requested.
    pub(super) fn first_scored(&self) -> usize {
        if self.details.is_some_and(|details| details.context) { 1 } else { self.first_counted }
    }
}

/// Jobs of one item with a common prefix.
pub(super) struct Group {
    pub(super) jobs: Range<usize>,
    /// Length of the common prefix in tokens.
    pub(super) shared: usize,
}

/// A continuation to be generated.
pub(super) struct PendingGeneration {
    pub(super) item: usize,
    pub(super) request: usize,
    pub(super) tokens: Vec<u32>,
    pub(super) generation: Generation,
}

impl PendingGeneration {
    /// Truncates a prompt to fit the model; the response is still empty.
    fn plan(
        item: usize,
        request: usize,
        mut tokens: Vec<u32>,
        generation: &Generation,
        model: &dyn LanguageModel,
        asked: &Item<'_>,
    ) -> Result<(Self, Reply), EvaluationError> {
        let positions = model.max_positions().unwrap_or(usize::MAX);
        let room = positions.saturating_sub(generation.new_tokens);
        if room == 0 || tokens.is_empty() {
            return Err(EvaluationError::NoRoom {
                place: asked.place.clone(),
                new_tokens: generation.new_tokens,
                positions,
            });
        }
        let truncated = tokens.len().saturating_sub(room);
        let tokens = tokens.split_off(truncated);
        let reply = Reply::Generated { text: String::new(), tokens: 0, truncated };
        Ok((Self { item, request, tokens, generation: generation.clone() }, reply))
    }
}

/// The conditions of prompts of one batch, with the seeds of all.
pub(super) fn common(pending: &[PendingGeneration]) -> Generation {
    let mut generation = pending[0].generation.clone();
    if let Some(sampling) = &mut generation.sampling {
        let each = pending.iter().filter_map(|one| one.generation.sampling.as_ref());
        sampling.seeds = each.flat_map(|sampling| sampling.seeds.iter().copied()).collect();
    }
    generation
}

/// The part of the work that a batch does.
pub(super) enum Work {
    /// Scores groups of jobs.
    Score {
        /// The groups.
        groups: Range<usize>,
        /// Their jobs.
        jobs: Range<usize>,
    },
    /// Continues prompts with equal conditions.
    Generate(Range<usize>),
    /// Answers cloze requests.
    Infill(Range<usize>),
    /// Compares pairs of texts.
    Compare(Range<usize>),
}

/// One batch of work for a model.
pub(super) struct Batch {
    pub(super) work: Work,
    /// Number of input tokens, and of new ones.
    pub(super) tokens: usize,
}

/// All requests of a task in batches.
#[derive(Default)]
pub(super) struct RequestPlan {
    pub(super) jobs: Vec<Job>,
    pub(super) groups: Vec<Group>,
    pub(super) generations: Vec<PendingGeneration>,
    pub(super) infills: Vec<MaskedInfill>,
    pub(super) similarities: Vec<PendingSimilarity>,
    /// Responses before any batch, by item and request.
    pub(super) empty: Vec<Vec<Reply>>,
    /// Whether sequences are compared token by token with the first of several models: windows of
    /// texts alone are.
    pub(super) divergence: bool,
    /// The batches, in the order in which their answers are added to the responses.
    pub(super) batches: Vec<Batch>,
}

impl RequestPlan {
    /// Splits all requests into jobs, each with an empty response, and the jobs into batches.
    pub(super) fn new(
        items: &[Item<'_>],
        model: &dyn LanguageModel,
        bos: Option<u32>,
        options: &RunOptions,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, EvaluationError> {
        let mut plan = Self { empty: Vec::with_capacity(items.len()), ..Self::default() };
        for (index, item) in items.iter().enumerate() {
            if cancelled() {
                return Err(EvaluationError::Interrupted { done_tokens: 0, total_tokens: 0 });
            }
            let replies = (0..item.requests.len())
                .map(|request| plan.add(index, request, item, model, bos))
                .collect::<Result<_, _>>()?;
            plan.empty.push(replies);
        }
        plan.divergence = options.divergence && plan.jobs.iter().all(|job| job.window.is_some());
        plan.groups = plan.groups(options.max_batch_tokens);
        plan.check_lengths(items, options)?;
        plan.batches = plan.batches(options.max_batch_tokens);
        Ok(plan)
    }

    /// Rejects requests that cannot be answered, before any work. A request is tokenized only if
    /// its length in bytes does not guarantee that it fits.
    pub(super) fn check(
        items: &[Item<'_>],
        model: &dyn LanguageModel,
        bos: Option<u32>,
    ) -> Result<(), EvaluationError> {
        let positions = model.max_positions().unwrap_or(usize::MAX);
        // A token represents at least a byte, except for a few that are added before a text.
        let may_exceed = |bytes: usize| bytes.saturating_mul(2).saturating_add(8) > positions;
        let mut plan = Self::default();
        for (index, item) in items.iter().enumerate() {
            for (request, asked) in item.requests.iter().enumerate() {
                let is_open = match asked {
                    Request::LogLikelihood { context, continuation, .. } => {
                        let spaces = context.len() - context.trim_end().len();
                        continuation.is_empty() || may_exceed(spaces + continuation.len())
                    }
                    Request::Rolling { text, cut: Cut::Protocol(protocol) } => {
                        if protocol.window() > positions {
                            check_start(text, *protocol, model, &item.place)?;
                        }
                        false
                    }
                    Request::Rolling { cut: Cut::Harness, .. } => {
                        model.bos().or(model.eos()).is_none()
                    }
                    Request::Generate { context, generation } => {
                        generation.new_tokens >= positions || (context.is_empty() && bos.is_none())
                    }
                    Request::Cloze(cloze) => {
                        let answers = cloze.answers.iter().map(String::len).max().unwrap_or(0);
                        may_exceed(cloze.before.len() + cloze.after.len() + answers)
                    }
                    Request::Similarity(_) => false,
                };
                if is_open {
                    plan.add(index, request, item, model, bos)?;
                }
            }
        }
        Ok(())
    }

    /// Plans one request of an item.
    fn add(
        &mut self,
        index: usize,
        request: usize,
        item: &Item<'_>,
        model: &dyn LanguageModel,
        bos: Option<u32>,
    ) -> Result<Reply, EvaluationError> {
        let encode = |text: &str| {
            let failed = |source| EvaluationError::Tokenizer { place: item.place.clone(), source };
            model.encode(text).map_err(failed)
        };
        match &item.requests[request] {
            Request::LogLikelihood { context, continuation, details } => {
                let place = format!("{}, choice {request}", item.place);
                let pair = encode_pair(model, context, continuation, bos, &place)?;
                self.jobs.push(Job {
                    item: index,
                    request,
                    window: None,
                    tokens: pair.tokens,
                    first_counted: pair.continuation,
                    details: *details,
                });
                Ok(Reply::LogLikelihood {
                    log_likelihood: 0.0,
                    is_greedy: true,
                    tokens: 0,
                    truncated: pair.truncated,
                    details: None,
                })
            }
            Request::Rolling { text, cut } => {
                let text = encode(text)?;
                let text_tokens = text.len();
                let tokens = beginning(bos, text);
                let (tokens, windows) = cut_of(*cut, tokens, model, &item.place)?;
                // A window counts from its second token on.
                let begins = match cut {
                    Cut::Protocol(protocol) => bos.filter(|_| protocol.bos_in_windows()),
                    Cut::Harness => None,
                };
                let none = vec![WindowLoss::default(); windows.len()];
                for (window, (range, first_counted)) in windows.into_iter().enumerate() {
                    let mut tokens = tokens[range].to_vec();
                    if let (Some(bos), Some(first)) = (begins, tokens.first_mut()) {
                        *first = bos;
                    }
                    self.jobs.push(Job {
                        item: index,
                        request,
                        window: Some(window),
                        tokens,
                        first_counted,
                        details: None,
                    });
                }
                let divergences = Vec::new();
                Ok(Reply::Rolling { nll: 0.0, tokens: 0, text_tokens, windows: none, divergences })
            }
            Request::Cloze(cloze) => {
                let (infills, reply) = infill::plan(index, request, cloze, model, &item.place)?;
                self.infills.extend(infills);
                Ok(reply)
            }
            Request::Similarity(texts) => {
                let (likening, reply) =
                    PendingSimilarity::plan(index, request, texts, model, &item.place)?;
                self.similarities.push(likening);
                Ok(reply)
            }
            Request::Generate { context, generation } => {
                let tokens = beginning(bos, encode(context)?);
                let (generation, reply) =
                    PendingGeneration::plan(index, request, tokens, generation, model, item)?;
                self.generations.push(generation);
                Ok(reply)
            }
        }
    }

    /// Groups of jobs of one item that share at least half of their tokens with the first of the
    /// group, at most a batch each.
    fn groups(&self, max_tokens: usize) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, job) in self.jobs.iter().enumerate() {
            if let Some(group) = groups.last_mut() {
                let first = &self.jobs[group.jobs.start];
                let pairs = first.tokens.iter().zip(&job.tokens);
                let common = pairs.take_while(|(a, b)| a == b).count();
                let alike = first.item == job.item && job.window.is_none();
                let larger =
                    Group { jobs: group.jobs.start..index + 1, shared: group.shared.min(common) };
                if alike && 2 * common >= job.tokens.len() && self.cost(&larger) <= max_tokens {
                    *group = larger;
                    continue;
                }
            }
            groups.push(Group { jobs: index..index + 1, shared: job.tokens.len() });
        }
        groups
    }

    /// Rejects sequences that do not fit in memory, before anything is computed.
    fn check_lengths(
        &self,
        items: &[Item<'_>],
        options: &RunOptions,
    ) -> Result<(), EvaluationError> {
        let Some(longest) = options.longest else { return Ok(()) };
        let groups = self.groups.iter().map(|g| (self.jobs[g.jobs.start].item, self.cost(g)));
        let generations = self.generations.iter().map(|w| (w.item, w.cost()));
        let similarities = self.similarities.iter().map(|pair| (pair.item, pair.cost()));
        match groups.chain(generations).chain(similarities).max_by_key(|(_, tokens)| *tokens) {
            Some((item, tokens)) if tokens > longest => {
                Err(EvaluationError::TooLong { place: items[item].place.clone(), tokens, longest })
            }
            _ => Ok(()),
        }
    }

    /// Number of input tokens of a group.
    fn cost(&self, group: &Group) -> usize {
        let own = |job: &Job| job.tokens.len() - group.shared;
        group.shared + self.jobs[group.jobs.clone()].iter().map(own).sum::<usize>()
    }

    /// Divides all work into batches of at most `max_tokens`, or one sequence or group.
    fn batches(&self, max_tokens: usize) -> Vec<Batch> {
        let costs = self.groups.iter().map(|group| self.cost(group)).collect();
        let mut batches = divided(
            costs,
            max_tokens,
            |_, _| true,
            |groups| {
                let jobs =
                    self.groups[groups.start].jobs.start..self.groups[groups.end - 1].jobs.end;
                Work::Score { groups, jobs }
            },
        );
        let costs = self.generations.iter().map(PendingGeneration::cost).collect();
        let alike = |a: usize, b: usize| {
            self.generations[a].generation.is_like(&self.generations[b].generation)
        };
        batches.extend(divided(costs, max_tokens, alike, Work::Generate));
        let costs = self.infills.iter().map(MaskedInfill::cost).collect();
        batches.extend(divided(costs, max_tokens, |_, _| true, Work::Infill));
        let costs = self.similarities.iter().map(PendingSimilarity::cost).collect();
        batches.extend(divided(costs, max_tokens, |_, _| true, Work::Compare));
        batches
    }
}

/// Divides a list with these costs into batches of neighbours that are `alike` the first one, as
/// many as fit, at least one.
fn divided(
    costs: Vec<usize>,
    max_tokens: usize,
    alike: impl Fn(usize, usize) -> bool,
    work: impl Fn(Range<usize>) -> Work,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut start = 0;
    while start < costs.len() {
        let mut tokens = costs[start];
        let mut end = start + 1;
        while end < costs.len() && alike(start, end) && tokens + costs[end] <= max_tokens {
            tokens += costs[end];
            end += 1;
        }
        batches.push(Batch { work: work(start..end), tokens });
        start = end;
    }
    batches
}

/// Windows of a text: token range, and index within the window of the first counted token.
type Windows = Vec<(Range<usize>, usize)>;

/// Windows of a text. The harness puts a token before it.
fn cut_of(
    cut: Cut,
    tokens: Vec<u32>,
    model: &dyn LanguageModel,
    place: &str,
) -> Result<(Vec<u32>, Windows), EvaluationError> {
    match cut {
        Cut::Protocol(protocol) => {
            check_window(protocol, tokens.len(), model)?;
            let windows = protocol.windows(tokens.len());
            Ok((tokens, windows))
        }
        Cut::Harness => {
            let first = model.bos().or(model.eos()).ok_or_else(|| EvaluationError::NoBos {
                needed_by: place.to_owned(),
                advice: "measure perplexity with --text",
            })?;
            let all: Vec<u32> = [first].into_iter().chain(tokens).collect();
            let length = model.max_positions().unwrap_or(all.len());
            let windows = harness_windows(all.len() - 1, length);
            Ok((all, windows))
        }
    }
}

/// Windows of `length` inputs over a text of `count` tokens that follow an initial token.
fn harness_windows(count: usize, length: usize) -> Windows {
    let mut windows = Vec::new();
    let mut predicted = 0;
    while predicted < count {
        let new = length.min(count - predicted);
        let end = predicted + new + 1;
        let start = end.saturating_sub(length + 1);
        windows.push((start..end, end - start - new));
        predicted += new;
    }
    windows
}

/// Checks the window of a text by its start, since tokens of a long text take much memory.
fn check_start(
    text: &str,
    protocol: Protocol,
    model: &dyn LanguageModel,
    place: &str,
) -> Result<(), EvaluationError> {
    // A generous number of bytes per token of ordinary text, and the tokens that truncation may
    // add.
    const BYTES: usize = 32;
    const CUT: usize = 8;
    let positions = model.max_positions().unwrap_or(usize::MAX);
    let start = &text[..text.floor_char_boundary(positions.saturating_mul(BYTES))];
    let failed = |source| EvaluationError::Tokenizer { place: place.to_owned(), source };
    let mut tokens = model.encode(start).map_err(failed)?.len();
    if start.len() < text.len() {
        tokens = tokens.saturating_sub(CUT);
    }
    check_window(protocol, tokens, model)
}

/// Only an actual window can be too long: short documents fit under any bound.
fn check_window(
    protocol: Protocol,
    tokens: usize,
    model: &dyn LanguageModel,
) -> Result<(), EvaluationError> {
    let window = protocol.window().min(tokens);
    match model.max_positions() {
        Some(positions) if window > positions => {
            Err(EvaluationError::WindowTooLong { window, positions })
        }
        _ => Ok(()),
    }
}

impl PendingGeneration {
    fn cost(&self) -> usize {
        self.tokens.len() + self.generation.new_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bos, Join, Subject};

    #[test]
    fn every_window_of_a_text_begins_with_the_first_token_but_those_of_papers() {
        let (decoder, tokenizer) = crate::tests::subject();
        let model = Subject::new(&decoder, &tokenizer);
        let windows = |cut: Cut, bos: Option<u32>| {
            let text = "abcabcabca".into();
            let requests = vec![Request::Rolling { text, cut }];
            let item = Item { place: "a text".into(), requests, own: &[] };
            let options = RunOptions::default();
            let plan = RequestPlan::new(&[item], &model, bos, &options, &|| false).unwrap();
            plan.jobs.into_iter().map(|job| job.tokens).collect::<Vec<_>>()
        };
        let protocol = Protocol::new(4, 2, Bos::Auto, Join::Separate).unwrap();
        let each = windows(Cut::Protocol(protocol), Some(0));
        let papers = windows(Cut::Protocol(protocol.of_document()), Some(0));
        assert!(each.len() > 2 && papers[1][0] != 0);
        for (each, paper) in each.iter().zip(&papers) {
            assert_eq!((each[0], &each[1..]), (0, &paper[1..]), "the others are as they were");
        }
        let none = windows(Cut::Protocol(protocol), None);
        assert!(none.iter().flatten().all(|token| *token != 0));
        // Later windows of the harness continue where the previous one ended.
        let harness = windows(Cut::Harness, Some(0));
        assert_eq!(harness[0][..2], [0, 0], "its prefix, and what the tokenizer adds");
    }

    #[test]
    fn windows_of_the_harness_predict_each_token_once() {
        // Inputs [0..4], [4..8] and, filled up to the left, [6..10].
        assert_eq!(harness_windows(10, 4), [(0..5, 1), (4..9, 1), (6..11, 3)]);
        assert_eq!(harness_windows(3, 4), [(0..4, 1)]);
        assert_eq!(harness_windows(0, 4), []);
        for count in 0..30 {
            let windows = harness_windows(count, 7);
            let predicted: usize = windows.iter().map(|(range, first)| range.len() - first).sum();
            assert_eq!(predicted, count);
            assert!(windows.iter().all(|(range, _)| range.len() <= 8));
        }
    }
}
