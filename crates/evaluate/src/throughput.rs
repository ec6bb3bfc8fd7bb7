//! Tokens per second that models score or, without a head, encode.

use super::decoder::score;
use super::{EvaluationError, Sequence};
use linwright_model::{Batch, Transformer};
use linwright_ops::{Network, NoProbe};
use std::time::{Duration, Instant};

/// Largest number of tokens in one pass, unless the first window is longer.
const MAX_TOKENS: usize = 512;
/// Tokens of the warm-up pass.
const WARM_UP: usize = 16;
/// Rounds, whose median is reported.
const ROUNDS: usize = 3;
/// Smallest duration of a model's passes in a round.
const MIN_ROUND: Duration = Duration::from_millis(100);
/// Largest number of passes of a model in a round.
const MAX_PASSES: usize = 10;
/// No round starts after this time.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Tokens per second that each of `models` scores (with logits, if it has a head) from the first of
/// `windows`, with the current number of threads. Models alternate, so that load of the machine
/// affects all of them; the median of the rounds is returned.
///
/// # Errors
/// [`EvaluationError::Model`], and [`EvaluationError::Interrupted`] if cancelled.
///
/// # Panics
/// If there is no window.
pub fn tokens_per_second(
    models: &[&Transformer],
    windows: &[Vec<u32>],
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<f64>, EvaluationError> {
    assert!(!windows.is_empty(), "no windows");
    let mut tokens = 0;
    let few = windows.iter().enumerate().take_while(|(index, window)| {
        tokens += window.len();
        *index == 0 || tokens <= MAX_TOKENS
    });
    let sequences: Vec<Sequence<'_>> =
        few.map(|(_, tokens)| Sequence { tokens, first_counted: 1, shared: 0 }).collect();
    let first = &windows[0];
    let short =
        [Sequence { tokens: &first[..first.len().min(WARM_UP)], first_counted: 1, shared: 0 }];
    for model in models {
        pass(model, &short)?;
    }
    let began = Instant::now();
    let mut speeds = vec![Vec::new(); models.len()];
    while speeds[0].len() < ROUNDS && (speeds[0].is_empty() || began.elapsed() < TIME_LIMIT) {
        for (model, speeds) in models.iter().zip(&mut speeds) {
            if cancelled() {
                return Err(EvaluationError::Interrupted { done_tokens: 0, total_tokens: 0 });
            }
            speeds.push(round(model, &sequences)?);
        }
    }
    models.iter().for_each(|model| model.release_scratch());
    Ok(speeds.into_iter().map(median).collect())
}

fn pass(model: &Transformer, sequences: &[Sequence<'_>]) -> Result<(), EvaluationError> {
    let passed = match model.has_head() {
        true => score(model, sequences).map(drop),
        false => {
            let rows: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.tokens).collect();
            let batch = Batch::new(&rows);
            let layers = 0..model.config().layers.len();
            let hidden = model.embed(&batch);
            hidden
                .and_then(|mut hidden| model.run_layers(&mut hidden, &batch, layers, &mut NoProbe))
        }
    };
    passed.map_err(|source| EvaluationError::Model {
        place: "throughput".to_owned(),
        source: source.into(),
    })
}

fn round(model: &Transformer, sequences: &[Sequence<'_>]) -> Result<f64, EvaluationError> {
    let tokens: usize = sequences.iter().map(|sequence| sequence.tokens.len()).sum();
    let began = Instant::now();
    let mut passes = 0;
    while passes == 0 || (passes < MAX_PASSES && began.elapsed() < MIN_ROUND) {
        pass(model, sequences)?;
        passes += 1;
    }
    Ok((passes * tokens) as f64 / began.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
