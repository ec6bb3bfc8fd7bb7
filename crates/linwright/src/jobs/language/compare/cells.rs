//! `linwright compare`: every cell, the table, the page and the best model.

use super::Compare;
use super::inputs::Inputs;
use super::result::{BestOfComparison, CompareCost, CompareResult, SavedBest};
use crate::jobs::comparison::places::At;
use crate::jobs::comparison::write;
use crate::jobs::kit::outcome::apart;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, recipe_of, shards, store};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::saving::{SavedAs, Saving, write_beside};
use crate::jobs::language::sweep::left_nothing;
use crate::jobs::language::tasks::{Judged, cost};
use linwright_compare::{Comparison, Judge, Pieces, Place};
use linwright_compress::{Edit, FitTo, Rates};
use linwright_evaluate::Outcome as Part;
use linwright_lm::LmError;
use linwright_lm::compare::report::{document, with_provenance};
use linwright_lm::compare::{Asked, Compared, Work};
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
    let done = compared(job, &inputs, [&fits, directory.pieces()], &print, session);
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
    let is_of_one = job.seed.len() == 1 && job.slots.sets()?.is_none_or(|sets| sets.len() == 1);
    if job.keep.is_empty() || !job.against.is_empty() || !is_of_one {
        return Err(Failure::usage("--save-best: the best model is that of one share")
            .hint("give --keep, one set of layers and one seed, without --against"));
    }
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
    let texts = inputs.calibrations.iter().map(|text| text.windows.identity());
    let texts: Vec<String> = texts.collect();
    let mut basis = outputs::basis(job, &inputs.model.loaded.hash, session);
    if let Some(options) = basis.as_object_mut() {
        for key in ["methods", "keep", "no_controls", "against"] {
            options.shift_remove(key);
        }
        options.insert("calibration".into(), json!(texts));
    }
    basis
}

fn compared(
    job: &Compare,
    inputs: &Inputs,
    stores: [&Store; 2],
    print: &Fingerprint,
    session: &mut Session<'_>,
) -> Result<Part<Done>, Failure> {
    let places = places_of(inputs);
    let pieces = Pieces { store: stores[1], shard: session.shard(), print };
    let mut comparison = Comparison::new(inputs.asking(job, &places), pieces);
    for at in &inputs.places {
        let plan_of = |edit: Edit| inputs.plan(job, edit, at.place.seed);
        comparison.at(&inputs.work(job, at, &plan_of, stores, session)?, session)?;
    }
    let mut compared = match comparison.finish() {
        Part::Complete(compared) => compared,
        Part::Part { known, total } => return Ok(Part::Part { known, total }),
    };
    compared.notes.clone_from(&inputs.notes);
    let saved = match &job.save_best {
        Some(directory) => Some(save(job, inputs, &compared, directory, stores, session)?),
        None => None,
    };
    Ok(Part::Complete(Done { compared, saved }))
}

/// Saves the best model at the first share.
fn save(
    job: &Compare,
    inputs: &Inputs,
    compared: &Compared,
    output: &Path,
    stores: [&Store; 2],
    session: &mut Session<'_>,
) -> Result<SavedBest, Failure> {
    let Some(&keep) = job.keep.first() else {
        return Err(Failure::usage("--keep names no share, so no model is saved"));
    };
    let Some((cell, figures)) = compared.best(keep) else {
        return Err(Failure::general(format!("no method has a model at {keep}, so none is saved"))
            .hint("give a larger share first in --keep"));
    };
    let own = inputs.rows.iter().find(|row| row.name() == cell.name());
    let (Some(row), [at]) = (own, inputs.places.as_slice()) else {
        return Err(Failure::general("the best method is not compared"));
    };
    session.step(&format!("{} at {keep}: making the model again", cell.name()));
    let plan_of = |edit: Edit| inputs.plan(job, edit, at.place.seed);
    let work = inputs.work(job, at, &plan_of, stores, session)?;
    let asked = Asked { label: cell.label.clone(), ..Asked::at(row.candidate.clone(), Some(keep)) };
    let made = work.make(&asked, FitTo::All, session)?;
    let result = BestOfComparison {
        method: row.candidate.clone(),
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
        method: cell.name().to_owned(),
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
    provenance.seeds = job.seed.to_vec();
    provenance.data.extend(inputs.calibration().into_iter().flat_map(|text| text.record.sources()));
    let page = document(&job.title, &inputs.model.place.name, &compared);
    let page = with_provenance(page, &provenance.reproducible());
    let result = CompareResult {
        model: inputs.model.place.name.clone(),
        compare: compared,
        saved,
        calibration: inputs.calibration().map(|text| text.record.clone()),
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

/// The models with their parameters on each set of layers, and the cost of making and scoring them.
fn dry_run(job: &Compare, inputs: &Inputs, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let none = Store::none();
    let asked = inputs.asking(job, &[]).cells();
    let sets: Vec<&At> = inputs.places.iter().filter(|at| at.draw == 0).collect();
    session.step("timing fits");
    let mut rates = Rates::default();
    let (mut planned, mut dense): (Vec<Planned>, Vec<u64>) = (Vec::new(), Vec::new());
    for at in &sets {
        let plan_of = |edit: Edit| inputs.plan(job, edit, at.place.seed);
        let work = inputs.work(job, at, &plan_of, [&none, &none], session)?;
        dense.push(work.targeted());
        let first = planned.len();
        for own in &asked {
            session.progress(planned.len() as u64, (asked.len() * sets.len()) as u64);
            let next = Planned::new(&work, own, planned[first..].last(), &mut rates)?;
            planned.push(next);
        }
    }
    let made = planned.iter().filter(|own| own.size.is_ok()).count() * job.seed.len();
    let models = made as u64 + 1;
    let tasks: Vec<_> = inputs.tasks.iter().map(|task| (task.as_ref(), models)).collect();
    let evaluation = cost(&tasks, &inputs.model, &inputs.evaluation, session)?;
    let has_sets = inputs.asking(job, &places_of(inputs)).has_runs();
    let of_set = |at: &&At| std::iter::repeat_n(at.place.layers.clone(), asked.len());
    Ok(Outcome::of(CompareCost {
        evaluation,
        cells: sets.iter().flat_map(|_| asked.iter().cloned()).collect(),
        left_out: planned.iter().map(|own| own.size.as_ref().err().cloned()).collect(),
        models,
        fit_seconds: planned.iter().map(|own| own.seconds).collect(),
        parameters: planned.iter().map(|own| own.size.as_ref().ok().copied()).collect(),
        parameters_dense: dense.first().copied().unwrap_or(0),
        layers: if has_sets { sets.iter().flat_map(of_set).collect() } else { Vec::new() },
        seeds: job.seed.len(),
    }))
}

fn places_of(inputs: &Inputs) -> Vec<Place> {
    inputs.places.iter().map(|at| at.place.clone()).collect()
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
    /// A row after the one before it in the list, which may be the same at another share: its fits
    /// take about as long.
    fn new(
        work: &Work<'_>,
        asked: &Asked,
        before: Option<&Self>,
        rates: &mut Rates,
    ) -> Result<Self, LmError> {
        let size = work.saving(asked);
        let known = before.filter(|own| own.name == asked.name() && own.seconds.is_some());
        let seconds = match (&size, known) {
            (Ok(_), Some(known)) => known.seconds,
            (Ok(_), None) => work.seconds(asked, rates)?,
            (Err(_), _) => None,
        };
        let size = size.map_err(|error| error.to_string());
        Ok(Self { name: asked.name(), size, seconds })
    }
}
