//! `linwright compress`: replace linear layers and save the model.

pub(super) mod state;
mod summary;

use super::form::{self, Saving};
use super::tasks::{Judged, Tasks, before_and_after, check_tasks};
use super::{print, print_json};
use crate::args::Shared;
use crate::console::Console;
use crate::face::Verb;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{OpenModel, open_model, text_file};
use linwright::compress::fit_store::FitStore;
use linwright::compress::pipeline::{Context, Edited, SiteOutcome, apply};
use linwright::compress::{Plan, study};
use linwright::data::Corpus;
use linwright::evaluate::{Task, tokens_per_second};
use linwright::jobs::{Compress, StoredDType};
use linwright::measure::calibration::{Calibration, Split};
use linwright::model::Transformer;
use linwright::model::checkpoint::LoadedModel;
use linwright::model::checkpoint::export::Exported;
use linwright::ops::{Op, SiteId, Sites};
use linwright::run::{Monitor, RunDirectory};
use std::path::{Path, PathBuf};
use summary::Summary;

pub(crate) type CompressArgs = Verb<Compress>;

pub(crate) fn run(job: &Compress, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    if !job.dry_run {
        outputs::directory(&job.output, job.force, &inputs(job))?;
    }
    let dataset = job.dataset.as_deref().map(Path::new);
    job.evaluation.check_text_field(dataset.as_slice())?;
    job.check()?;
    // Errors in tasks are reported before a model is loaded.
    let tasks = Tasks::open_if_any(&job.evaluation, &mut console)?;
    let model = open_model(&job.model, &mut console)?;
    let OpenModel { loaded, place } = &model;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model)?;
    let plan = job.plan(&loaded.decoder)?;
    if plan.sites(&loaded.decoder)?.is_empty() {
        return Err(Failure::usage("the plan selects no layer, so the model would stay as it is"));
    }
    if job.form.is_dense() {
        check_dense(&plan, &loaded.decoder)?;
    }
    // Without text, methods that read weights alone are fitted all the same.
    let has_text = plan.needs_text() || job.dataset.is_some();
    let calibration = has_text.then(|| calibration(job, loaded)).transpose()?;
    let calibration = calibration.as_ref();
    if job.dry_run {
        console.finish();
        return summary::dry_run(&plan, &loaded.decoder, calibration, shared);
    }
    let state = state::directory(&job.output)?;
    let fingerprint = study::plan_fingerprint(&plan, &loaded.hash, calibration);
    let directory = state::open(&state, &fingerprint, job.force)?;
    let work = Work { model: &model, plan: &plan, calibration, tasks: &tasks };
    let done = fit_and_save(job, &work, &directory, &mut console)
        .map_err(|failure| state::tidy(&state, failure))?;
    state::remove(&state)?;
    let times = console.finish();
    let summary = Summary::new(&done, &loaded.decoder, &place.path);
    if shared.json {
        let stages: Vec<_> = times
            .iter()
            .map(|(stage, seconds)| serde_json::json!({"stage": stage, "seconds": seconds}))
            .collect();
        return print_json(&serde_json::json!({
            "model": place.name, "output": job.output, "plan": plan, "saved": form::summary(&done.saved),
            "summary": summary, "sites": done.edited.sites, "stages": stages,
            "dense": done.judged.dense, "results": done.judged.results,
            "comparisons": done.judged.comparisons,
        }));
    }
    print(&summary.render(&done, &job.output))?;
    done.judged.show()
}

/// The input files, which no output may overwrite.
fn inputs(job: &Compress) -> Vec<PathBuf> {
    let mut inputs = outputs::of_model(&job.model);
    inputs.extend(job.dataset.as_ref().map(PathBuf::from));
    inputs.extend(job.plan.clone());
    inputs.extend(job.evaluation.inputs());
    inputs
}

