//! Runs the requests of a task on a model, in batches of bounded size.

mod answer;
mod plan;
mod several;
#[cfg(test)]
mod tests;

pub use answer::{Answer, BatchAnswers};
pub use several::Several;

use super::infill::MaskedInfill;
use super::journal::Journal;
use super::similarity::PendingSimilarity;
use super::suitable::items_of;
use super::{
    Bos, EvaluationError, Infilled, Item, LanguageModel, LanguageModels, MaskedInput, ModelFailure,
    Reply, Request, Scored, Sequence, Task, TaskResult, TopLogprobsRequest,
};
use answer::place;
use linwright_run::Shard;
use plan::{Batch, Group, Job, RequestPlan, Work};

/// How the requests of a task are divided into batches, and which of these are computed.
///
/// Another division changes log-probabilities by rounding.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Largest number of tokens in a batch. Memory grows with it; a single longer sequence is still
    /// one batch.
    pub max_batch_tokens: usize,
    /// Longest sequence in tokens that fits in memory, if bounded.
    pub longest: Option<usize>,
    /// Whether windows of texts are compared token by token with the first of several models. Costs
    /// no further pass.
    pub divergence: bool,
    /// The batches to compute; those of other shards are only taken from the journal.
    pub shard: Shard,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { max_batch_tokens: 4096, longest: None, divergence: false, shard: Shard::WHOLE }
    }
}

/// Progress of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens processed.
    pub done_tokens: u64,
    /// Tokens to process: those of all batches that are computed here and were not known before.
    pub total_tokens: u64,
}

/// Callbacks of a long evaluation.
pub struct Hooks<'a> {
    /// Called after every batch.
    pub progress: &'a mut dyn FnMut(Progress),
    /// Asked before every batch; `true` stops.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Stores the answers to batches and restores those of earlier runs and other shards.
    pub journal: Option<&'a mut dyn Journal>,
}

/// Outcome of an evaluation of which other processes may compute shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// Every batch is known, and this is the result.
    Complete(R),
    /// Every batch of this shard is in the journal, and others are missing.
    Part {
        /// Number of known batches, of this shard and of others.
        known: usize,
        /// Number of all batches.
        total: usize,
    },
}

impl<R> Outcome<R> {
    /// The result.
    ///
    /// # Errors
    /// [`EvaluationError::Incomplete`] if batches are missing, which needs a shard.
    pub fn complete(self) -> Result<R, EvaluationError> {
        match self {
            Self::Complete(result) => Ok(result),
            Self::Part { known, total } => Err(EvaluationError::Incomplete { known, total }),
        }
    }
}

