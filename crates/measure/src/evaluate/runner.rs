//! Puts the requests of a task to a model, in batches of bounded size.

use super::pair::encode_pair;
use super::{Bos, EvaluationError, Item, LanguageModel, Reply, Request, Sequence};
use super::{Task, TaskResult, TokenScore};

/// How requests are answered; none of it changes a figure by more than rounding.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Tokens that the model sees at once. Memory grows with it; a single longer sequence is still
    /// taken whole.
    pub max_batch_tokens: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { max_batch_tokens: 4096 }
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
}

/// For each item the reply to each request.
type Replies = Vec<Vec<Reply>>;

/// A piece of a request that the model sees as one sequence.
struct Job {
    item: usize,
    request: usize,
    /// Index of the window, or none for a continuation.
    window: Option<usize>,
    tokens: Vec<u32>,
    first_counted: usize,
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
    let bos = resolve(task.bos(), model)?;
    let items = task.items();
    let (jobs, mut replies) = plan(&items, model, bos, hooks.cancelled)?;
    let total_tokens = jobs.iter().map(|job| job.tokens.len() as u64).sum();
    let mut done_tokens = 0;
    let mut rest = &jobs[..];
    while !rest.is_empty() {
        if (hooks.cancelled)() {
            return Err(EvaluationError::Interrupted { done_tokens, total_tokens });
        }
        let (batch, after) = rest.split_at(batch_len(rest, options.max_batch_tokens));
        for (job, scores) in batch.iter().zip(score(&items, model, batch)?) {
            let sum = total(&items, job, &scores)?;
            add(&mut replies[job.item][job.request], sum, &scores);
            done_tokens += job.tokens.len() as u64;
        }
        (hooks.progress)(Progress { done_tokens, total_tokens });
        rest = after;
    }
    task.score(&replies, bos.is_some())
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

/// Cuts all requests into jobs, and makes for each request a reply that nothing was added to yet.
#[allow(clippy::type_complexity, reason = "a pair that exists between two lines")]
fn plan(
    items: &[Item<'_>],
    model: &dyn LanguageModel,
    bos: Option<u32>,
    cancelled: &dyn Fn() -> bool,
) -> Result<(Vec<Job>, Replies), EvaluationError> {
    let (mut jobs, mut replies) = (Vec::new(), Vec::with_capacity(items.len()));
    for (index, item) in items.iter().enumerate() {
        if cancelled() {
            return Err(EvaluationError::Interrupted { done_tokens: 0, total_tokens: 0 });
        }
        let mut of_item = Vec::with_capacity(item.requests.len());
        for (request, content) in item.requests.iter().enumerate() {
            let place = Place { item: index, request };
            of_item.push(plan_request(content, item, place, (model, bos), &mut jobs)?);
        }
        replies.push(of_item);
    }
    Ok((jobs, replies))
}

#[derive(Clone, Copy)]
struct Place {
    item: usize,
    request: usize,
}

fn plan_request(
    content: &Request<'_>,
    item: &Item<'_>,
    Place { item: index, request }: Place,
    (model, bos): (&dyn LanguageModel, Option<u32>),
    jobs: &mut Vec<Job>,
) -> Result<Reply, EvaluationError> {
    match content {
        Request::LogLikelihood { context, continuation } => {
            let place = format!("{}, choice {request}", item.place);
            let pair = encode_pair(model, (context, continuation), bos, &place)?;
            jobs.push(Job {
                item: index,
                request,
                window: None,
                tokens: pair.tokens,
                first_counted: pair.continuation,
            });
            Ok(Reply::LogLikelihood {
                log_likelihood: 0.0,
                is_greedy: true,
                tokens: 0,
                truncated: pair.truncated,
            })
        }
        Request::Rolling { text, protocol } => {
            let mut tokens: Vec<u32> = bos.into_iter().collect();
            let text = model.encode(text).map_err(|source| EvaluationError::Tokenizer {
                place: item.place.clone(),
                source,
            })?;
            tokens.extend(&text);
            for (window, (range, first_counted)) in
                protocol.windows(tokens.len()).into_iter().enumerate()
            {
                jobs.push(Job {
                    item: index,
                    request,
                    window: Some(window),
                    tokens: tokens[range].to_vec(),
                    first_counted,
                });
            }
            check_window(protocol.window().min(tokens.len()), model)?;
            Ok(Reply::Rolling { nll: 0.0, tokens: 0, text_tokens: text.len(), windows: 0 })
        }
    }
}

/// Only a window that really occurs can be too long: short documents fit under a large one.
fn check_window(window: usize, model: &dyn LanguageModel) -> Result<(), EvaluationError> {
    match model.max_positions() {
        Some(positions) if window > positions => {
            Err(EvaluationError::WindowTooLong { window, positions })
        }
        _ => Ok(()),
    }
}

/// How many of the first jobs go into one batch.
fn batch_len(jobs: &[Job], max_tokens: usize) -> usize {
    let mut tokens = 0;
    let fitting = jobs.iter().take_while(|job| {
        tokens += job.tokens.len();
        tokens <= max_tokens
    });
    fitting.count().max(1)
}

/// The scores of a batch. If the model refuses it, its jobs are tried one by one, so that the error
/// can say which of them it was.
fn score(
    items: &[Item<'_>],
    model: &dyn LanguageModel,
    batch: &[Job],
) -> Result<Vec<Vec<TokenScore>>, EvaluationError> {
    let sequences: Vec<Sequence<'_>> = batch
        .iter()
        .map(|job| Sequence { tokens: &job.tokens, first_counted: job.first_counted })
        .collect();
    model.score(&sequences).map_err(|source| {
        let alone = batch
            .iter()
            .zip(sequences.chunks(1))
            .find_map(|(job, one)| model.score(one).err().map(|source| (job, source)));
        let (job, source) = alone.unwrap_or((&batch[0], source));
        EvaluationError::Model { place: place(items, job), source }
    })
}

/// The negative log-likelihood of a job in nats.
fn total(items: &[Item<'_>], job: &Job, scores: &[TokenScore]) -> Result<f64, EvaluationError> {
    match scores.iter().position(|score| !score.nll.is_finite()) {
        None => Ok(scores.iter().map(|score| score.nll).sum()),
        Some(index) => Err(EvaluationError::NonFinite {
            place: place(items, job),
            token: job.first_counted + index,
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
    }
}
