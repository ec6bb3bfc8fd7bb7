//! Recovery training of a compressed model: options, refusals, estimate and figures.

use super::Compress;
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::record;
use crate::jobs::kit::{Failure, JobError, Recover, Session};
use crate::jobs::language::offload::Offload;
use linwright_compress::Estimate;
use linwright_compress::pipeline::{Context, Edited};
use linwright_compress::recover::{Recovery, RecoveryEstimate, RecoveryReport, estimate, recover};
use linwright_lm::next_tokens;
use linwright_model::{Transformer, Windows};
use linwright_report::Block;
use linwright_report::number::{bytes, grouped, seconds};
use serde::Serialize;

/// Step size without `rate`: of 0.0003, 0.001 and 0.003 the best on held-out text after
/// `linwright compress pocket --keep 0.4 --recover 100 --text pocket`.
const RATE: f64 = 1e-3;

/// The wanted recovery, checked before any work.
pub(super) fn resolved(job: &Compress) -> Result<Option<Recovery>, JobError> {
    check_settings(job.recover.as_deref())?;
    match job.offload && job.recover.is_some() {
        true => Err(JobError::new(
            "--recover passes through all layers at once, which --offload keeps in files",
        )
        .hint("leave out one of them")),
        false => Ok(settings_of(job.recover.as_deref(), job.seed)),
    }
}

/// Checks the settings of a recovery before any work.
pub(in crate::jobs) fn check_settings(wanted: Option<&Recover>) -> Result<(), JobError> {
    match settings_of(wanted, 0) {
        Some(settings) => {
            settings.check().map_err(|reason| JobError::new(format!("recovery: {reason}")))
        }
        None => Ok(()),
    }
}

/// Refuses before any work a model that has no loss of the next token, or is larger than memory.
pub(in crate::jobs) fn check_model(
    wanted: Option<&Recover>,
    model: &Transformer,
    offload: Option<&Offload>,
) -> Result<(), Failure> {
    if wanted.is_none() {
        return Ok(());
    }
    if !model.config().is_causal() {
        return Err(Failure::usage(
            "the model is an encoder, and --recover trains on the loss of the next token",
        )
        .hint("leave out --recover"));
    }
    match offload {
        Some(_) => Err(Failure::usage(
            "--recover needs the weights in memory, and they would take more than half of it",
        )
        .hint("leave out --recover")),
        None => Ok(()),
    }
}

/// A recovery of some steps, if any.
pub(in crate::jobs) fn settings_of(wanted: Option<&Recover>, seed: u64) -> Option<Recovery> {
    let settings = |wanted: &Recover| {
        let rate = wanted.rate.unwrap_or(RATE);
        Recovery { steps: wanted.steps, rate, seed }
    };
    wanted.map(settings)
}

/// Trains the replaced operators, if that is wanted.
pub(super) fn recovered(
    wanted: Option<&Recovery>,
    edited: &mut Edited<Transformer>,
    calibration: Option<&Windows>,
    context: &Context<'_>,
    session: &mut Session<'_>,
) -> Result<Option<RecoveryReport>, Failure> {
    let (Some(settings), Some(windows)) = (wanted, calibration) else { return Ok(None) };
    let text = next_tokens(windows);
    let done = recover(edited, &text, settings, context, session);
    if let Some(store) = context.store {
        session.tell_damage(store);
    }
    Ok(Some(done?))
}

/// What a recovery would cost after the edits of an estimate, if it is wanted.
pub(super) fn estimated(
    wanted: Option<&Recovery>,
    edits: &Estimate,
    model: &Transformer,
    calibration: Option<&Windows>,
) -> Result<Option<RecoveryEstimate>, Failure> {
    let (Some(settings), Some(windows)) = (wanted, calibration) else { return Ok(None) };
    let replaced = edits.sites.iter().filter(|site| !site.heals);
    let sites = replaced.map(|site| site.site.clone()).collect();
    let text = next_tokens(windows);
    Ok(Some(estimate(model, &sites, &text, settings, edits.targeted)?))
}

/// The same for the report.
pub(super) fn estimate_block(estimate: &RecoveryEstimate) -> Block {
    let memory = bytes(estimate.memory_bytes);
    text([format!(
        "recovery: then about {}, and {memory} of memory beside the model",
        seconds(estimate.seconds)
    )])
}

/// Points of the training curve, one line of JSON each.
pub(super) fn curve(report: &RecoveryReport) -> Result<String, Failure> {
    let stage = "recovery";
    record::lines(report.curve.iter().map(|point| RecoveryPoint { stage, point }))
}

/// A point of the training curve of a recovery.
#[derive(Serialize)]
struct RecoveryPoint<P> {
    stage: &'static str,
    point: P,
}

/// What the recovery did, for the report.
pub(super) fn block(report: &RecoveryReport) -> Block {
    let RecoveryReport { steps, rate, loss_before, loss_after, best_step, .. } = report;
    let (parameters, held_out) = (grouped(report.parameters), grouped(report.held_out));
    let happened = match report.kept {
        true => format!(
            "recovery: {parameters} parameters trained for {steps} steps with rate {rate}; held-out \
             loss {loss_before:.4} -> {loss_after:.4} nats/token at step {best_step}",
        ),
        false => format!(
            "recovery: thrown away, since none of {steps} steps with rate {rate} lowered the \
             held-out loss of {loss_before:.4} nats/token; try a smaller rate (--recover STEPS:rate=RATE) or more text",
        ),
    };
    let judged = format!(
        "the step was chosen on {held_out} validation tokens of the calibration text; judge the \
         result on other text; fit errors are those before",
    );
    text([happened, judged])
}

/// How long it took, for what is measured.
pub(super) fn time(report: &RecoveryReport) -> String {
    format!("recovery: {}", seconds(*report.seconds))
}
