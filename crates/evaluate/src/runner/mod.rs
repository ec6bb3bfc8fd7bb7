//! Runs the requests of a task on a model, in batches of bounded size.

use super::infill::{self, MaskedInfill};
use super::journal::Journal;
use super::pair::{beginning, encode_pair};
use super::similarity::PendingSimilarity;
use super::suitable::items_of;
use super::{
    Bos, Cut, DetailRequest, Details, EvaluationError, Generated, Generation, Infilled, Item,
    LanguageModel, LanguageModels, MaskedInput, ModelFailure, Protocol, Reply, Request, Scored,
    Sequence, Task, TaskResult, TokenScore, TopLogprobs, TopLogprobsRequest,
};
use std::ops::Range;

/// Batching options, which change no score by more than rounding.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Largest number of tokens in a batch. Memory grows with it; a single longer sequence is still
    /// one batch.
    pub max_batch_tokens: usize,
    /// Longest sequence in tokens that fits in memory, if bounded.
    pub longest: Option<usize>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { max_batch_tokens: 4096, longest: None }
    }
}

/// Progress of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens processed.
    pub done_tokens: u64,
    /// Tokens of the whole task.
    pub total_tokens: u64,
}

/// Callbacks of a long evaluation.
pub struct Hooks<'a> {
    /// Called after every batch.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Asked before every batch; `true` stops.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Stores replies and restores those of an earlier run.
    pub journal: Option<&'a mut dyn Journal>,
}

/// A part of a request that is scored as one sequence.
struct Job {
    item: usize,
    request: usize,
    /// Index of the window, or none for a continuation.
    window: Option<usize>,
    tokens: Vec<u32>,
    first_counted: usize,
    details: Option<DetailRequest>,
}

impl Job {
    /// Index of the first scored token: that of the continuation, or of the context if its
    /// log-likelihood was requested.
    fn first_scored(&self) -> usize {
        if self.details.is_some_and(|details| details.context) { 1 } else { self.first_counted }
    }
}

/// Jobs of one item with a common prefix.
struct Group {
    jobs: Range<usize>,
    /// Length of the common prefix in tokens.
    shared: usize,
}

/// A continuation to be generated.
struct PendingGeneration {
    item: usize,
    request: usize,
    tokens: Vec<u32>,
    generation: Generation,
}

impl PendingGeneration {
    /// Truncates a prompt to fit the model; the response is still empty.
    fn plan(
        (item, request): (usize, usize),
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

/// All requests of a task, and the responses so far.
#[derive(Default)]
struct RequestPlan {
    jobs: Vec<Job>,
    generations: Vec<PendingGeneration>,
    infills: Vec<MaskedInfill>,
    similarities: Vec<PendingSimilarity>,
    /// Responses, by model, item and request.
    replies: Vec<Vec<Vec<Reply>>>,
    /// Number of remaining jobs, generations, infills and similarities, by item.
    open: Vec<usize>,
}

/// Evaluates a task on a model.
///
/// # Errors
/// [`EvaluationError::Interrupted`] if cancelled; otherwise an error of the data, the protocol or
/// the model, naming document and window or question and choice.
pub fn evaluate(
    task: &dyn Task,
    model: &dyn LanguageModel,
    options: &RunOptions,
    hooks: &mut Hooks<'_>,
) -> Result<TaskResult, EvaluationError> {
    let mut results = evaluate_each(task, &Single(model), options, hooks, |result| result)?;
    Ok(results.swap_remove(0))
}

/// Evaluates a task on several models, batch by batch, and returns the value of `keep` for each
/// result, in the order of the models: the samples of hundreds of models would not fit in memory.
/// The journal stores for each item the responses of all models, one after the other.
///
/// # Errors
/// As [`evaluate`].
///
/// # Panics
/// If there is no model.
pub fn evaluate_each<R>(
    task: &dyn Task,
    models: &dyn LanguageModels,
    options: &RunOptions,
    hooks: &mut Hooks<'_>,
    mut keep: impl FnMut(TaskResult) -> R,
) -> Result<Vec<R>, EvaluationError> {
    assert!(models.count() > 0, "no models");
    let model = models.first();
    let bos = resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
    let mut plan = RequestPlan::new(&items, models, bos, hooks)?;
    let groups = plan.groups(options.max_batch_tokens);
    plan.check_lengths(&items, &groups, options)?;
    let total = groups.iter().map(|group| plan.cost(group)).sum::<usize>()
        + plan.generations.iter().map(PendingGeneration::cost).sum::<usize>()
        + plan.infills.iter().map(MaskedInfill::cost).sum::<usize>()
        + plan.similarities.iter().map(PendingSimilarity::cost).sum::<usize>();
    let mut run = Run { items: &items, models, hooks, done: 0, total: total as u64 };
    run.score(&mut plan, &groups, options.max_batch_tokens)?;
    run.generate(&mut plan, options.max_batch_tokens)?;
    run.infill(&mut plan, options.max_batch_tokens)?;
    run.compare_texts(&mut plan, options.max_batch_tokens)?;
    let each = plan.replies.into_iter();
    each.map(|replies| Ok(keep(task.score(&replies, bos.is_some())?))).collect()
}

/// One model as [`LanguageModels`].
struct Single<'a>(&'a dyn LanguageModel);

impl LanguageModels for Single<'_> {
    fn first(&self) -> &dyn LanguageModel {
        self.0
    }

