//! The run of a comparison: every cell, the table and the page.

use super::ComparisonOptions;
use super::cost::{Planned, SlotsCost};
use super::heal::healing;
use super::places::{At, places};
use super::result::SlotsCompared;
use super::rows::check_against;
use crate::jobs::kit::outcome::{apart, write_pages};
use crate::jobs::kit::saving::write_beside_own;
use crate::jobs::kit::{AnyJob, Failure, Outcome, Session, outputs, recipe_of, shards, store};
use crate::jobs::language::sweep::left_nothing;
use linwright_compare::report::{document, with_provenance};
use linwright_compare::{Asking, Compared, Comparison, Pieces, Place, Row, SlotMethod, Slots};
use linwright_compress::methods::DenseMethod;
use linwright_compress::{Edit, MethodSpec, Plan, Rates};
use linwright_evaluate::Outcome as Part;
use linwright_report::{Document, Report};
use linwright_run::memory::peak_resident_bytes;
use linwright_run::{DataSource, Fingerprint, Measured, Monitor, RunDirectory, Store, state};
use linwright_tensor::dtype::DType;
use linwright_trial::{ExamplesOf, PassMacs, PassSpeed, Trial, TrialJudge};
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
    pub(in crate::jobs) rows: Vec<Row<SlotMethod>>,
    /// The network, with what it is fitted to and scored on.
    pub(in crate::jobs) trial: &'a T,
    /// Name of the network for readers.
    pub(in crate::jobs) name: String,
    /// What it is fitted to.
    pub(in crate::jobs) fitted_to: &'a Path,
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
    // What selects no layer, or cannot be compared, is refused before anything is written.
    let places = comparing.places()?;
    comparing.check(&places)?;
    if comparing.options.dry_run {
        return comparing.cost(&places, session);
    }
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
    let done = comparing.compared(&places, [&fits, directory.pieces()], &print, session);
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
            for key in ["methods", "keep", "no_controls", "against"] {
                options.shift_remove(key);
            }
            let read = [self.trial.calibration_sha256(), self.trial.scored_sha256()];
            options.insert("read".into(), json!(read));
        }
        basis
    }

    fn places(&self) -> Result<Vec<At>, Failure> {
        let (options, network) = (self.options, self.trial.network());
        Ok(places(network, &options.seed, options.sets()?.as_deref(), &options.slots())?)
    }

    /// Checks what is compared with what, and that every plan can be carried out.
    fn check(&self, places: &[At]) -> Result<(), Failure> {
        let asking = self.asking(&[]);
        check_against(&self.options.against, &asking.lines())?;
        for At { sites, .. } in places {
            let (sites, method) = (sites.clone(), MethodSpec::Dense(DenseMethod::default()));
            let mut edits = vec![Edit { sites, method, size: None, heals: false }];
            edits.extend(healing(&self.options.heal, &edits[0].sites)?);
            Plan { seed: 0, edits }.sites(self.trial.network())?;
        }
        Ok(())
    }

    fn asking<'p>(&'p self, places: &'p [Place]) -> Asking<'p, SlotMethod> {
        let Self { options, rows, .. } = self;
        Asking { rows, keeps: &options.keep, places, against: &options.against }
    }

    /// Calls `work` with the slots of a place, and with the examples of its seed.
    fn with_slots<R>(
        &self,
        at: &At,
        examples: &ExamplesOf<T>,
        fits: &Store,
        work: impl FnOnce(Slots<'_, T::Network>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let heals = healing(&self.options.heal, &at.sites)?;
        let seed = at.place.seed;
        let plan_of = |edit: Edit| {
            let edits = std::iter::once(edit).chain(heals.iter().cloned()).collect();
            Plan { seed, edits }
        };
        work(Slots {
            network: self.trial.network(),
            hash: self.trial.hash(),
            sites: &at.sites,
            plan_of: &plan_of,
            examples: Some(examples),
            dtype: DType::F32,
            fits,
        })
    }

    fn compared(
        &self,
        places: &[At],
        [fits, pieces]: [&Store; 2],
        print: &Fingerprint,
        session: &mut Session<'_>,
    ) -> Result<Part<Compared<PassMacs, PassSpeed>>, Failure> {
        let all: Vec<Place> = places.iter().map(|at| at.place.clone()).collect();
        let pieces = Pieces { store: pieces, shard: session.shard(), print };
        let mut comparison = Comparison::new(self.asking(&all), pieces);
        for (draw, &seed) in self.options.seed.iter().enumerate() {
            let examples = self.trial.examples(seed)?;
            for at in places.iter().filter(|at| at.draw == draw) {
                self.with_slots(at, examples.as_ref(), fits, |slots| {
                    let judge = TrialJudge::new(self.trial, examples.as_ref(), slots);
                    Ok(comparison.at(&judge, session)?)
                })?;
            }
        }
        Ok(match comparison.finish() {
            Part::Complete(mut compared) => {
                compared.notes = self.trial.notes().to_vec();
                Part::Complete(compared)
            }
            part @ Part::Part { .. } => part,
        })
    }

    /// The rows with their parameters on each set of layers, and the time of all fits.
    fn cost(&self, places: &[At], session: &mut Session<'_>) -> Result<Outcome, Failure> {
        session.step("timing fits");
        let (none, mut rates) = (Store::none(), Rates::default());
        let seeds = self.options.seed.len();
        let examples = self.trial.examples(self.options.seed[0])?;
        let mut rows = Vec::new();
        for at in places.iter().filter(|at| at.draw == 0) {
            self.with_slots(at, examples.as_ref(), &none, |slots| {
                let dense = slots.targeted();
                for asked in self.asking(&[]).cells() {
                    let parameters = slots.saving(&asked).map_err(|error| error.to_string());
                    let cost = match &parameters {
                        Ok(_) => slots.cost(&asked, &mut rates)?,
                        Err(_) => None,
                    };
                    rows.push(Planned {
                        row: asked.name(),
                        keep: asked.keep,
                        layers: at.place.layers.clone(),
                        left_out: parameters.as_ref().err().cloned(),
                        parameters: parameters.ok(),
                        parameters_dense: dense,
                        memory_bytes: cost.as_ref().map(|cost| cost.memory_bytes),
                        fit_seconds: cost.map(|cost| cost.seconds),
                    });
                }
                Ok(())
            })?;
        }
        session.finish();
        Ok(Outcome::of(SlotsCost { rows, seeds }))
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
        provenance.seeds = self.options.seed.to_vec();
        let read = session.hashes(&[self.fitted_to.to_owned()])?;
        provenance.data.extend(read.into_iter().map(|file| DataSource {
            purpose: "calibration".to_owned(),
            path: session.portable(file.path.display().to_string()),
            sha256: file.sha256,
        }));
        let page = document(&self.options.title, &self.name, &compared);
        let page = with_provenance(page, &provenance.reproducible());
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
