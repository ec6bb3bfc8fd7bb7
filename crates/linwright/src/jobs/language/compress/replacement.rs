//! `linwright compress`: replace linear layers and save the model.

use super::allocation::{Allocated, Dividing, check_model};
use super::budget::{self, Budgeted, Spending};
use super::edits::Edits;
use super::memory::{Means, Peak};
use super::result::{CompressResult, Summary};
use super::spec::{Spec, What};
use super::summary;
use super::{Compress, StoredDType, Way, recovery};
use crate::jobs::kit::record;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::verb::AnyJob;
use crate::jobs::kit::{ByteSize, Failure, Outcome, Session, outputs, room, store};
use crate::jobs::language::calibration::Calibration;
use crate::jobs::language::offload;
use crate::jobs::language::offload::Offload;
use crate::jobs::language::saving::{self, SavedAs, Saving};
use crate::jobs::language::tasks::{
    Judged, before_and_after, check_tasks, open_tasks_if_any, seconds as seconds_of,
};
use linwright_compare::parameter_counts;
use linwright_compress::pipeline::{Context, Edited, SiteOutcome};
use linwright_compress::{FitTo, Plan};
use linwright_evaluate::{Task, tokens_per_second};
use linwright_lm::LmError;
use linwright_lm::text::windows_without_text;
use linwright_measure::capture::Bounds;
use linwright_model::checkpoint::Precision;
use linwright_model::{Transformer, Windows};
use linwright_ops::{Examples, SiteId, Sites};
use linwright_run::team::Team;
use linwright_run::{Measured, Monitor, Store};
use serde::Serialize;
use std::path::Path;

/// Runs a job that was given as `face`, under whose name it is kept and recorded.
pub(in crate::jobs) fn run(
    job: &Compress,
    face: &dyn AnyJob,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    // The first member of a team alone writes.
    let team = session.team();
    if !job.dry_run && team.rank() == 0 {
        let inputs = outputs::inputs_of(face, session);
        outputs::directory(&job.output, job.force, &inputs, session)?;
    }
    let text = job.calibration_text();
    text.check_text_field()?;
    let spec = Spec::of(job)?;
    check_team(&spec, session)?;
    check_weights(job)?;
    // Errors in tasks are reported before a model is loaded.
    let source = text.open(session)?;
    let beside = source.as_ref().map_or_else(Vec::new, |source| source.tasks().to_vec());
    let tasks = open_tasks_if_any(&job.evaluation, &beside, session)?;
    let (model, offload) = offload::open(&job.model, job.offload, &job.output, session)?;
    let loaded = &model.loaded;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model, &job.evaluation)?;
    check_model(&spec, &loaded.decoder, offload.is_some())?;
    recovery::check_model(job.recover.as_deref(), &loaded.decoder, offload.as_ref())?;
    if let What::Budget(_) = spec.what {
        budget::check_model(&loaded.decoder, offload.is_some())?;
    }
    let edits = Edits::of(&spec, job.form, &model, offload.is_some())?;
    // Without text, methods that read weights alone are fitted all the same.
    let needs_text = edits.as_ref().is_some_and(Edits::needs_text);
    let has_text = needs_text || spec.reads_text_itself() || job.calibration.is_some();
    let calibration = has_text.then(|| text.windows(source, &model, session)).transpose()?;
    let windows = calibration.as_ref().map(|text| &text.windows);
    let has_tasks = !tasks.is_empty();
    let means = Means { model: &model, windows, offload: offload.as_ref(), has_tasks };
    let peak = edits.as_ref().map(|edits| Peak::of(job, edits, &means)).transpose()?;
    peak.map_or(Ok(()), |peak| peak.check(job.max_memory))?;
    if job.dry_run {
        return dry_run((job, &spec), edits.as_ref().zip(peak), &tasks, &means, session);
    }
    let calibration = calibration.map(|text| compared(text, &tasks, session));
    if let (Some(Edits::Plan(plan)), Some(text)) = (&edits, &calibration) {
        let few = few_tokens(plan, &loaded.decoder, &text.windows);
        few.iter().for_each(|note| session.note(note));
    }
    let calibration = calibration.as_ref();
    let offload = offload.as_ref();
    let (edits, team) = (edits.as_ref(), &*team);
    let work =
        Work { spec: &spec, model: &model, edits, calibration, tasks: &tasks, offload, team };
    if team.rank() > 0 {
        let shared = team.shared_store().map_or_else(Store::none, Store::at);
        return help(job, &work, &shared, session);
    }
    let (unfinished, pieces) = store::of_job(face, &job.output, team, session)?;
    let done = match allocate_and_fit(job, &work, &pieces, session) {
        Ok(done) => done,
        Err(failure) => return Err(store::tidy(unfinished, failure)),
    };
    store::done(unfinished, session);
    let mut done = done;
    done.stages = Measured(session.finish());
    Ok(Outcome::of(done))
}

