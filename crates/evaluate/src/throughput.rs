//! How many tokens a second models score or, without a head, encode.

use super::decoder::score;
use super::{EvaluationError, Sequence};
use linwright_model::{Batch, Transformer};
use linwright_ops::NoProbe;
use std::time::{Duration, Instant};

/// Tokens of one pass, at most, unless the first window is longer.
const TOKENS: usize = 512;
/// Tokens of the pass that wakes a model up.
const WARM_UP: usize = 16;
/// Rounds, of which the median counts.
const ROUNDS: usize = 3;
/// A model is timed for this long in a round, or for one pass if that takes longer.
const LEAST: Duration = Duration::from_millis(100);
/// Passes after which a round of a model that takes a moment ends sooner.
const PASSES: usize = 10;
/// No further round is begun when this time is over.
const ENOUGH: Duration = Duration::from_secs(10);

/// Tokens a second, logits included where the model has a head, that each of `models` scores of the
/// first of `windows`, at the number of threads in use. Models take turns, so that a busy machine
/// slows all of them, and the median of the rounds counts.
///
/// # Errors
/// [`EvaluationError::Model`], and [`EvaluationError::Interrupted`] if asked to stop.
///
/// # Panics
/// If there is no window.
pub fn tokens_per_second(
    models: &[&Transformer],
    windows: &[Vec<u32>],
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<f64>, EvaluationError> {
    assert!(!windows.is_empty(), "a speed is measured on text");
    let mut tokens = 0;
    let few = windows.iter().enumerate().take_while(|(index, window)| {
        tokens += window.len();
        *index == 0 || tokens <= TOKENS
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
    while speeds[0].len() < ROUNDS && (speeds[0].is_empty() || began.elapsed() < ENOUGH) {
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
        place: "measuring the speed".to_owned(),
        source: source.into(),
    })
}

fn round(model: &Transformer, sequences: &[Sequence<'_>]) -> Result<f64, EvaluationError> {
    let tokens: usize = sequences.iter().map(|sequence| sequence.tokens.len()).sum();
    let began = Instant::now();
    let mut passes = 0;
    while passes == 0 || (passes < PASSES && began.elapsed() < LEAST) {
        pass(model, sequences)?;
        passes += 1;
    }
    Ok((passes * tokens) as f64 / began.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
