//! The trainings, with a thread that watches for interruptions.

use super::CollapseDepth;
use super::inputs::data;
use super::result::CollapseOverDepth;
use crate::jobs::collapse::options::check_result;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, recipe_of, shards, store};
use linwright_collapse::CollapseError;
use linwright_collapse::depth::{
    DepthData, DepthOutcome, DepthPlan, Surroundings, TrainingOptions, experiment,
};
use linwright_run::{Fingerprint, Monitor, Store};
use linwright_tensor::RngKey;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two checks for interruption.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn run(job: &CollapseDepth, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    check(job)?;
    check_output(job, session)?;
    let key = RngKey::new(job.seed).fold("depth");
    let data = data(job, key)?;
    let plan = plan(job, data.x.cols());
    let identity = Fingerprint::of(&[
        ("version", &session.build().version),
        ("job", &recipe_of(job)),
        ("data", &session.data()),
    ]);
    let work = Work { plan, data, key, identity };
    if let (false, Some(output)) = (session.shard().is_whole(), &job.output) {
        return shard(&work, output, session);
    }
    let unfinished = store::unfinished(job, job.output.as_deref(), session)?;
    let store = unfinished.path().map_or_else(Store::none, Store::at);
    let store = store.reading_also(shards::sources(session, Path::new(""))?);
    match whole(job, &work, &store, session) {
        Ok(outcome) => unfinished.finish().map(|()| outcome).map_err(Failure::from),
        Err(failure) => Err(store::tidy(unfinished, failure)),
    }
}

/// What is trained, and the fingerprint of all of it.
struct Work {
    plan: DepthPlan,
    data: DepthData,
    key: RngKey,
    identity: Fingerprint,
}

fn plan(job: &CollapseDepth, width: usize) -> DepthPlan {
    DepthPlan {
        architecture: job.network.architecture,
        depths: job.depths.clone(),
        seeds: job.seeds,
        strength: job.strength.strength,
        rule: job.strength.rule,
        head_strength: job.strength.head,
        biases: !job.network.free_biases,
        fit: job.loss,
        norming: job.network.norming,
        norm: job.network.norm.unwrap_or((width as f64).sqrt()),
        hidden: job.network.hidden.unwrap_or(width),
        training: TrainingOptions { steps: job.steps, rate: job.rate, ..Default::default() },
    }
}

/// Checks before anything is trained that the output can be written: a result, or the directory of
/// a shard.
fn check_output(job: &CollapseDepth, session: &mut Session<'_>) -> Result<(), Failure> {
    let inputs = outputs::inputs_of(job, session);
    if session.shard().is_whole() {
        return check_result(job.output.as_deref(), job.force, &inputs, session);
    }
    shards::output_of(session, job.output.as_deref())?;
    job.output.iter().try_for_each(|path| shards::check_directory(path, &inputs, session))
}

/// Trains the networks of a shard, which its directory keeps.
fn shard(work: &Work, output: &Path, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    shards::mark(session, output)?;
    session.step("training");
    match watched(work, &Store::at(output), session)? {
        DepthOutcome::Complete(found) => {
            let count = found.rows.len();
            session.finish();
            shards::part(session, output, count, count)
        }
        DepthOutcome::Part { known, total } => {
            session.finish();
            shards::part(session, output, known, total)
        }
    }
}

/// Trains all networks that are missing from the store, and writes the result.
fn whole(
    job: &CollapseDepth,
    work: &Work,
    store: &Store,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    session.step("training");
    let networks = match watched(work, store, session)? {
        DepthOutcome::Complete(found) => found,
        DepthOutcome::Part { .. } => unreachable!("a whole job trains all networks"),
    };
    session.finish();
    let result = CollapseOverDepth {
        plan: work.plan.clone(),
        examples: work.data.labels.len(),
        classes: work.data.classes,
        tokens: work.data.tokens,
        networks,
    };
    if let Some(path) = &job.output {
        outputs::write_report(path, &result, job.force)?;
        session.note(&format!("wrote {}", path.display()));
    }
    Ok(Outcome::of(result))
}

/// Checks that the schema of the options cannot express.
fn check(job: &CollapseDepth) -> Result<(), Failure> {
    let positive = [
        ("--strength", Some(job.strength.strength)),
        ("--strength head", job.strength.head),
        ("--rate", Some(job.rate)),
        ("--architecture norm", job.network.norm),
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
    if job.tokens.is_some_and(|tokens| tokens > 1) && !job.network.architecture.is_transformer() {
        let name = job.network.architecture.name();
        return Err(Failure::usage(format!("--tokens: {name} reads single rows"))
            .hint("give --architecture t11, t12 or t22"));
    }
    if job.network.width.is_some() && (job.features.is_some() || job.images.is_some()) {
        return Err(Failure::usage("--architecture: width is that of --features or --images")
            .hint("leave width out"));
    }
    match job.texts.len() {
        1 => Err(Failure::usage("--texts: one text is one class").hint("give two or more")),
        _ => Ok(()),
    }
}

/// Trains in another thread, so that this one can report progress and stop it.
fn watched(work: &Work, store: &Store, session: &mut Session<'_>) -> Result<DepthOutcome, Failure> {
    let (stop, (send, receive)) = (AtomicBool::new(false), channel());
    let (send, shard) = (Mutex::new(send), session.shard());
    let found = std::thread::scope(|scope| {
        let is_stopped = || stop.load(Ordering::Relaxed);
        let worker = scope.spawn(move || {
            let progress = |done, total| {
                // The receiver is there until this thread ends.
                let sender = send.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let _ = sender.send((done, total));
            };
            let around = Surroundings {
                progress: &progress,
                stop: &is_stopped,
                store,
                identity: &work.identity,
                shard,
            };
            experiment(&work.plan, &work.data, work.key, &around)
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
    });
    session.tell_damage(store);
    // Finished networks are kept.
    found.map_err(|error| match error {
        CollapseError::Interrupted => Failure::from(error).resumable(),
        other => other.into(),
    })
}