/// Refuses a model whose weights alone take more memory than is allowed, before they are read.
fn check_weights(job: &Compress) -> Result<(), Failure> {
    let is_best = job.method.as_ref().is_some_and(|method| method.way() == Way::Best);
    match (job.max_memory, is_best) {
        (None, _) => Ok(()),
        (Some(_), true) => {
            Err(Failure::usage("--max-memory: the models of --method best are not known before")
                .hint("compress by one of them, with the limit"))
        }
        (Some(ByteSize(allowed)), false) => {
            room::check_weights(Path::new(&job.model), Precision::Auto, allowed)
        }
    }
}

/// What the edits would cost; of a budget, what would be tried.
fn dry_run(
    (job, spec): (&Compress, &Spec),
    edits: Option<(&Edits, Peak)>,
    tasks: &[Box<dyn Task>],
    means: &Means<'_>,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let (edits, peak) = match (edits, &spec.what) {
        (Some(known), _) => known,
        (None, What::Budget(budget)) => {
            session.finish();
            return Ok(budget::dry_run(budget));
        }
        (None, _) => return Err(Failure::usage("no edits are known")),
    };
    let evaluation = seconds_of(tasks, 2, means.model, &job.evaluation, session)?;
    session.finish();
    summary::dry_run(spec, edits, (peak, evaluation), means)
}

/// Refuses, before any work, what the members of a team would all do.
fn check_team(spec: &Spec, session: &Session<'_>) -> Result<(), Failure> {
    let undivided = [
        ("--method best", matches!(spec.what, What::Budget(_))),
        ("--recover", spec.recovery.is_some()),
        ("pruning", matches!(spec.what, What::Pruning(..))),
    ];
    match undivided.into_iter().find(|(_, is_asked)| *is_asked) {
        Some((what, _)) if session.team().size() > 1 => {
            Err(Failure::usage(format!("{what} is not divided over processes"))
                .hint("run it in one process, with --threads"))
        }
        _ => Ok(()),
    }
}

/// The part of a member of a team that writes nothing.
fn help(
    job: &Compress,
    work: &Work<'_>,
    pieces: &Store,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let Decided { edits, .. } = decided(job, work, &tried_in(pieces, work), session)?;
    edited(work, &edits, pieces, session)?;
    session.finish();
    Ok(Outcome::none())
}

/// What is said of so few tokens for the inputs of a layer that its fit is mostly noise.
fn few_tokens(plan: &Plan, model: &Transformer, windows: &Windows) -> Option<String> {
    let fitted = plan.edits.iter().filter(|edit| edit.method.needs_text());
    let sites = fitted.flat_map(|edit| edit.sites.of(model).unwrap_or_default());
    let inputs = sites.filter_map(|site| model.slot(&site)).map(|slot| slot.shape().inp).max()?;
    let (tokens, enough) = (windows.all_rows(), FEW_PER_INPUT * inputs);
    (tokens < enough).then(|| {
        format!(
            "note: {tokens} calibration tokens are few for layers of {inputs} inputs; {enough} or \
             more make a better model: raise num_tokens of --calibration"
        )
    })
}

