//! Answers of models to the sequences of a batch, and their conversion to responses.

use super::plan::{Batch, Job, RequestPlan, Work};
use crate::{
    Details, EvaluationError, Generated, Infilled, Item, Reply, Scored, TokenDivergences,
    TokenScore, TopLogprobs, WindowLoss,
};
use serde::{Deserialize, Serialize};

/// The answer of one model to one sequence, prompt or pair of a batch. Its JSON preserves every
/// bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Score of the counted tokens of a sequence.
    Scored {
        /// Negative log-likelihood in nats.
        nll: f64,
        /// Number of counted tokens.
        tokens: usize,
        /// Whether each of them is the most likely one.
        is_greedy: bool,
        /// Negative log-likelihood of the tokens before them, if requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_nll: Option<f64>,
        /// Largest log-probabilities, if requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        top_logprobs: Option<TopLogprobs>,
        /// Divergence of the counted tokens from the first model, if requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        divergence: Option<TokenDivergences>,
    },
    /// A continuation.
    Generated {
        /// Its text.
        text: String,
        /// Its tokens.
        tokens: usize,
    },
    /// Predictions behind masks.
    Infilled(Infilled),
    /// Cosine of two embeddings.
    Cosine(f64),
}

/// Answers to a batch, by model, then by sequence.
pub type BatchAnswers = Vec<Vec<Answer>>;

