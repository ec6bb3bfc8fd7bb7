//! Puts the requests of a task to a model, in batches of bounded size.

use super::filling::{self, Filling};
use super::journal::Journal;
use super::pair::{beginning, encode_pair};
use super::similarity::Likening;
use super::{
    Bos, Cut, EvaluationError, Filled, Generation, Item, LASER_TASKS, LanguageModel,
    LanguageModels, Likeliest, Look, Masked, ModelFailure, Peek, Peeked, Protocol, Reply, Request,
    SENTENCE_TASKS, Seen, Sequence, Task, TaskResult, TokenScore, Written,
};
use std::ops::Range;

/// How requests are answered; none of it changes a figure by more than rounding.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Tokens that the model sees at once. Memory grows with it; a single longer sequence is still
    /// taken whole.
    pub max_batch_tokens: usize,
    /// Tokens of the longest sequence that memory has room for, if that is bounded.
    pub longest: Option<usize>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { max_batch_tokens: 4096, longest: None }
    }
}

/// How far an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens seen by the model.
    pub done_tokens: u64,
    /// Tokens of the whole task.
    pub total_tokens: u64,
}

/// The caller's side of a long evaluation.
pub struct Hooks<'a> {
    /// Called after every batch.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Asked before every batch; `true` stops.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Keeps replies, and knows those of an earlier run.
    pub journal: Option<&'a mut dyn Journal>,
}

/// A piece of a request that the model sees as one sequence.
struct Job {
    item: usize,
    request: usize,
    /// Index of the window, or none for a continuation.
    window: Option<usize>,
    tokens: Vec<u32>,
    first_counted: usize,
    look: Option<Look>,
}

impl Job {
    /// The first token that is scored: that of the continuation, or of the context where its
    /// likelihood is wanted too.
    fn first_scored(&self) -> usize {
        if self.look.is_some_and(|look| look.context) { 1 } else { self.first_counted }
    }
}

/// Jobs of one item that begin alike.
struct Group {
    jobs: Range<usize>,
    /// Tokens that all of them begin with.
    shared: usize,
}

/// A continuation to be written.
struct Writing {
    item: usize,
    request: usize,
    tokens: Vec<u32>,
    generation: Generation,
}

/// Everything that is asked of the model, and what it has replied so far.
#[derive(Default)]
struct Plan {
    jobs: Vec<Job>,
    writings: Vec<Writing>,
    fillings: Vec<Filling>,
    likenings: Vec<Likening>,
    /// For each model and item the reply to each request.
    replies: Vec<Vec<Vec<Reply>>>,
    /// For each item the jobs, writings, fillings and likenings that are open.
    open: Vec<usize>,
}

/// Asks the model everything that the task wants to know.
///
/// # Errors
/// [`EvaluationError::Interrupted`] if asked to stop; else what is wrong with the data, the
/// protocol or the model, naming document and window or question and choice.
pub fn evaluate(
    task: &dyn Task,
    model: &dyn LanguageModel,
    options: &RunOptions,
    hooks: &mut Hooks<'_>,
) -> Result<TaskResult, EvaluationError> {
    let mut results = evaluate_each(task, &Alone(model), options, hooks, |result| result)?;
    Ok(results.swap_remove(0))
}

/// Asks several models the same, batch by batch, and gives what `keep` makes of each result, in the
/// order of the models: samples of hundreds of models would fill the memory. The journal keeps for
/// each item the replies of all of them, one model after the other.
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
    assert!(models.count() > 0, "models to ask");
    let model = models.first();
    let bos = resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
    let mut plan = Plan::new(&items, (models, bos), hooks)?;
    let groups = plan.groups(options.max_batch_tokens);
    plan.check_lengths(&items, &groups, options)?;
    let total = groups.iter().map(|group| plan.cost(group)).sum::<usize>()
        + plan.writings.iter().map(Writing::cost).sum::<usize>()
        + plan.fillings.iter().map(|filling| filling.text.tokens.len()).sum::<usize>()
        + plan.likenings.iter().map(Likening::cost).sum::<usize>();
    let mut run = Run { items: &items, models, hooks, done: 0, total: total as u64 };
    run.score(&mut plan, &groups, options.max_batch_tokens)?;
    run.write(&mut plan, options.max_batch_tokens)?;
    run.fill(&mut plan, options.max_batch_tokens)?;
    run.liken(&mut plan, options.max_batch_tokens)?;
    let each = plan.replies.into_iter();
    each.map(|replies| Ok(keep(task.score(&replies, bos.is_some())?))).collect()
}

