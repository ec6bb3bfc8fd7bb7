//! The trainings, beside a thread that watches for interruptions.

use super::CollapseDepth;
use crate::jobs::collapse::{check_result, reported};
use crate::jobs::outcome::text;
use crate::jobs::{Failure, Outcome, Session, outputs};
use linwright_collapse::depth::{DepthData, DepthPlan, DepthResult, TrainingOptions, experiment};
use linwright_collapse::{CollapseError, FeatureFile, report};
use linwright_run::Monitor;
use linwright_run::atomic::write_atomic;
use linwright_tensor::RngKey;
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Tokens of generated sequences.
const TOKENS: usize = 6;

pub(super) fn run(job: &CollapseDepth, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let inputs = outputs::inputs_of(job, session);
    check_result(job.output.as_ref(), job.force, &inputs, session)?;
    check(job)?;
    let key = RngKey::new(job.seed).fold("depth");
    let data = data(job, key)?;
    let width = data.x.cols();
    let plan = DepthPlan {
        architecture: job.architecture,
        depths: job.depths.clone(),
        seeds: job.seeds,
        strength: job.strength,
        rule: job.strength_rule,
        head_strength: job.head_strength,
        biases: !job.free_biases,
        fit: job.loss,
        norming: job.norming,
        norm: job.norm.unwrap_or((width as f64).sqrt()),
        hidden: job.hidden.unwrap_or(width),
        training: TrainingOptions { steps: job.steps, rate: job.rate, ..Default::default() },
    };
    session.step("training");
    let found = watched(&plan, &data, key, session)?;
    session.finish();
    let result = json!({
        "schema": 1,
        "linwright": session.build().version,
        report::KEY: "depth",
        "plan": plan,
        "examples": data.labels.len(),
        "classes": data.classes,
        "tokens": data.tokens,
        "rows": found.rows,
        "nc1_slope": found.nc1_slope,
        "gap_slope": found.gap_slope,
        "hidden_penalty_slope": found.hidden_penalty_slope,
    });
    if let Some(path) = &job.output {
        write_atomic(path, format!("{result:#}\n").as_bytes())?;
        session.note(&format!("wrote {}", path.display()));
    }
    let mut outcome = reported(result);
    outcome.report.blocks.insert(0, text(slopes(&found)));
    Ok(outcome)
}

/// What the schema of the options does not say.
fn check(job: &CollapseDepth) -> Result<(), Failure> {
    let positive = [
        ("--strength", Some(job.strength)),
        ("--head-strength", job.head_strength),
        ("--rate", Some(job.rate)),
        ("--norm", job.norm),
    ];
    for (name, value) in positive {
        if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
            return Err(Failure::usage(format!("{name} {value}: expected a number above zero")));
        }
    }
    if !(job.noise >= 0.0 && job.noise.is_finite()) {
        let noise = job.noise;
        return Err(Failure::usage(format!("--noise {noise}: expected zero or more")));
    }
    if job.depths.is_empty() || job.depths.contains(&0) {
        return Err(Failure::usage("--depths: expected depths of 1 or more, such as 2,5,13"));
    }
    if job.tokens.is_some_and(|tokens| tokens > 1) && !job.architecture.is_transformer() {
        let name = job.architecture.name();
        return Err(Failure::usage(format!("--tokens: {name} reads single rows"))
            .hint("give --architecture t11, t12 or t22"));
    }
    Ok(())
}

fn data(job: &CollapseDepth, key: RngKey) -> Result<DepthData, Failure> {
    let tokens = match job.architecture.is_transformer() {
        true => job.tokens.unwrap_or(TOKENS),
        false => 1,
    };
    if let Some(path) = &job.features {
        let file = FeatureFile::open(path, None, None)?;
        return Ok(DepthData::of_source(&file, file.classes, tokens)?);
    }
    let sizes = (job.classes, job.per_class);
    Ok(DepthData::generated(sizes, (job.width, tokens), job.noise, key.fold("data")))
}

/// Trains in another thread, so that this one can tell progress and stop it.
fn watched(
    plan: &DepthPlan,
    data: &DepthData,
    key: RngKey,
    session: &mut Session<'_>,
) -> Result<DepthResult, CollapseError> {
    let (stop, (send, receive)) = (AtomicBool::new(false), channel());
    let send = Mutex::new(send);
    std::thread::scope(|scope| {
        let is_stopped = || stop.load(Ordering::Relaxed);
        let worker = scope.spawn(move || {
            let progress = |done, total| {
                // The receiver is there until this thread ends.
                let sender = send.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let _ = sender.send((done, total));
            };
            experiment(plan, data, key, (&progress, &is_stopped))
        });
        loop {
            match receive.recv_timeout(LOOK) {
                Ok((done, total)) => session.progress(done, total),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if session.interrupted() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn slopes(found: &DepthResult) -> Vec<String> {
    let all = [
        ("NC1", found.nc1_slope),
        ("the gap to the optimum", found.gap_slope),
        ("the penalty of blocks", found.hidden_penalty_slope),
    ];
    let told = |(name, slope): (&str, Option<linwright_collapse::depth::Slope>)| {
        slope.map(|slope| match slope.interval {
            Some([low, high]) => {
                format!("{name}: depth^{:.2} (95 %: {low:.2} to {high:.2})", slope.slope)
            }
            None => format!("{name}: depth^{:.2}", slope.slope),
        })
    };
    all.into_iter().filter_map(told).collect()
}