/// The calibration text, compared with the documents of the tasks.
fn compared(
    mut text: Calibration,
    tasks: &[Box<dyn Task>],
    session: &mut Session<'_>,
) -> Calibration {
    text.compare(tasks.iter().map(AsRef::as_ref), "its scores may be too good", session);
    text
}

/// Calibration tokens for each input of a layer, below which they are called few.
const FEW_PER_INPUT: usize = 8;

/// Everything that a model is compressed with.
struct Work<'a> {
    spec: &'a Spec,
    model: &'a OpenModel,
    /// What is done; none if a budget decides.
    edits: Option<&'a Edits>,
    /// The calibration text, if any is needed or given.
    calibration: Option<&'a Calibration>,
    /// The evaluation before and after, if any.
    tasks: &'a [Box<dyn Task>],
    /// Files for what does not stay in memory, if the model is larger.
    offload: Option<&'a Offload>,
    /// The processes that compress it together.
    team: &'a dyn Team,
}

fn allocate_and_fit(
    job: &Compress,
    work: &Work<'_>,
    pieces: &Store,
    session: &mut Session<'_>,
) -> Result<CompressResult, Failure> {
    let decided = decided(job, work, &tried_in(pieces, work), session);
    session.tell_damage(pieces);
    fit_and_save(job, work, decided?, pieces, session)
}

/// Where the fits of plans that are tried are kept. Each member of a team tries all of them: none
/// may find in the store that they share what others were not told.
fn tried_in(pieces: &Store, work: &Work<'_>) -> Store {
    match work.team.shared_store().and_then(|_| work.team.own_folder()) {
        Some(own) => Store::at(&own),
        None => pieces.clone(),
    }
}

/// The edits of a model, and how they were found.
struct Decided {
    edits: Edits,
    allocated: Option<Allocated>,
    budget: Option<Budgeted>,
}

fn decided(
    job: &Compress,
    work: &Work<'_>,
    store: &Store,
    session: &mut Session<'_>,
) -> Result<Decided, Failure> {
    let Work { spec, model, edits, calibration, .. } = *work;
    let calibration = calibration.map(|text| &text.windows);
    let uniform = match (edits, &spec.what, calibration) {
        (None, What::Budget(budget), Some(windows)) => {
            let (found, edits) = Spending { job, budget, model, windows, store }.best(session)?;
            return Ok(Decided { edits, allocated: None, budget: Some(found) });
        }
        (None, ..) => {
            return Err(Failure::usage("no calibration text").hint("give --calibration FILE"));
        }
        (Some(Edits::Plan(plan)), ..) => plan,
        (Some(edits), ..) => {
            return Ok(Decided { edits: edits.clone(), allocated: None, budget: None });
        }
    };
    let mut allocated = match &spec.what {
        What::Slots(slots) => {
            let seed = spec.seed;
            Dividing { slots, seed, uniform, model, calibration, store }.divided(session)?
        }
        What::Plan(_) | What::Budget(_) | What::Pruning(..) => None,
    };
    let plan = allocated.as_mut().and_then(|allocated| allocated.plan.take());
    let edits = Edits::Plan(plan.unwrap_or_else(|| uniform.clone()));
    Ok(Decided { edits, allocated, budget: None })
}

/// What is known of the original model while its layers are fitted.
fn context_of<'a>(work: &Work<'a>, pieces: &'a Store) -> Context<'a> {
    // Recovery chooses its best step on validation windows, which no fit may have seen.
    let fit_to = if work.spec.recovery.is_some() { FitTo::Training } else { FitTo::All };
    Context {
        store: pieces.root().is_some().then_some(pieces),
        bounds: work.offload.map_or_else(Bounds::default, Offload::bounds),
        shelf: work.offload.map(|offload| &offload.shelf),
        team: work.team,
        fit_to,
        ..Context::new(&work.model.loaded.hash)
    }
}

