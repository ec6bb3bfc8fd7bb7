//! `linwright compare`: every cell, the table, the page and the best model.

use super::Compare;
use super::inputs::Inputs;
use crate::jobs::kit::outcome::{text, write_pages};
use crate::jobs::kit::{
    Failure, Job, Outcome, Session, measured, outputs, recipe_of, shards, store,
};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::saving::{self, Saving, write_beside};
use crate::jobs::language::sweep::left_nothing;
use crate::jobs::language::tasks::cost;
use linwright_compress::{Edit, FitTo, Rates};
use linwright_evaluate::Outcome as Part;
use linwright_lm::LmError;
use linwright_lm::compare::report::{document, headline, notes, speed_table, table};
use linwright_lm::compare::{Asked, Compared, Work, asked, compare};
use linwright_ops::Examples;
use linwright_report::number::{bytes, grouped};
use linwright_report::{Block, Document, Table};
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{Fingerprint, Monitor, RunDirectory, Store, state};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

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
    saved: Option<Value>,
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
) -> Result<Value, Failure> {
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
    let saving = Saving {
        form: job.form,
        dtype: job.dtype.map(StoredDType::dtype),
        force: job.force,
        output,
        result: json!({
            "method": candidate, "keep": keep, "parameters": figures.parameters,
            "sites": made.edited.sites, "dense": compared.dense.results,
            "results": figures.results, "comparisons": figures.comparisons,
        }),
        measured: &["sites/*/fit/seconds"],
        curves: String::new(),
    };
    let saved = saving.write(&made.edited.network, &inputs.model, session)?;
    let mut summary = saving::summary(&saved);
    summary["output"] = json!(session.portable(output));
    summary["method"] = json!(cell.method);
    Ok(summary)
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
    let peak = peak_resident_bytes();
    let result = json!({
        "model": inputs.model.place.name, "compare": compared, "saved": saved,
        "calibration": inputs.calibration.as_ref().map(|text| &text.record),
        "provenance": provenance, "peak_resident_bytes": peak, "seconds": seconds,
    });
    let page = document(&job.title, &inputs.model.place.name, &compared);
    let mut kept = result.clone();
    let apart = measured::split(&mut kept, Compare::MEASURED);
    write_beside(session, &inputs.model, &apart, output)?;
    let page = write(output, &page, &kept)?;
    let mut lines = vec![headline(&compared)];
    if let Some(saved) = &saved {
        let told = |key: &str| saved[key].as_str().unwrap_or_default().to_owned();
        lines.push(format!(
            "saved {} to {}, form {}; this text chose it, so its figures are flattered",
            told("method"),
            told("output"),
            told("form")
        ));
    }
    lines.push(format!("report: {}", session.portable(page)));
    let mut blocks = vec![text(lines), Block::Table(table(&compared))];
    blocks.push(Block::Notes(notes(&compared)));
    let peak = peak.map(|peak| format!("peak memory of the run: {}", bytes(peak)));
    let told = [Some(format!("{seconds:.0} s in all")), peak];
    let measured = vec![Block::Table(speed_table(&compared)), text(told.into_iter().flatten())];
    Ok(Outcome { measured, ..Outcome::new(result, blocks) })
}

/// Writes `report.md`, `report.html` and `result.json`; gives the path of the page.
fn write(directory: &Path, page: &Document, json: &Value) -> Result<PathBuf, Failure> {
    let page = write_pages(page, directory)?;
    // Last, so that it is there when all is.
    state::write(&directory.join("result.json"), format!("{json:#}\n").as_bytes())?;
    Ok(page)
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
        let next = Planned::new(&work, own, dense, planned.last(), &mut rates)?;
        planned.push(next);
    }
    let columns = [
        ("method", false),
        ("asked", true),
        ("parameters", true),
        ("kept", false),
        ("fit, s", true),
    ];
    let of_fits: f64 = planned.iter().filter_map(|own| own.seconds).sum();
    let table = Table::new("Models", columns).with(planned.iter().map(Planned::row));
    let models = planned.iter().filter(|own| own.size.is_ok()).count() as u64 + 1;
    let tasks: Vec<_> = inputs.tasks.iter().map(|task| (task.as_ref(), models)).collect();
    let mut outcome = cost(&tasks, &inputs.model, &inputs.evaluation, session)?;
    let mut result = outcome.value()?;
    let fits: Vec<Option<f64>> = planned.iter().map(|own| own.seconds).collect();
    let reasons: Vec<Option<&String>> = planned.iter().map(|own| own.size.as_ref().err()).collect();
    result["cells"] = json!(asked);
    result["left_out"] = json!(reasons);
    result["models"] = json!(models);
    result["fit_seconds"] = json!(fits);
    outcome.result = Box::new(result);
    let told = format!(
        "time of the fits: about {of_fits:.0} s, each size like the first of its method, without \
         pruning, which is not estimated"
    );
    outcome.report.blocks.insert(0, Block::Table(table));
    outcome.report.blocks.insert(1, text([told]));
    Ok(outcome)
}

/// A model that is not made.
struct Planned {
    name: String,
    asked: Option<f64>,
    /// Parameters and their share, or why there is no model.
    size: Result<(u64, f64), String>,
    /// Estimated time of the fits, where there is an estimate.
    seconds: Option<f64>,
}

impl Planned {
    /// A candidate after the one before it in the list, which may be the same at another size: its
    /// fits take about as long.
    fn new(
        work: &Work<'_>,
        asked: &Asked,
        dense: u64,
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
        let share = |count: u64| count as f64 / dense.max(1) as f64;
        let size = size.map(|count| (count, share(count))).map_err(|error| error.to_string());
        Ok(Self { name: candidate.name(), asked: *keep, size, seconds })
    }

    fn row(&self) -> Vec<String> {
        let asked = self.asked.map_or_else(String::new, |keep| keep.to_string());
        let (parameters, kept) = match &self.size {
            Ok((count, share)) => (grouped(*count), format!("{share:.4}")),
            Err(reason) => (String::new(), format!("no model: {reason}")),
        };
        let seconds = self.seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"));
        vec![self.name.clone(), asked, parameters, kept, seconds]
    }
}
