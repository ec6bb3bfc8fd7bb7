//! `linwright compare`: every cell, the table, the page and the best model.

use super::Compare;
use super::inputs::Inputs;
use super::result::{BestOfComparison, CompareCost, CompareResult, SavedBest};
use crate::jobs::comparison::write;
use crate::jobs::kit::outcome::apart;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, recipe_of, shards, store};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::saving::{SavedAs, Saving, write_beside};
use crate::jobs::language::sweep::left_nothing;
use crate::jobs::language::tasks::{Judged, cost};
use linwright_compare::{Judge, Way};
use linwright_compress::{Edit, FitTo, Rates};
use linwright_evaluate::Outcome as Part;
use linwright_lm::LmError;
use linwright_lm::compare::report::document;
use linwright_lm::compare::{Asked, Compared, Work, asked, compare};
use linwright_ops::Examples;
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{Fingerprint, Measured, Monitor, RunDirectory, Store};
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(job: &Compare, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    shards::output_of(session, job.output.as_deref())?;
    if let (Some(best), false) = (&job.save_best, job.dry_run) {
        check_best(job, best, session)?;
    }
    let inputs = Inputs::new(job, session)?;
    if job.dry_run {
        return dry_run(job, &inputs, session);
    }
    let basis = basis(job, &inputs, session);
    let print = Fingerprint::of(&[("run", &basis)]);
    // A selection of its own has a report of its own.
    let own = || {
        let selection = Fingerprint::of(&[("run", &print), ("job", &recipe_of(job))]);
        Path::new("runs").join(format!("compare-{}", &selection.0[..8]))
    };
    let output = job.output.as_deref().map_or_else(own, Path::to_owned);
    let directory = RunDirectory::open_of(&output, &print, &basis)?;
    shards::mark(session, &output)?;
    let directory = directory.reading_also(shards::sources(session, Path::new(""))?);
    let unfinished = store::unfinished(job, Some(&output), session)?;
    let fits = unfinished.path().map_or_else(Store::none, Store::at);
    let done = compared(job, &inputs, &directory, &fits, &print, session);
    session.tell_damage(directory.pieces());
    session.tell_damage(&fits);
    let done = match done {
        Ok(done) => done,
        Err(failure) => {
            return Err(left_nothing(&directory, store::tidy(unfinished, failure)));
        }
    };
    store::done(unfinished, session);
    match done {
        Part::Complete(done) => finish(job, &inputs, done, &output, session),
        Part::Part { known, total } => {
            session.finish();
            shards::part(session, &output, known, total)
        }
    }
}

/// Checks where the best model will be written.
fn check_best(job: &Compare, best: &Path, session: &mut Session<'_>) -> Result<(), Failure> {
    if job.output.as_ref().is_some_and(|output| best.starts_with(output)) {
        return Err(Failure::usage("--save-best is in the directory of the comparison")
            .hint("give it a directory of its own"));
    }
    if !session.shard().is_whole() {
        return Err(Failure::usage("--save-best: a shard does not know the best model").hint(
            "merge the shards, then run the command once more with --save-best and the merged \
             directory as --output",
        ));
    }
    let inputs = outputs::inputs_of(job, session);
    outputs::directory(best, job.force, &inputs, session)
}

/// A comparison whose best model, if it was wanted, is saved.
struct Done {
    compared: Compared,
    saved: Option<SavedBest>,
}

/// What all cells depend on: options but those that choose cells, or show them, and the content of
/// model and texts. So another selection of methods and sizes continues where the first one ended.
fn basis(job: &Compare, inputs: &Inputs, session: &Session<'_>) -> Value {
    let text = inputs.calibration.as_ref().map(|text| text.windows.identity());
    let mut basis = outputs::basis(job, &inputs.model.loaded.hash, session);
    if let Some(options) = basis.as_object_mut() {
        for key in ["methods", "keep", "no_controls"] {
            options.shift_remove(key);
        }
        options.insert("calibration".into(), json!(text));
    }
    basis
}

fn compared(
    job: &Compare,
    inputs: &Inputs,
    directory: &RunDirectory,
    fits: &Store,
    print: &Fingerprint,
    session: &mut Session<'_>,
) -> Result<Part<Done>, Failure> {
    let plan_of = |edit: Edit| inputs.plan(job, edit);
    let work = inputs.work(job, &plan_of, [fits, directory.pieces()], session)?;
    let found = compare(&work, &inputs.candidates, &job.keep, print, session)?;
    let mut compared = match found {
        Part::Complete(compared) => compared,
        Part::Part { known, total } => return Ok(Part::Part { known, total }),
    };
    compared.notes.clone_from(&inputs.notes);
    let saved = match &job.save_best {
        Some(directory) => Some(save(job, inputs, &work, &compared, directory, session)?),
        None => None,
    };
    Ok(Part::Complete(Done { compared, saved }))
}