/// One model among models.
struct Alone<'a>(&'a dyn LanguageModel);

impl LanguageModels for Alone<'_> {
    fn first(&self) -> &dyn LanguageModel {
        self.0
    }

    fn count(&self) -> usize {
        1
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        peeks: &[Option<Peek>],
    ) -> Result<Vec<Peeked>, ModelFailure> {
        if peeks.iter().any(Option::is_some) {
            return Ok(vec![self.0.score_and_peek(sequences, peeks)?]);
        }
        Ok(vec![(self.0.score(sequences)?, vec![None; sequences.len()])])
    }

    fn fill_each(&self, texts: &[Masked]) -> Result<Vec<Vec<Filled>>, ModelFailure> {
        Ok(vec![self.0.fill(texts)?])
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        Ok(vec![self.0.cosines(pairs)?])
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Written>>, ModelFailure> {
        Ok(vec![self.0.generate(prompts, generation)?])
    }
}

/// What is asked of a model of this kind.
fn items_of<'a>(
    task: &'a dyn Task,
    model: &dyn LanguageModel,
) -> Result<Vec<Item<'a>>, EvaluationError> {
    let pairs = SENTENCE_TASKS.iter().map(|(name, _)| *name);
    let items = if model.is_masked() { task.gaps() } else { Some(task.items()) };
    let is_pair = |request: &Request<'_>| matches!(request, Request::Similarity(_));
    let asks_tokens = |items: &Vec<Item<'_>>| {
        items.iter().flat_map(|item| &item.requests).any(|request| !is_pair(request))
    };
    if !model.has_head() && items.as_ref().is_none_or(asks_tokens) {
        let known = pairs.collect::<Vec<_>>().join(", ");
        return Err(EvaluationError::NoHead { task: task.id(), known });
    }
    items.ok_or_else(|| {
        let sets = LASER_TASKS.iter().filter(|set| set.has_gaps()).map(|set| set.name);
        let known = sets.chain(pairs).collect::<Vec<_>>().join(", ");
        EvaluationError::Masked { task: task.id(), known }
    })
}

/// Whether a task can be asked of a model of this kind, before anything is encoded or computed.
///
/// # Errors
/// [`EvaluationError`]: a masked language model that is asked how texts go on, one without a head
/// that is asked for tokens, one that makes no vectors and is asked to compare, or a tokenizer
/// without the token that begins texts.
pub fn check_model(task: &dyn Task, model: &dyn LanguageModel) -> Result<(), EvaluationError> {
    resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
    let compared = items
        .iter()
        .find(|item| item.requests.iter().any(|request| matches!(request, Request::Similarity(_))));
    match compared {
        Some(item) if model.pooling().is_none() => {
            Err(EvaluationError::NoVectors { place: item.place.clone() })
        }
        _ => Ok(()),
    }
}

