//! Speed of a model for a prompt and for decoding.

use linwright_evaluate::{EvaluationError, tokens_per_second};
use linwright_model::Transformer;
use linwright_model::generate::{Choice, Limits, generate};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Tokens of the prompt before decoding.
const PROMPT: usize = 16;
/// Tokens that are decoded; the first is not timed, since it computes the prompt.
const DECODED: usize = 33;
/// Rounds, whose median is reported; both models alternate.
const ROUNDS: usize = 3;

/// Tokens per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Of a text that is known, in windows.
    pub prompt: f64,
    /// Of decoding one sequence, token by token; none for encoders and models without positions
    /// for it.
    pub decode: Option<f64>,
}

/// Speeds of models that alternate, in their order.
///
/// # Errors
/// [`EvaluationError`] if a model cannot run, or if cancelled.
pub(super) fn speeds(
    models: &[&Transformer],
    windows: &[Vec<u32>],
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<Speed>, EvaluationError> {
    let prompts = tokens_per_second(models, windows, cancelled)?;
    let prompt = &windows[0][..windows[0].len().min(PROMPT)];
    let decodes = |model: &&Transformer| {
        let config = model.config();
        config.is_causal() && model.has_head() && prompt.len() + DECODED <= config.max_positions
    };
    let mut rounds = vec![Vec::new(); models.len()];
    if models.iter().all(decodes) {
        for _ in 0..ROUNDS {
            for (model, rounds) in models.iter().zip(&mut rounds) {
                if cancelled() {
                    return Err(EvaluationError::Interrupted { done_tokens: 0, total_tokens: 0 });
                }
                rounds.extend(decoded(model, prompt)?);
            }
        }
    }
    let speed = |(prompt, mut rounds): (f64, Vec<f64>)| {
        rounds.sort_by(f64::total_cmp);
        Speed { prompt, decode: rounds.get(rounds.len() / 2).copied() }
    };
    Ok(prompts.into_iter().zip(rounds).map(speed).collect())
}

/// Tokens per second after the first one.
fn decoded(model: &Transformer, prompt: &[u32]) -> Result<Option<f64>, EvaluationError> {
    let limits = Limits { new_tokens: DECODED, end_tokens: Vec::new() };
    let (mut began, mut count) = (None, 0);
    let mut on_token = |_: usize, _: u32| {
        match began {
            None => began = Some(Instant::now()),
            Some(_) => count += 1,
        }
        true
    };
    generate(model, &[prompt], &Choice::greedy(), &limits, &mut on_token).map_err(|source| {
        EvaluationError::Model { place: "decoding".to_owned(), source: source.into() }
    })?;
    Ok(began.filter(|_| count > 0).map(|began| f64::from(count) / began.elapsed().as_secs_f64()))
}