/// Saves the best model at the first share.
fn save(
    job: &Compare,
    inputs: &Inputs,
    work: &Work<'_>,
    compared: &Compared,
    output: &Path,
    session: &mut Session<'_>,
) -> Result<SavedBest, Failure> {
    let Some(&keep) = job.keep.first() else {
        return Err(Failure::usage("--keep names no share, so no model is saved"));
    };
    let Some((cell, figures)) = compared.best(keep) else {
        return Err(Failure::general(format!("no method has a model at {keep}, so none is saved"))
            .hint("give a larger share first in --keep"));
    };
    let candidate = inputs.candidates.iter().find(|own| own.name() == cell.method);
    let candidate = candidate.ok_or_else(|| Failure::general("the best method is not compared"))?;
    session.step(&format!("{} at {keep}: making the model again", cell.method));
    let made = work.make(candidate, Some(keep), FitTo::All, session)?;
    let result = BestOfComparison {
        method: candidate.clone(),
        keep,
        parameters: figures.parameters,
        sites: made.edited.sites,
        judged: Judged {
            dense: compared.dense.results.clone(),
            results: figures.results.clone(),
            comparisons: figures.comparisons.clone(),
        },
    };
    let saving = Saving {
        form: job.form,
        dtype: job.dtype.map(StoredDType::dtype),
        force: job.force,
        output,
        result: &result,
        curves: String::new(),
    };
    let saved = saving.write(&made.edited.network, &inputs.model, session)?;
    Ok(SavedBest {
        form: SavedAs::of(&saved),
        output: session.portable(output),
        method: cell.method.clone(),
    })
}

/// Writes the files of a finished comparison, and shows it.
fn finish(
    job: &Compare,
    inputs: &Inputs,
    done: Done,
    output: &Path,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let Done { compared, saved } = done;
    let times = session.finish();
    let seconds: f64 = times.iter().map(|step| step.seconds).sum();
    let results = &compared.dense.results;
    let mut provenance = session.provenance("linwright compare", &inputs.model.loaded, results);
    provenance.seeds = vec![job.seed];
    let page = document(&job.title, &inputs.model.place.name, &compared);
    let result = CompareResult {
        model: inputs.model.place.name.clone(),
        compare: compared,
        saved,
        calibration: inputs.calibration.as_ref().map(|text| text.record.clone()),
        provenance,
        peak_resident_bytes: Measured(peak_resident_bytes()),
        seconds: Measured(seconds),
    };
    let (kept, measured) = apart(&result)?;
    write_beside(session, &inputs.model, &measured, output)?;
    let page = write(output, &page, &kept)?;
    let blocks = result.blocks(&session.portable(page));
    Ok(Outcome::of(result).showing(blocks))
}

/// The models with their parameters, and the cost of scoring them.
fn dry_run(job: &Compare, inputs: &Inputs, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let none = Store::none();
    let plan_of = |edit: Edit| inputs.plan(job, edit);
    let work = inputs.work(job, &plan_of, [&none, &none], session)?;
    let asked = asked(&inputs.candidates, &job.keep);
    let dense = work.targeted();
    session.step("timing fits");
    let mut rates = Rates::default();
    let mut planned: Vec<Planned> = Vec::new();
    for own in &asked {
        session.progress(planned.len() as u64, asked.len() as u64);
        let next = Planned::new(&work, own, planned.last(), &mut rates)?;
        planned.push(next);
    }
    let models = planned.iter().filter(|own| own.size.is_ok()).count() as u64 + 1;
    let tasks: Vec<_> = inputs.tasks.iter().map(|task| (task.as_ref(), models)).collect();
    let evaluation = cost(&tasks, &inputs.model, &inputs.evaluation, session)?;
    Ok(Outcome::of(CompareCost {
        evaluation,
        cells: asked,
        left_out: planned.iter().map(|own| own.size.as_ref().err().cloned()).collect(),
        models,
        fit_seconds: planned.iter().map(|own| own.seconds).collect(),
        parameters: planned.iter().map(|own| own.size.as_ref().ok().copied()).collect(),
        parameters_dense: dense,
    }))
}

/// A model that is not made.
struct Planned {
    name: String,
    /// Parameters, or why there is no model.
    size: Result<u64, String>,
    /// Estimated time of the fits, where there is an estimate.
    seconds: Option<f64>,
}

impl Planned {
    /// A candidate after the one before it in the list, which may be the same at another size: its
    /// fits take about as long.
    fn new(
        work: &Work<'_>,
        asked: &Asked,
        before: Option<&Self>,
        rates: &mut Rates,
    ) -> Result<Self, LmError> {
        let Asked { candidate, keep } = asked;
        let size = work.saving(candidate, *keep);
        let known = before.filter(|own| own.name == candidate.name() && own.seconds.is_some());
        let seconds = match (&size, known) {
            (Ok(_), Some(known)) => known.seconds,
            (Ok(_), None) => work.seconds(candidate, *keep, rates)?,
            (Err(_), _) => None,
        };
        let size = size.map_err(|error| error.to_string());
        Ok(Self { name: candidate.name(), size, seconds })
    }
}