/// The token that starts every document, if any.
fn resolve(bos: Bos, model: &dyn LanguageModel) -> Result<Option<u32>, EvaluationError> {
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

impl Plan {
    /// Cuts all requests into jobs, and makes for each request a reply that nothing was added to
    /// yet. Items whose replies are known already are not asked again.
    fn new(
        items: &[Item<'_>],
        (models, bos): (&dyn LanguageModels, Option<u32>),
        hooks: &Hooks<'_>,
    ) -> Result<Self, EvaluationError> {
        let (model, count) = ((models.first(), bos), models.count());
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
                        .map(|request| plan.add((index, request), item, model))
                        .collect::<Result<_, _>>()?;
                    plan.replies.iter_mut().for_each(|all| all.push(replies.clone()));
                }
            }
            plan.open.push(plan.planned() - before);
        }
        Ok(plan)
    }

    /// Everything that is to be done.
    fn planned(&self) -> usize {
        self.jobs.len() + self.writings.len() + self.fillings.len() + self.likenings.len()
    }

    /// Plans one request.
    fn add(
        &mut self,
        (index, request): (usize, usize),
        item: &Item<'_>,
        (model, bos): (&dyn LanguageModel, Option<u32>),
    ) -> Result<Reply, EvaluationError> {
        let encode = |text: &str| {
            let failed = |source| EvaluationError::Tokenizer { place: item.place.clone(), source };
            model.encode(text).map_err(failed)
        };
        match &item.requests[request] {
            Request::LogLikelihood { context, continuation, look } => {
                let place = format!("{}, choice {request}", item.place);
                let pair = encode_pair(model, (context, continuation), bos, &place)?;
                self.jobs.push(Job {
                    item: index,
                    request,
                    window: None,
                    tokens: pair.tokens,
                    first_counted: pair.continuation,
                    look: *look,
                });
                Ok(Reply::LogLikelihood {
                    log_likelihood: 0.0,
                    is_greedy: true,
                    tokens: 0,
                    truncated: pair.truncated,
                    seen: None,
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
                        look: None,
                    });
                }
                Ok(Reply::Rolling { nll: 0.0, tokens: 0, text_tokens: text.len(), windows: 0 })
            }
            Request::Fill(gap) => {
                let (fillings, reply) = filling::plan((index, request), gap, model, &item.place)?;
                self.fillings.extend(fillings);
                Ok(reply)
            }
            Request::Similarity(texts) => {
                let (likening, reply) =
                    Likening::plan((index, request), texts, model, &item.place)?;
                self.likenings.push(likening);
                Ok(reply)
            }
            Request::Generate { context, generation } => {
                let mut tokens = beginning(bos, encode(context)?);
                let positions = model.max_positions().unwrap_or(usize::MAX);
                let room = positions.saturating_sub(generation.new_tokens);
                if room == 0 || tokens.is_empty() {
                    return Err(EvaluationError::NoRoom {
                        place: item.place.clone(),
                        new_tokens: generation.new_tokens,
                        positions,
                    });
                }
                let truncated = tokens.len().saturating_sub(room);
                let tokens = tokens.split_off(truncated);
                let generation = generation.clone();
                self.writings.push(Writing { item: index, request, tokens, generation });
                Ok(Reply::Generated { text: String::new(), tokens: 0, truncated })
            }
        }
    }

    /// Jobs of one item that have at least half of their tokens in common with the first of them,
    /// as many as fit a batch.
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

    /// Refuses what memory has no room for, before anything is computed.
    fn check_lengths(
        &self,
        items: &[Item<'_>],
        groups: &[Group],
        options: &RunOptions,
    ) -> Result<(), EvaluationError> {
        let Some(longest) = options.longest else { return Ok(()) };
        let groups = groups.iter().map(|g| (self.jobs[g.jobs.start].item, self.cost(g)));
        let writings = self.writings.iter().map(|w| (w.item, w.cost()));
        let likenings = self.likenings.iter().map(|pair| (pair.item, pair.cost()));
        match groups.chain(writings).chain(likenings).max_by_key(|(_, tokens)| *tokens) {
            Some((item, tokens)) if tokens > longest => {
                Err(EvaluationError::TooLong { place: items[item].place.clone(), tokens, longest })
            }
            _ => Ok(()),
        }
    }

    /// Tokens that the model sees of a group.
    fn cost(&self, group: &Group) -> usize {
        let own = |job: &Job| job.tokens.len() - group.shared;
        group.shared + self.jobs[group.jobs.clone()].iter().map(own).sum::<usize>()
    }

    /// Counts a job or a writing of an item as done; true if it was the last.
    fn close(&mut self, item: usize) -> bool {
        self.open[item] -= 1;
        self.open[item] == 0
    }
}

/// The windows of a text: the tokens in each and the index, inside of it, of the first that counts.
type Windows = Vec<(Range<usize>, usize)>;

/// Cuts a text. The harness puts a token before it.
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

/// Windows of `length` inputs over a text of `count` tokens behind a first one.
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

/// Only a window that really occurs can be too long: short documents fit under a large one.
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

impl Writing {
    fn cost(&self) -> usize {
        self.tokens.len() + self.generation.new_tokens
    }
}

