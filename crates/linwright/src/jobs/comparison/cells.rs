//! The run of a comparison: every cell, the table and the page.

use super::ComparisonOptions;
use super::result::SlotsCompared;
use crate::jobs::kit::outcome::{apart, write_pages};
use crate::jobs::kit::saving::write_beside_own;
use crate::jobs::kit::{AnyJob, Failure, Outcome, Session, outputs, recipe_of, shards, store};
use crate::jobs::language::sweep::left_nothing;
use linwright_compare::report::document;
use linwright_compare::{Compared, Pieces, SlotMethod, Slots, compare};
use linwright_compress::{Edit, Plan};
use linwright_evaluate::Outcome as Part;
use linwright_report::{Document, Report};
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{Fingerprint, Measured, Monitor, RunDirectory, Store, state};
use linwright_study::{PassMacs, PassSpeed, Trial, TrialJudge};
use linwright_tensor::dtype::DType;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A comparison on a network.
pub(in crate::jobs) struct Comparing<'a, T> {
    /// The job.
    pub(in crate::jobs) job: &'a dyn AnyJob,
    /// Its options.
    pub(in crate::jobs) options: &'a ComparisonOptions,
    /// Its output, if it has one.
    pub(in crate::jobs) output: Option<&'a Path>,
    /// What is compared.
    pub(in crate::jobs) candidates: Vec<SlotMethod>,
    /// The network, with what it is fitted to and scored on.
    pub(in crate::jobs) trial: &'a T,
    /// Name of the network for readers.
    pub(in crate::jobs) name: String,
    /// Hash of what it is scored on.
    pub(in crate::jobs) scored_sha256: &'a str,
    /// Notes on the data.
    pub(in crate::jobs) notes: Vec<String>,
}

/// Computes all cells, or those of a shard; writes and shows the result, which `of` makes that of
/// the verb.
///
/// # Errors
/// [`Failure`].
pub(in crate::jobs) fn run<T: Trial, R: Report>(
    comparing: &Comparing<'_, T>,
    of: fn(SlotsCompared) -> R,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::output_of(session, comparing.output)?;
    // What selects no layer is refused before anything is written.
    comparing.options.slots()?.of(comparing.trial.network())?;
    let basis = comparing.basis(session);
    let print = Fingerprint::of(&[("run", &basis)]);
    // A selection of its own has a report of its own.
    let own = || {
        let selection = Fingerprint::of(&[("run", &print), ("job", &recipe_of(comparing.job))]);
        let verb = comparing.job.verb();
        Path::new("runs").join(format!("{verb}-{}", &selection.0[..8]))
    };
    let output = comparing.output.map_or_else(own, Path::to_owned);
    let directory = RunDirectory::open_of(&output, &print, &basis)?;
    shards::mark(session, &output)?;
    let directory = directory.reading_also(shards::sources(session, Path::new(""))?);
    let unfinished = store::unfinished(comparing.job, Some(&output), session)?;
    let fits = unfinished.path().map_or_else(Store::none, Store::at);
    let done = comparing.compared(&directory, &fits, &print, session);
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
        Part::Complete(compared) => comparing.finish(compared, of, &output, session),
        Part::Part { known, total } => {
            session.finish();
            shards::part(session, &output, known, total)
        }
    }
}

impl<T: Trial> Comparing<'_, T> {
    /// What all cells depend on: options but those that choose cells, or show them, and the content
    /// of network and data. So another selection of methods and sizes continues where the first one
    /// ended.
    fn basis(&self, session: &Session<'_>) -> Value {
        let mut basis = outputs::basis(self.job, self.trial.hash(), session);
        if let Some(options) = basis.as_object_mut() {
            for key in ["methods", "keep", "no_controls"] {
                options.shift_remove(key);
            }
            let read = [self.trial.calibration_sha256(), self.scored_sha256];
            options.insert("read".into(), json!(read));
        }
        basis
    }

    fn compared(
        &self,
        directory: &RunDirectory,
        fits: &Store,
        print: &Fingerprint,
        session: &mut Session<'_>,
    ) -> Result<Part<Compared<PassMacs, PassSpeed>>, Failure> {
        let sites = self.options.slots()?;
        let seed = self.options.seed;
        let plan_of = |edit: Edit| Plan { seed, edits: vec![edit] };
        let examples = self.trial.examples(seed)?;
        let slots = Slots {
            network: self.trial.network(),
            hash: self.trial.hash(),
            sites: &sites,
            plan_of: &plan_of,
            examples: Some(examples.as_ref()),
            dtype: DType::F32,
            fits,
        };
        let judge = TrialJudge::new(self.trial, examples.as_ref(), slots);
        let pieces = Pieces { store: directory.pieces(), shard: session.shard(), print };
        let keeps = &self.options.keep;
        Ok(match compare(&judge, &self.candidates, keeps, pieces, session)? {
            Part::Complete(mut compared) => {
                compared.notes.clone_from(&self.notes);
                Part::Complete(compared)
            }
            part @ Part::Part { .. } => part,
        })
    }

    /// Writes the files of a finished comparison, and shows it.
    fn finish<R: Report>(
        &self,
        compared: Compared<PassMacs, PassSpeed>,
        of: fn(SlotsCompared) -> R,
        output: &Path,
        session: &mut Session<'_>,
    ) -> Result<Outcome, Failure> {
        let times = session.finish();
        let seconds: f64 = times.iter().map(|step| step.seconds).sum();
        let results = &compared.dense.results;
        let command = format!("linwright {}", self.job.verb());
        let mut provenance = session.provenance_of(&command, self.trial.hash(), results);
        provenance.seeds = vec![self.options.seed];
        let page = document(&self.options.title, &self.name, &compared);
        let result = SlotsCompared {
            model: self.name.clone(),
            compare: compared,
            provenance,
            peak_resident_bytes: Measured(peak_resident_bytes()),
            seconds: Measured(seconds),
        };
        let whole = of(result.clone());
        let (kept, measured) = apart(&whole)?;
        write_beside_own(session, &measured, output)?;
        let page = write(output, &page, &kept)?;
        let blocks = result.blocks(&session.portable(page));
        Ok(Outcome::of(whole).showing(blocks))
    }
}

/// Writes `report.md`, `report.html` and `result.json`; gives the path of the page.
///
/// # Errors
/// [`Failure`] if a file cannot be written.
pub(in crate::jobs) fn write(
    directory: &Path,
    page: &Document,
    json: &Value,
) -> Result<PathBuf, Failure> {
    let page = write_pages(page, directory)?;
    // Last, so that it is there when all is.
    state::write(&directory.join("result.json"), format!("{json:#}\n").as_bytes())?;
    Ok(page)
}