/// Refuses before the work a dense form of a model that keeps a nonlinear operator.
fn check_dense(plan: &Plan, model: &Transformer) -> Result<(), Failure> {
    let edited = plan.sites(model)?;
    if let Some(edit) = edited.iter().find(|edit| !edit.edit.method.is_linear()) {
        let (method, site) = (edit.edit.method.id(), &edit.sites[0]);
        return Err(Failure::usage(format!(
            "{site} gets method {method}, whose operator is not linear and has no dense form"
        ))
        .hint("give --form native"));
    }
    let replaced = |site: &SiteId| edited.iter().any(|edit| edit.sites.contains(site));
    let slots = model.slots();
    let stays = slots.iter().find(|s| matches!(s.op(), Op::Map(_)) && !replaced(s.id()));
    stays.map_or(Ok(()), |slot| {
        let kind = slot.op().map().spec().kind();
        Err(Failure::usage(format!("{} is a {kind}, which has no dense form", slot.id()))
            .hint("give --form native"))
    })
}

/// An edited and saved model.
struct Done {
    edited: Edited,
    judged: Judged,
    saved: Exported,
    /// Scoring speed of the original and the edited model, in tokens per second.
    speeds: [f64; 2],
}

/// Everything that a model is compressed with.
struct Work<'a> {
    model: &'a OpenModel,
    plan: &'a Plan,
    /// The calibration text, if any is needed or given.
    calibration: Option<&'a Calibration>,
    /// The evaluation before and after, if any.
    tasks: &'a [Box<dyn Task>],
}

fn fit_and_save(
    job: &Compress,
    work: &Work<'_>,
    directory: &RunDirectory,
    console: &mut Console,
) -> Result<Done, Failure> {
    let Work { model, plan, calibration, tasks } = *work;
    let loaded = &model.loaded;
    let store = FitStore::open(&directory.path().join("fits"))?;
    let context = Context { store: Some(&store), ..Context::new(&loaded.hash) };
    let edited = apply(&loaded.decoder, calibration, plan, &context, console)?;
    for site in &edited.sites {
        console.trace(|| fit_told(site));
    }
    let replaced = edited.sites.iter().map(|site| &site.site);
    let judged = before_and_after(tasks, &job.evaluation, model, &edited.model, replaced, console)?;
    console.step("timing both models");
    let windows = calibration.map_or_else(
        || study::windows_without_text(&loaded.decoder),
        |calibration| calibration.windows().to_vec(),
    );
    let models = [&loaded.decoder, &edited.model];
    let speeds = tokens_per_second(&models, &windows, &|| console.interrupted())?;
    let dtype = job.dtype.map(StoredDType::dtype);
    let saving = Saving { form: job.form, dtype, force: job.force, output: &job.output };
    let saved = saving.write(&edited.model, model, console)?;
    Ok(Done { edited, judged, saved, speeds: [speeds[0], speeds[1]] })
}

/// One line about the fit of a site.
fn fit_told(SiteOutcome { site, method, fit, parameters, .. }: &SiteOutcome) -> String {
    let (error, seconds) = (fit.relative_error, fit.seconds);
    format!("{site}: {method}, {parameters} parameters, relative error {error:.3e}, {seconds:.2} s")
}

fn calibration(job: &Compress, loaded: &LoadedModel) -> Result<Calibration, Failure> {
    let dataset = job
        .dataset
        .as_deref()
        .or((job.model == crate::source::POCKET).then_some(crate::source::POCKET));
    let dataset = dataset.ok_or_else(|| {
        Failure::usage("no calibration text")
            .hint("give --dataset FILE: a text or JSONL file like the inputs of the model in use")
    })?;
    let field = job.evaluation.text_field.as_deref();
    let (path, field) = text_file(dataset, "calibration.jsonl", field)?;
    let corpus = Corpus::open(&path, field)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", job.model)))?;
    let calibration = Calibration::encode(
        corpus.documents.iter().map(|document| (document.line, document.text.as_str())),
        tokenizer,
        job.evaluation.bos,
        job.seq_len,
        job.num_tokens,
        Split::Contiguous,
    )?;
    calibration.check_positions(loaded.decoder.config().max_positions)?;
    Ok(calibration)
}