/// Carries out the edits.
fn edited(
    work: &Work<'_>,
    edits: &Edits,
    pieces: &Store,
    session: &mut Session<'_>,
) -> Result<Edited<Transformer>, LmError> {
    let context = context_of(work, pieces);
    let windows = work.calibration.map(|text| &text.windows);
    edits.apply(&work.model.loaded.decoder, windows, &context, work.spec.seed, session)
}

fn fit_and_save(
    job: &Compress,
    work: &Work<'_>,
    decided: Decided,
    pieces: &Store,
    session: &mut Session<'_>,
) -> Result<CompressResult, Failure> {
    let Work { model, calibration, tasks, .. } = *work;
    let loaded = &model.loaded;
    let windows = calibration.map(|text| &text.windows);
    let context = context_of(work, pieces);
    let Decided { edits, allocated, budget } = decided;
    let edited = edited(work, &edits, pieces, session);
    session.tell_damage(pieces);
    let mut edited = edited?;
    for site in &edited.sites {
        session.trace(|| fit_told(site));
    }
    let recovery =
        recovery::recovered(work.spec.recovery.as_ref(), &mut edited, windows, &context, session)?;
    let dtype = job.dtype.map(StoredDType::dtype);
    let shelf = work.offload.map(|offload| &offload.shelf);
    let mut judged = Judged::default();
    if !tasks.is_empty() {
        let stored = saving::as_stored(&edited.network, model, (job.form, dtype), shelf)?;
        let replaced: Vec<&SiteId> = edited.sites.iter().map(|site| &site.site).collect();
        let both = (&stored, replaced.as_slice());
        judged = before_and_after(tasks, &job.evaluation, model, both, session)?;
    }
    session.step("timing both models");
    let windows = calibration.map_or_else(
        || windows_without_text(&loaded.decoder),
        |text| text.windows.windows().to_vec(),
    );
    let both = [&loaded.decoder, &edited.network];
    let speeds = tokens_per_second(&both, &windows, session.cancelled())?;
    let of_recovery = recovery.as_ref().map(recovery::curve).transpose()?;
    let curves = curves(&edited)? + &of_recovery.unwrap_or_default();
    let parameters = parameter_counts(&loaded.decoder, &edited);
    let mut result = CompressResult {
        model: model.place.name.clone(),
        output: None,
        plan: edits.summary(),
        saved: None,
        summary: None,
        parameters,
        sites: edited.sites,
        judged,
        calibration: calibration.map(|text| text.record.clone()),
        allocation: allocated,
        recovery,
        budget,
        stages: Measured::default(),
        tokens_per_second_before: Measured(speeds[0]),
        tokens_per_second: Measured(speeds[1]),
    };
    let (force, form, output) = (job.force, job.form, &*job.output);
    let saving = Saving { form, dtype, force, output, result: &result, curves };
    let saved = saving.write(&edited.network, model, session)?;
    result.summary = Some(Summary::new(&parameters, &model.place.path, &saved));
    result.saved = Some(SavedAs::of(&saved));
    result.output = Some(session.portable(output));
    Ok(result)
}

/// A point of the training curve of a fit.
#[derive(Serialize)]
struct FitPoint<'a, P> {
    site: &'a SiteId,
    point: P,
}

/// Training curves of the fits, one line of JSON for each point.
fn curves(edited: &Edited<Transformer>) -> Result<String, Failure> {
    let points = edited.sites.iter().flat_map(|SiteOutcome { site, fit, .. }| {
        fit.curve.iter().map(move |point| FitPoint { site, point })
    });
    record::lines(points)
}

/// One line about the fit of a site.
fn fit_told(SiteOutcome { site, method, fit, parameters, .. }: &SiteOutcome) -> String {
    let (error, seconds) = (fit.relative_error, *fit.seconds);
    format!("{site}: {method}, {parameters} parameters, relative error {error:.3e}, {seconds:.2} s")
}