/// Answers from the scores of a batch of jobs.
pub(super) fn of_scores(
    items: &[Item<'_>],
    jobs: &[Job],
    scored: Vec<Scored>,
) -> Result<BatchAnswers, EvaluationError> {
    let of_model = |found: Scored| {
        let mut divergences = found.divergences.into_iter();
        let found = found.scores.into_iter().zip(found.top_logprobs);
        let answer = |(job, (scores, top_logprobs)): (&Job, (Vec<TokenScore>, _))| {
            check_finite(items, job, &scores)?;
            let divergence = divergences.next().map(|found| TokenDivergences::of(&found));
            if let Some((token, found)) = divergence.as_ref().and_then(|of| of.not_finite()) {
                let (place, token) = (place(items, job), job.first_scored() + token);
                return Err(EvaluationError::NonFinite { place, token, found });
            }
            let (context, counted) = scores.split_at(job.first_counted - job.first_scored());
            Ok(Answer::Scored {
                nll: sum_of(counted),
                tokens: counted.len(),
                is_greedy: counted.iter().all(|score| score.is_greedy),
                context_nll: job.details.filter(|details| details.context).map(|_| sum_of(context)),
                top_logprobs,
                divergence,
            })
        };
        jobs.iter().zip(found).map(answer).collect()
    };
    scored.into_iter().map(of_model).collect()
}

/// Answers from continuations.
pub(super) fn of_generated(generated: Vec<Vec<Generated>>) -> BatchAnswers {
    let answer = |Generated { text, tokens }| Answer::Generated { text, tokens };
    generated.into_iter().map(|found| found.into_iter().map(answer).collect()).collect()
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

/// Item and window or choice of a job, for messages.
pub(super) fn place(items: &[Item<'_>], job: &Job) -> String {
    let item = &items[job.item].place;
    match job.window {
        Some(window) => format!("{item}, window {window}"),
        None => format!("{item}, choice {}", job.request),
    }
}

impl RequestPlan {
    /// Whether answers have the form expected from `models` models for this batch.
    pub(super) fn fits(&self, batch: &Batch, models: usize, answers: &BatchAnswers) -> bool {
        let fit = |(model, answers): (usize, &Vec<Answer>)| match &batch.work {
            Work::Score { jobs, .. } => {
                fit_all(&self.jobs[jobs.clone()], answers, |job, answer| {
                    let counted = job.tokens.len() - job.first_counted;
                    let Answer::Scored { tokens, divergence, .. } = answer else { return false };
                    let compared = divergence.as_ref().map(TokenDivergences::tokens);
                    let is_compared = self.divergence && model > 0;
                    *tokens == counted && compared == is_compared.then_some(counted)
                })
            }
            Work::Generate(range) => {
                fit_all(&self.generations[range.clone()], answers, |_, answer| {
                    matches!(answer, Answer::Generated { .. })
                })
            }
            Work::Infill(range) => fit_all(
                &self.infills[range.clone()],
                answers,
                |infill, answer| matches!(answer, Answer::Infilled(found) if infill.fits(found)),
            ),
            Work::Compare(range) => {
                fit_all(&self.similarities[range.clone()], answers, |_, answer| {
                    matches!(answer, Answer::Cosine(_))
                })
            }
        };
        answers.len() == models && answers.iter().enumerate().all(fit)
    }

    /// Adds the answers to a batch to the responses, by model, item and request.
    pub(super) fn add_answers(
        &self,
        batch: &Batch,
        answers: &BatchAnswers,
        replies: &mut [Vec<Vec<Reply>>],
    ) {
        for (replies, answers) in replies.iter_mut().zip(answers) {
            let mut reply = |item: usize, request: usize, add: &dyn Fn(&mut Reply)| {
                add(&mut replies[item][request]);
            };
            match &batch.work {
                Work::Score { jobs, .. } => {
                    for (job, answer) in self.jobs[jobs.clone()].iter().zip(answers) {
                        reply(job.item, job.request, &|reply| add_score(reply, job, answer));
                    }
                }
                Work::Generate(range) => {
                    for (one, answer) in self.generations[range.clone()].iter().zip(answers) {
                        reply(one.item, one.request, &|reply| add_text(reply, answer));
                    }
                }
                Work::Infill(range) => {
                    for (one, answer) in self.infills[range.clone()].iter().zip(answers) {
                        if let Answer::Infilled(found) = answer {
                            reply(one.item, one.request, &|reply| one.add(found, reply));
                        }
                    }
                }
                Work::Compare(range) => {
                    for (one, answer) in self.similarities[range.clone()].iter().zip(answers) {
                        if let Answer::Cosine(found) = answer {
                            reply(one.item, one.request, &|reply| one.add(*found, reply));
                        }
                    }
                }
            }
        }
    }
}

fn fit_all<T>(asked: &[T], answers: &[Answer], mut fits: impl FnMut(&T, &Answer) -> bool) -> bool {
    asked.len() == answers.len() && asked.iter().zip(answers).all(|(one, answer)| fits(one, answer))
}

fn add_score(reply: &mut Reply, job: &Job, answer: &Answer) {
    let Answer::Scored {
        nll: sum,
        tokens: counted,
        is_greedy: greedy,
        context_nll,
        top_logprobs,
        divergence,
    } = answer
    else {
        return;
    };
    match reply {
        Reply::LogLikelihood { log_likelihood, is_greedy, tokens, details, .. } => {
            *log_likelihood -= sum;
            *is_greedy &= greedy;
            *tokens += counted;
            if job.details.is_some() {
                let TopLogprobs { rank, tokens } = top_logprobs.clone().unwrap_or_default();
                *details = Some(Box::new(Details {
                    rank,
                    top_logprobs: tokens,
                    context_log_likelihood: context_nll.map(|nll| -nll),
                    context_tokens: job.first_counted,
                }));
            }
        }
        Reply::Rolling { nll, tokens, windows, divergences, .. } => {
            *nll += sum;
            *tokens += counted;
            // Batches come in the order of the windows.
            divergences.extend(divergence.clone());
            if let Some(window) = job.window.and_then(|window| windows.get_mut(window)) {
                *window = WindowLoss { nll: *sum, tokens: *counted };
            }
        }
        Reply::Generated { .. } | Reply::Infilled { .. } | Reply::Similarity { .. } => {}
    }
}

fn add_text(reply: &mut Reply, answer: &Answer) {
    if let (
        Reply::Generated { text, tokens, .. },
        Answer::Generated { text: found, tokens: count },
    ) = (reply, answer)
    {
        (*text, *tokens) = (found.clone(), *count);
    }
}