/// An evaluation on its way.
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
        plan: &mut Plan,
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
                for ((index, scores), likeliest) in jobs.clone().zip(found.0).zip(found.1) {
                    let job = &plan.jobs[index];
                    check_finite(self.items, job, &scores)?;
                    let reply = &mut plan.replies[of][job.item][job.request];
                    let (context, scores) = scores.split_at(job.first_counted - job.first_scored());
                    add(reply, sum_of(scores), scores);
                    note(reply, job, context, likeliest);
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

    /// Writes continuations, those that end alike side by side.
    fn write(&mut self, plan: &mut Plan, max_tokens: usize) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.writings.len() {
            self.check()?;
            let generation = plan.writings[next].generation.clone();
            let alike = plan.writings[next..].iter().take_while(|w| w.generation == generation);
            let count = fitting(alike.map(Writing::cost), max_tokens);
            let batch = &plan.writings[next..next + count];
            let prompts: Vec<Vec<u32>> = batch.iter().map(|w| w.tokens.clone()).collect();
            let cost = batch.iter().map(Writing::cost).sum();
            let written = self.models.generate_each(&prompts, &generation);
            let written = written.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, written) in written.into_iter().enumerate() {
                for (writing, written) in plan.writings[next..next + count].iter().zip(written) {
                    let reply = &mut plan.replies[of][writing.item][writing.request];
                    if let Reply::Generated { text, tokens, .. } = reply {
                        (*text, *tokens) = (written.text, written.tokens);
                    }
                }
            }
            for index in next..next + count {
                self.close(plan, plan.writings[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// Fills gaps.
    fn fill(&mut self, plan: &mut Plan, max_tokens: usize) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.fillings.len() {
            self.check()?;
            let costs = plan.fillings[next..].iter().map(|filling| filling.text.tokens.len());
            let count = fitting(costs, max_tokens);
            let batch = &plan.fillings[next..next + count];
            let cost = batch.iter().map(|filling| filling.text.tokens.len()).sum();
            let texts: Vec<Masked> = batch.iter().map(|filling| filling.text.clone()).collect();
            let filled = self.models.fill_each(&texts);
            let filled = filled.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, filled) in filled.into_iter().enumerate() {
                for (filling, filled) in plan.fillings[next..next + count].iter().zip(filled) {
                    let place = &self.items[filling.item].place;
                    filling.add(
                        filled,
                        &mut plan.replies[of][filling.item][filling.request],
                        place,
                    )?;
                }
            }
            for index in next..next + count {
                self.close(plan, plan.fillings[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// Compares texts.
    fn liken(&mut self, plan: &mut Plan, max_tokens: usize) -> Result<(), EvaluationError> {
        let mut next = 0;
        while next < plan.likenings.len() {
            self.check()?;
            let count = fitting(plan.likenings[next..].iter().map(Likening::cost), max_tokens);
            let batch = &plan.likenings[next..next + count];
            let cost = batch.iter().map(Likening::cost).sum();
            let pairs: Vec<[Vec<u32>; 2]> = batch.iter().map(|one| one.pair.clone()).collect();
            let found = self.models.cosines_each(&pairs);
            let found = found.map_err(|source| self.failure(batch[0].item, source))?;
            for (of, cosines) in found.into_iter().enumerate() {
                for (one, cosine) in plan.likenings[next..next + count].iter().zip(cosines) {
                    let place = &self.items[one.item].place;
                    one.add(cosine, &mut plan.replies[of][one.item][one.request], place)?;
                }
            }
            for index in next..next + count {
                self.close(plan, plan.likenings[index].item)?;
            }
            self.advance(cost);
            next += count;
        }
        Ok(())
    }

    /// What a model refused, unless it was asked to stop.
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

    /// Counts a part of an item as done, and keeps the item once it is whole.
    fn close(&mut self, plan: &mut Plan, item: usize) -> Result<(), EvaluationError> {
        if plan.close(item)
            && let Some(journal) = self.hooks.journal.as_deref_mut()
        {
            let all: Vec<Reply> =
                plan.replies.iter().flat_map(|replies| replies[item].iter().cloned()).collect();
            journal.keep(item, &all)?;
        }
        Ok(())
    }

    /// The scores of a batch. If the model refuses it, its jobs are tried one by one, so that the
    /// error can say which of them it was.
    fn scores(&self, jobs: &[Job], groups: &[Group]) -> Result<Vec<Peeked>, EvaluationError> {
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
        let peek = |job: &Job| {
            let look = job.look.filter(|look| look.likeliest > 0)?;
            Some(Peek { token: job.first_counted, likeliest: look.likeliest })
        };
        let peeks: Vec<Option<Peek>> = jobs.iter().map(peek).collect();
        self.models.score_each(&sequences, &peeks).map_err(|source| {
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

/// How many of the first costs go into one batch, at least one.
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

/// Refuses losses that are no numbers.
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
        Reply::Generated { .. } | Reply::Filled { .. } | Reply::Similarity { .. } => {}
    }
}

/// Adds what a closer look found, if there was one.
fn note(reply: &mut Reply, job: &Job, context: &[TokenScore], likeliest: Option<Likeliest>) {
    if let (Reply::LogLikelihood { seen, .. }, Some(look)) = (reply, job.look) {
        let Likeliest { rank, tokens } = likeliest.unwrap_or_default();
        *seen = Some(Box::new(Seen {
            rank,
            likeliest: tokens,
            context: look.context.then(|| -sum_of(context)),
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