    fn count(&self) -> usize {
        1
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        if top_requests.iter().any(Option::is_some) {
            return Ok(vec![self.0.score_with_top_logprobs(sequences, top_requests)?]);
        }
        let scores = self.0.score(sequences)?;
        Ok(vec![Scored { scores, top_logprobs: vec![None; sequences.len()] }])
    }

    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        Ok(vec![self.0.infill(texts)?])
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        Ok(vec![self.0.cosines(pairs)?])
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        Ok(vec![self.0.generate(prompts, generation)?])
    }
}

/// The token at the start of every document, if any.
pub(super) fn resolve(bos: Bos, model: &dyn LanguageModel) -> Result<Option<u32>, EvaluationError> {
    let wanted = match bos {
        Bos::Auto => model.adds_bos(),
        Bos::Always => true,
        Bos::Never => false,
    };
    if !wanted {
        return Ok(None);
    }
    let token = model.bos().ok_or_else(|| EvaluationError::NoBos {
        needed_by: format!("bos {}", bos.name()),
        advice: "use --bos never",
    })?;
    Ok(Some(token))
}

impl RequestPlan {
    /// Splits all requests into jobs, each with an empty response. Items with stored responses are
    /// skipped.
    fn new(
        items: &[Item<'_>],
        models: &dyn LanguageModels,
        bos: Option<u32>,
        hooks: &Hooks<'_>,
    ) -> Result<Self, EvaluationError> {
        let (model, count) = (models.first(), models.count());
        let mut plan =
            Self { replies: vec![Vec::with_capacity(items.len()); count], ..Self::default() };
        for (index, item) in items.iter().enumerate() {
            if (hooks.cancelled)() {
                return Err(EvaluationError::Interrupted { done_tokens: 0, total_tokens: 0 });
            }
            let known = hooks.journal.as_ref().and_then(|journal| journal.find(index));
            let before = plan.planned();
            let requests = item.requests.len();
            match known.filter(|known| known.len() == requests * count) {
                Some(known) => {
                    let own = |of: usize| known[of * requests..][..requests].to_vec();
                    plan.replies.iter_mut().enumerate().for_each(|(of, all)| all.push(own(of)));
                }
                None => {
                    let replies: Vec<Reply> = (0..requests)
                        .map(|request| plan.add((index, request), item, model, bos))
                        .collect::<Result<_, _>>()?;
                    plan.replies.iter_mut().for_each(|all| all.push(replies.clone()));
                }
            }
            plan.open.push(plan.planned() - before);
        }
        Ok(plan)
    }

    /// Number of jobs, generations, infills and similarities.
    fn planned(&self) -> usize {
        self.jobs.len() + self.generations.len() + self.infills.len() + self.similarities.len()
    }

    /// Plans one request of an item.
    fn add(
        &mut self,
        (index, request): (usize, usize),
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
                let tokens: Vec<u32> = bos.into_iter().chain(text.iter().copied()).collect();
                let (tokens, windows) = cut_of(*cut, tokens, model, &item.place)?;
                for (window, (range, first_counted)) in windows.into_iter().enumerate() {
                    self.jobs.push(Job {
                        item: index,
                        request,
                        window: Some(window),
                        tokens: tokens[range].to_vec(),
                        first_counted,
                        details: None,
                    });
                }
                Ok(Reply::Rolling { nll: 0.0, tokens: 0, text_tokens: text.len(), windows: 0 })
            }
            Request::Cloze(cloze) => {
                let (infills, reply) = infill::plan((index, request), cloze, model, &item.place)?;
                self.infills.extend(infills);
                Ok(reply)
            }
            Request::Similarity(texts) => {
                let (likening, reply) =
                    PendingSimilarity::plan((index, request), texts, model, &item.place)?;
                self.similarities.push(likening);
                Ok(reply)
            }
            Request::Generate { context, generation } => {
                let tokens = beginning(bos, encode(context)?);
                let (generation, reply) =
                    PendingGeneration::plan((index, request), tokens, generation, model, item)?;
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
        groups: &[Group],
        options: &RunOptions,
    ) -> Result<(), EvaluationError> {
        let Some(longest) = options.longest else { return Ok(()) };
        let groups = groups.iter().map(|g| (self.jobs[g.jobs.start].item, self.cost(g)));
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

    /// Counts a job or generation of an item as done; returns whether it was the last.
    fn close(&mut self, item: usize) -> bool {
        self.open[item] -= 1;
        self.open[item] == 0
    }
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

/// An evaluation in progress.
struct Run<'a, 'h> {
    items: &'a [Item<'a>],
    models: &'a dyn LanguageModels,
    hooks: &'a mut Hooks<'h>,
    done: u64,
    total: u64,
}

impl Run<'_, '_> {
    /// Scores groups of jobs, batch by batch.
    fn score(
        &mut self,
        plan: &mut RequestPlan,
        groups: &[Group],
        max_tokens: usize,
    ) -> Result<(), EvaluationError> {
        let mut rest = groups;
        while !rest.is_empty() {
            self.check()?;
            let count = fitting(rest.iter().map(|group| plan.cost(group)), max_tokens);
            let (batch, after) = rest.split_at(count);
            let jobs = batch[0].jobs.start..batch[count - 1].jobs.end;
            for (of, found) in self.scores(&plan.jobs[jobs.clone()], batch)?.into_iter().enumerate()
            {
                let scored = found.scores.into_iter().zip(found.top_logprobs);
                for (index, (scores, top_logprobs)) in jobs.clone().zip(scored) {
                    let job = &plan.jobs[index];
                    check_finite(self.items, job, &scores)?;
                    let reply = &mut plan.replies[of][job.item][job.request];
                    let (context, scores) = scores.split_at(job.first_counted - job.first_scored());
                    add(reply, sum_of(scores), scores);
                    add_details(reply, job, context, top_logprobs);
                }
            }
            for index in jobs {
                self.close(plan, plan.jobs[index].item)?;
            }
            self.advance(batch.iter().map(|group| plan.cost(group)).sum());
            rest = after;
        }
        Ok(())
    }

    /// Generates continuations; those with equal stopping conditions share a batch.
    fn generate(
        &mut self,
        plan: &mut RequestPlan,
        max_tokens: usize,
    ) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.generations.len() {
            self.check()?;
            let generation = plan.generations[next].generation.clone();
            let alike = plan.generations[next..].iter().take_while(|w| w.generation == generation);
            let count = fitting(alike.map(PendingGeneration::cost), max_tokens);
            let batch = &plan.generations[next..next + count];
            let prompts: Vec<Vec<u32>> = batch.iter().map(|w| w.tokens.clone()).collect();
            let cost = batch.iter().map(PendingGeneration::cost).sum();
            let found = self.models.generate_each(&prompts, &generation);
            let found = found.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, found) in found.into_iter().enumerate() {
                for (pending, generated) in plan.generations[next..next + count].iter().zip(found) {
                    let reply = &mut plan.replies[of][pending.item][pending.request];
                    if let Reply::Generated { text, tokens, .. } = reply {
                        (*text, *tokens) = (generated.text, generated.tokens);
                    }
                }
            }
            for index in next..next + count {
                self.close(plan, plan.generations[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// Answers cloze requests.
    fn infill(&mut self, plan: &mut RequestPlan, max_tokens: usize) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.infills.len() {
            self.check()?;
            let costs = plan.infills[next..].iter().map(MaskedInfill::cost);
            let count = fitting(costs, max_tokens);
            let batch = &plan.infills[next..next + count];
            let cost = batch.iter().map(MaskedInfill::cost).sum();
            let texts: Vec<MaskedInput> = batch.iter().map(|infill| infill.text.clone()).collect();
            let found = self.models.infill_each(&texts);
            let found = found.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, found) in found.into_iter().enumerate() {
                for (infill, infilled) in plan.infills[next..next + count].iter().zip(found) {
                    let place = &self.items[infill.item].place;
                    infill.add(
                        infilled,
                        &mut plan.replies[of][infill.item][infill.request],
                        place,
                    )?;
                }
            }
            for index in next..next + count {
                self.close(plan, plan.infills[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// Compares pairs of texts.
    fn compare_texts(
        &mut self,
        plan: &mut RequestPlan,
        max_tokens: usize,
    ) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.similarities.len() {
            self.check()?;
            let count =
                fitting(plan.similarities[next..].iter().map(PendingSimilarity::cost), max_tokens);
            let batch = &plan.similarities[next..next + count];
            let cost = batch.iter().map(PendingSimilarity::cost).sum();
            let pairs: Vec<[Vec<u32>; 2]> = batch.iter().map(|one| one.pair.clone()).collect();
            let found = self.models.cosines_each(&pairs);
            let found = found.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, cosines) in found.into_iter().enumerate() {
                for (one, cosine) in plan.similarities[next..next + count].iter().zip(cosines) {
                    let place = &self.items[one.item].place;
                    one.add(cosine, &mut plan.replies[of][one.item][one.request], place)?;
                }
            }
            for index in next..next + count {
                self.close(plan, plan.similarities[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// The error of a model, or the cancellation if there was one.
    fn failure(&self, item: usize, source: ModelFailure) -> EvaluationError {
        let place = self.items[item].place.clone();
        self.check().err().unwrap_or(EvaluationError::Model { place, source })
    }

    fn check(&self) -> Result<(), EvaluationError> {
        if !(self.hooks.cancelled)() {
            return Ok(());
        }
        Err(EvaluationError::Interrupted { done_tokens: self.done, total_tokens: self.total })
    }

    fn advance(&mut self, tokens: usize) {
        self.done += tokens as u64;
        (self.hooks.progress)(Progress { done_tokens: self.done, total_tokens: self.total });
    }

    /// Counts a part of an item as done, and writes the item to the journal once it is complete.
    fn close(&mut self, plan: &mut RequestPlan, item: usize) -> Result<(), EvaluationError> {
        if plan.close(item)
            && let Some(journal) = self.hooks.journal.as_deref_mut()
        {
            let all: Vec<Reply> =
                plan.replies.iter().flat_map(|replies| replies[item].iter().cloned()).collect();
            journal.keep(item, &all)?;
        }
        Ok(())
    }

    /// The scores of a batch. If the model fails on it, its jobs are tried one by one, so that the
    /// error names the job.
    fn scores(&self, jobs: &[Job], groups: &[Group]) -> Result<Vec<Scored>, EvaluationError> {
        fn sequence(job: &Job, shared: usize) -> Sequence<'_> {
            Sequence { tokens: &job.tokens, first_counted: job.first_scored(), shared }
        }
        let start = groups[0].jobs.start;
        let mut sequences = Vec::with_capacity(jobs.len());
        for group in groups {
            for index in group.jobs.clone() {
                let shared = if index == group.jobs.start { 0 } else { group.shared };
                sequences.push(sequence(&jobs[index - start], shared));
            }
        }
        let top_request = |job: &Job| {
            let details = job.details.filter(|details| details.top_logprobs > 0)?;
            Some(TopLogprobsRequest { token: job.first_counted, count: details.top_logprobs })
        };
        let top_requests: Vec<Option<TopLogprobsRequest>> = jobs.iter().map(top_request).collect();
        self.models.score_each(&sequences, &top_requests).map_err(|source| {
            if let Err(stopped) = self.check() {
                return stopped;
            }
            let alone = jobs.iter().find_map(|job| {
                let one = self.models.score_each(&[sequence(job, 0)], &[None]);
                one.err().map(|source| (job, source))
            });
            let (job, source) = alone.unwrap_or((&jobs[0], source));
            EvaluationError::Model { place: place(self.items, job), source }
        })
    }
}

/// Number of leading costs that fit into one batch, at least one.
fn fitting(costs: impl Iterator<Item = usize>, max_tokens: usize) -> usize {
    let mut tokens = 0;
    let fitting = costs.take_while(|cost| {
        tokens += cost;
        tokens <= max_tokens
    });
    fitting.count().max(1)
}

/// Negative log-likelihood in nats.
fn sum_of(scores: &[TokenScore]) -> f64 {
    scores.iter().map(|score| score.nll).sum()
}

/// Rejects non-finite losses.
fn check_finite(
    items: &[Item<'_>],
    job: &Job,
    scores: &[TokenScore],
) -> Result<(), EvaluationError> {
    match scores.iter().position(|score| !score.nll.is_finite()) {
        None => Ok(()),
        Some(index) => Err(EvaluationError::NonFinite {
            place: place(items, job),
            token: job.first_scored() + index,
            found: scores[index].nll,
        }),
    }
}

fn place(items: &[Item<'_>], job: &Job) -> String {
    let item = &items[job.item].place;
    match job.window {
        Some(window) => format!("{item}, window {window}"),
        None => format!("{item}, choice {}", job.request),
    }
}

fn add(reply: &mut Reply, sum: f64, scores: &[TokenScore]) {
    match reply {
        Reply::LogLikelihood { log_likelihood, is_greedy, tokens, .. } => {
            *log_likelihood -= sum;
            *is_greedy &= scores.iter().all(|score| score.is_greedy);
            *tokens += scores.len();
        }
        Reply::Rolling { nll, tokens, windows, .. } => {
            *nll += sum;
            *tokens += scores.len();
            *windows += 1;
        }
        Reply::Generated { .. } | Reply::Infilled { .. } | Reply::Similarity { .. } => {}
    }
}

/// Adds the details of a log-likelihood reply, if they were requested.
fn add_details(
    reply: &mut Reply,
    job: &Job,
    context: &[TokenScore],
    top_logprobs: Option<TopLogprobs>,
) {
    if let (Reply::LogLikelihood { details, .. }, Some(wanted)) = (reply, job.details) {
        let TopLogprobs { rank, tokens } = top_logprobs.unwrap_or_default();
        *details = Some(Box::new(Details {
            rank,
            top_logprobs: tokens,
            context_log_likelihood: wanted.context.then(|| -sum_of(context)),
            context_tokens: job.first_counted,
        }));
    }
}

#[cfg(test)]
mod window_tests {
    use super::harness_windows;

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
