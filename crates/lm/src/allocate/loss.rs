//! Loss of a language model and of variants of it on calibration text.

use crate::LmError;
use crate::cuts::{Variant, Variants};
use linwright_compress::CompressError;
use linwright_evaluate::{LanguageModels, ModelFailure, Sequence};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Transformer, Windows};
use linwright_run::{Fingerprint, Monitor, PieceKey, Store};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Kind of the pieces.
const LOSSES: &str = "losses";
/// Largest number of parameters of the operators that are judged at once.
const NUMBERS_AT_ONCE: usize = 1 << 28;
/// Tokens of a batch that is judged.
const BATCH_TOKENS: usize = 2048;

/// A language model with the text on which sites are measured.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The calibration text.
    pub windows: &'a Windows,
}

/// Loss of a model and of its variants, in nats per token, and the number of tokens.
#[derive(Serialize, Deserialize)]
pub(super) struct Losses {
    /// Of the model itself.
    pub(super) base: f64,
    pub(super) variants: Vec<f64>,
    pub(super) tokens: usize,
}

/// Losses of a model and of its variants on the validation windows, in groups that fit
/// in memory.
pub(super) fn losses(
    measured: Measured<'_>,
    variants: &[Variant],
    (base, store): (&Fingerprint, &Store),
    monitor: &mut dyn Monitor,
) -> Result<Losses, LmError> {
    let mut all = Losses { base: 0.0, variants: Vec::new(), tokens: 0 };
    let numbers =
        |variant: &Variant| -> usize { variant.ops.iter().map(|(_, op)| op.parameters()).sum() };
    let mut start = 0;
    while start < variants.len() || all.tokens == 0 {
        let mut held = 0;
        let fits = |variant: &&Variant| {
            held += numbers(variant);
            held <= NUMBERS_AT_ONCE
        };
        let count = variants[start..].iter().take_while(fits).count().max(1);
        let group = &variants[start..variants.len().min(start + count)];
        let count = group.len();
        let print = Fingerprint::of(&[("base", base), ("first", &start), ("count", &count)]);
        let found = store.finished(&PieceKey::new(LOSSES, print), || {
            monitor.step(&format!(
                "judging the model and {count} variants ({start} of {} done)",
                variants.len()
            ));
            monitor.whole(start as f64 / variants.len().max(1) as f64);
            losses_of(measured, group, monitor)
        })?;
        (all.base, all.tokens) = (found.base, found.tokens);
        all.variants.extend(found.variants);
        start += count;
    }
    Ok(all)
}

pub(super) fn losses_of(
    Measured { model, tokenizer, windows }: Measured<'_>,
    variants: &[Variant],
    monitor: &mut dyn Monitor,
) -> Result<Losses, LmError> {
    let mut with_base = vec![Variant::default()];
    with_base.extend_from_slice(variants);
    let monitor = RefCell::new(monitor);
    let go_on = |_: usize| !monitor.borrow().interrupted();
    let failed = |failure: ModelFailure| match monitor.borrow().interrupted() {
        true => CompressError::Interrupted,
        false => CompressError::Network(failure),
    };
    let each = Variants::new(model, tokenizer, &with_base, None).with_cancellation(&go_on);
    let validation = &windows.windows()[windows.training()..];
    let (mut sums, mut tokens) = (vec![0.0; with_base.len()], 0);
    let batches = batches(validation);
    for (index, batch) in batches.iter().enumerate() {
        let windows = batch.iter().map(Vec::as_slice);
        let sequences: Vec<Sequence<'_>> =
            windows.map(|tokens| Sequence { tokens, first_counted: 1, shared: 0 }).collect();
        let scored = each.score_each(&sequences, &vec![None; sequences.len()]);
        let scored = scored.map_err(failed)?;
        for (sum, scored) in sums.iter_mut().zip(&scored) {
            *sum += scored.scores.iter().flatten().map(|score| score.nll).sum::<f64>();
        }
        tokens += scored[0].scores.iter().map(Vec::len).sum::<usize>();
        monitor.borrow_mut().progress(index as u64 + 1, batches.len() as u64);
    }
    let mut means = sums.into_iter().map(|sum| sum / tokens.max(1) as f64);
    let base = means.next().unwrap_or_default();
    Ok(Losses { base, variants: means.collect(), tokens })
}

/// Windows in batches of at most [`BATCH_TOKENS`] tokens, or one window.
fn batches(mut windows: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut batches = Vec::new();
    while !windows.is_empty() {
        let mut sum = 0;
        let fits = |window: &&Vec<u32>| {
            sum += window.len();
            sum <= BATCH_TOKENS
        };
        let count = windows.iter().take_while(fits).count().max(1);
        let (head, tail) = windows.split_at(count);
        batches.push(head);
        windows = tail;
    }
    batches
}

/// Loss of a model on the validation windows, in nats per token.
///
/// # Errors
/// [`LmError`] if the model cannot run, or if cancelled.
pub fn validation_loss(measured: Measured<'_>, monitor: &mut dyn Monitor) -> Result<f64, LmError> {
    Ok(losses_of(measured, &[], monitor)?.base)
}