/// Evaluates a task on a model, or a shard of it.
///
/// The result has the same bits whether the evaluation was uninterrupted, resumed from its journal,
/// or divided into shards whose journals were merged.
///
/// # Errors
/// [`EvaluationError::Interrupted`] if cancelled; [`EvaluationError::ShardWithoutJournal`];
/// [`EvaluationError::JournalAnswers`]; otherwise an error of the data, the protocol or the model,
/// naming document and window or question and choice.
pub fn evaluate(
    task: &dyn Task,
    model: &dyn LanguageModel,
    options: &RunOptions,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome<TaskResult>, EvaluationError> {
    Ok(match evaluate_each(task, &Several(&[model]), options, hooks, |result| result)? {
        Outcome::Complete(mut results) => Outcome::Complete(results.swap_remove(0)),
        Outcome::Part { known, total } => Outcome::Part { known, total },
    })
}

/// Tokens that an evaluation of a task would take, generated ones included.
///
/// # Errors
/// As [`evaluate`], but for those of the model's work.
pub fn tokens_of(
    task: &dyn Task,
    model: &dyn LanguageModel,
    options: &RunOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<u64, EvaluationError> {
    let bos = resolve(task.bos(), model)?;
    let plan = RequestPlan::new(&items_of(task, model)?, model, bos, options, cancelled)?;
    Ok(plan.batches.iter().map(|batch| batch.tokens as u64).sum())
}

/// Tokens of the windows of a task that consists of texts, in order.
///
/// # Errors
/// As [`tokens_of`]; [`EvaluationError::Nothing`] for texts shorter than a window that counts.
pub fn windows_of(
    task: &dyn Task,
    model: &dyn LanguageModel,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u32>>, EvaluationError> {
    let bos = resolve(task.bos(), model)?;
    let options = RunOptions::default();
    let plan = RequestPlan::new(&items_of(task, model)?, model, bos, &options, cancelled)?;
    let windows = plan.jobs.into_iter().filter(|job| job.window.is_some());
    let windows: Vec<Vec<u32>> = windows.map(|job| job.tokens).collect();
    match windows.is_empty() {
        true => Err(EvaluationError::Nothing { task: task.id(), what: "whole windows" }),
        false => Ok(windows),
    }
}

/// Evaluates a task on several models, batch by batch, and returns the value of `keep` for each
/// result, in the order of the models: the samples of hundreds of models would not fit in memory.
/// The journal stores for each batch the answers of all models, one after the other.
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
) -> Result<Outcome<Vec<R>>, EvaluationError> {
    assert!(models.count() > 0, "no models");
    if !options.shard.is_whole() && hooks.journal.is_none() {
        return Err(EvaluationError::ShardWithoutJournal { shard: options.shard });
    }
    Prepared::new(task, models.first(), options, hooks.cancelled)?
        .evaluate_each(models, hooks, &mut keep)
}

/// A task whose requests are encoded and divided into batches, to be evaluated several times.
pub struct Prepared<'a> {
    task: &'a dyn Task,
    items: Vec<Item<'a>>,
    /// Whether documents start with the beginning-of-sequence token.
    bos_used: bool,
    plan: RequestPlan,
    shard: Shard,
}

impl<'a> Prepared<'a> {
    /// Encodes the requests of a task for models like this one.
    ///
    /// # Errors
    /// As [`tokens_of`].
    pub fn new(
        task: &'a dyn Task,
        model: &dyn LanguageModel,
        options: &RunOptions,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, EvaluationError> {
        let bos = resolve(task.bos(), model)?;
        let items = items_of(task, model)?;
        let plan = RequestPlan::new(&items, model, bos, options, cancelled)?;
        Ok(Self { task, items, bos_used: bos.is_some(), plan, shard: options.shard })
    }

    /// Number of items.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items.len()
    }

    /// Number of input tokens of all sequences and prompts, each counted alone: those of a context
    /// that several choices share are counted once for each.
    #[must_use]
    pub fn tokens_apart(&self) -> u64 {
        let jobs: usize = self.plan.jobs.iter().map(|job| job.tokens.len() - 1).sum();
        let others = self.plan.batches.iter().filter(|b| !matches!(b.work, Work::Score { .. }));
        (jobs + others.map(|batch| batch.tokens).sum::<usize>()) as u64
    }

    /// As [`evaluate_each`].
    ///
    /// # Errors
    /// As [`evaluate`].
    pub fn evaluate_each<R>(
        &self,
        models: &dyn LanguageModels,
        hooks: &mut Hooks<'_>,
        mut keep: impl FnMut(TaskResult) -> R,
    ) -> Result<Outcome<Vec<R>>, EvaluationError> {
        let mut replies = vec![self.plan.empty.clone(); models.count()];
        let (items, shard) = (&self.items, self.shard);
        let mut run = Run { items, models, hooks, shard, done: 0, total: 0 };
        let (known, total) = (run.answer(&self.plan, &mut replies)?, self.plan.batches.len());
        if known < total {
            return Ok(Outcome::Part { known, total });
        }
        let each = replies.into_iter();
        let results = each.map(|replies| Ok(keep(self.task.score(&replies, self.bos_used)?)));
        results.collect::<Result<_, _>>().map(Outcome::Complete)
    }
}

/// Checks that a model supports a task and can answer its requests, before anything is computed.
///
/// # Errors
/// [`EvaluationError`]: a causal task on a masked language model, token predictions without a head,
/// embeddings without pooling, a missing beginning-of-sequence token, or windows, answers and
/// generated texts that are too long for it.
pub fn check_model(task: &dyn Task, model: &dyn LanguageModel) -> Result<(), EvaluationError> {
    let bos = resolve(task.bos(), model)?;
    let items = items_of(task, model)?;
    RequestPlan::check(&items, model, bos)?;
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

/// The token at the start of every document, if any.
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

/// An evaluation in progress.
struct Run<'a, 'h> {
    items: &'a [Item<'a>],
    models: &'a dyn LanguageModels,
    hooks: &'a mut Hooks<'h>,
    shard: Shard,
    /// Tokens processed, and to process.
    done: u64,
    total: u64,
}

impl Run<'_, '_> {
    /// Restores or computes the batches of the shard, restores others that are known, and adds the
    /// answers to the responses. Returns the number of known batches.
    ///
    /// Answers are added in the order of the batches, since sums depend on their order.
    fn answer(
        &mut self,
        plan: &RequestPlan,
        replies: &mut [Vec<Vec<Reply>>],
    ) -> Result<usize, EvaluationError> {
        let missing = |index: &usize| {
            self.shard.owns(*index) && known(self.hooks.journal.as_deref(), *index).is_none()
        };
        let missing = (0..plan.batches.len()).filter(missing);
        self.total = missing.map(|index| plan.batches[index].tokens as u64).sum();
        let models = self.models.count();
        let mut answered = 0;
        for (index, batch) in plan.batches.iter().enumerate() {
            if let Some(answers) = known(self.hooks.journal.as_deref(), index) {
                if !plan.fits(batch, models, answers) {
                    return Err(EvaluationError::JournalAnswers { batch: index });
                }
                plan.add_answers(batch, answers, replies);
            } else if self.shard.owns(index) {
                self.check()?;
                let answers = self.compute(plan, batch)?;
                assert!(plan.fits(batch, models, &answers), "a model answers every sequence once");
                if let Some(journal) = self.hooks.journal.as_deref_mut() {
                    journal.keep(index, &answers)?;
                }
                plan.add_answers(batch, &answers, replies);
                self.advance(batch.tokens);
            } else {
                continue;
            }
            answered += 1;
        }
        Ok(answered)
    }

    /// Answers of all models to a batch.
    fn compute(&self, plan: &RequestPlan, batch: &Batch) -> Result<BatchAnswers, EvaluationError> {
        match &batch.work {
            Work::Score { groups, jobs } => {
                let jobs = &plan.jobs[jobs.clone()];
                let scored = self.scores(jobs, &plan.groups[groups.clone()], plan.divergence)?;
                answer::of_scores(self.items, jobs, scored)
            }
            Work::Generate(range) => {
                let pending = &plan.generations[range.clone()];
                let prompts: Vec<Vec<u32>> = pending.iter().map(|one| one.tokens.clone()).collect();
                let generated = self.models.generate_each(&prompts, &plan::common(pending));
                let generated =
                    generated.map_err(|source| self.failure(pending[0].item, source))?;
                Ok(answer::of_generated(generated))
            }
            Work::Infill(range) => {
                let pending = &plan.infills[range.clone()];
                let texts: Vec<MaskedInput> = pending.iter().map(|one| one.text.clone()).collect();
                let infilled = self.models.infill_each(&texts);
                let infilled = infilled.map_err(|source| self.failure(pending[0].item, source))?;
                let answer = |(infill, infilled): (&MaskedInfill, Infilled)| {
                    infill.check(&infilled, &self.items[infill.item].place)?;
                    Ok(Answer::Infilled(infilled))
                };
                let of_model = |infilled| pending.iter().zip(infilled).map(answer).collect();
                infilled.into_iter().map(of_model).collect()
            }
            Work::Compare(range) => {
                let pending = &plan.similarities[range.clone()];
                let pairs: Vec<[Vec<u32>; 2]> =
                    pending.iter().map(|one| one.pair.clone()).collect();
                let cosines = self.models.cosines_each(&pairs);
                let cosines = cosines.map_err(|source| self.failure(pending[0].item, source))?;
                let answer = |(one, cosine): (&PendingSimilarity, f64)| {
                    one.check(cosine, &self.items[one.item].place)?;
                    Ok(Answer::Cosine(cosine))
                };
                let of_model = |cosines| pending.iter().zip(cosines).map(answer).collect();
                cosines.into_iter().map(of_model).collect()
            }
        }
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

    /// The scores of a batch. If the model fails on it, its jobs are tried one by one, so that the
    /// error names the job.
    fn scores(
        &self,
        jobs: &[Job],
        groups: &[Group],
        compared: bool,
    ) -> Result<Vec<Scored>, EvaluationError> {
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
        let scored = match compared {
            true => self.models.score_against_first(&sequences),
            false => self.models.score_each(&sequences, &top_requests),
        };
        scored.map_err(|source| {
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

/// The stored answers to a batch.
fn known<'j>(journal: Option<&'j (dyn Journal + '_)>, batch: usize) -> Option<&'j BatchAnswers> {
    journal.and_then(|journal| journal.find(batch))
}
