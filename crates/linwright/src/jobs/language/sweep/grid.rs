//! `linwright sweep`: evaluates every cut of a grid on a task.

use super::Sweep;
use super::result::SweepOfModel;
use crate::jobs::kit::outcome::{apart, text, write_pages};
use crate::jobs::kit::source::{OpenModel, open_model};
use crate::jobs::kit::store;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, shards};
use crate::jobs::language::cuts::CutOptions;
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::saving::write_beside;
use crate::jobs::language::slots::SlotOptions;
use crate::jobs::language::tasks::{EvaluationCost, check_tasks, cost, open_one, open_parts};
use linwright_evaluate::{Outcome as Part, Parts, RunOptions};
use linwright_lm::cuts::grid::{Grid, places};
use linwright_lm::cuts::report::{ranking, sweep_document, test_table, verdict};
use linwright_lm::cuts::sweep::{Swept as SweepCells, Work, sweep};
use linwright_report::{Block, Document};
use linwright_run::{Measured, Monitor, RunDirectory, StepTime, Store, state};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The opened model and task of a sweep or composition.
pub(in crate::jobs) struct Opened {
    pub(in crate::jobs) model: OpenModel,
    pub(in crate::jobs) parts: Parts,
}

/// The items that choose.
#[derive(Clone, Copy)]
pub(in crate::jobs) enum Items {
    /// A fifth, in the order of the file or drawn with a seed; the others test.
    Fifth(Option<u64>),
    /// All, and none tests.
    All,
}

impl Opened {
    pub(in crate::jobs) fn new(
        model: &str,
        asked: &EvaluationOptions,
        items: Items,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        asked.check_text_field(&[])?;
        // Errors in tasks are reported before a model is loaded.
        let parts = match items {
            Items::Fifth(shuffle) => open_parts(asked, shuffle, session)?,
            Items::All => Parts { validation: open_one(asked, &[], session)?, test: None },
        };
        let model = open_model(model, session)?;
        let both = std::iter::once(&parts.validation).chain(&parts.test);
        check_tasks(both.map(AsRef::as_ref), &model, asked)?;
        Ok(Self { model, parts })
    }

    /// The cost of a sweep or composition of so many cells, beside the dense model.
    pub(in crate::jobs) fn cost(
        &self,
        cells: usize,
        asked: &EvaluationOptions,
        session: &mut Session<'_>,
    ) -> Result<EvaluationCost, Failure> {
        let validation = (self.parts.validation.as_ref(), 1 + cells as u64);
        let test = self.parts.test.as_deref().map(|test| (test, 2));
        let tasks: Vec<_> = std::iter::once(validation).chain(test).collect();
        cost(&tasks, &self.model, asked, session)
    }

    /// The inputs of a sweep or composition.
    pub(in crate::jobs) fn work<'a>(
        &'a self,
        asked: &EvaluationOptions,
        metric: Option<&'a str>,
        store: &'a Store,
    ) -> Result<Work<'a>, Failure> {
        Ok(Work {
            model: &self.model.loaded.decoder,
            tokenizer: self.model.tokenizer()?,
            model_hash: &self.model.loaded.hash,
            validation: self.parts.validation.as_ref(),
            test: self.parts.test.as_deref(),
            metric,
            store,
            run: RunOptions {
                max_batch_tokens: asked.batch_size.tokens(),
                ..RunOptions::default()
            },
            max_length: asked.max_length,
            sentence: self.model.sentence(),
            shares: true,
        })
    }
}

/// The grid that options describe.
pub(in crate::jobs) fn grid(slots: &SlotOptions, cut: &CutOptions) -> Result<Grid, Failure> {
    slots.check_named(&cut.intervention.part)?;
    let sizes = cut.sizes()?;
    Ok(Grid {
        lnames: slots.lnames(),
        roles: slots.single_roles(),
        patterns: slots.sites.clone(),
        ignore: slots.ignore.clone(),
        parts: cut.intervention.part.clone(),
        layers: slots.layers()?,
        together: slots.all_at_once(),
        method: cut.method(),
        seed: cut.seed,
        sizes,
    })
}

/// The items that choose the best cell.
fn items(job: &Sweep) -> Result<Items, Failure> {
    match (job.no_split, job.evaluation.shuffle) {
        (false, shuffle) => Ok(Items::Fifth(shuffle)),
        (true, None) => Ok(Items::All),
        (true, Some(_)) => {
            Err(Failure::usage("--no-split leaves nothing to shuffle").hint("give one of them"))
        }
    }
}

pub(super) fn run(job: &Sweep, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if job.dry_run {
        let grid = grid(&job.slots, &job.cut)?;
        let opened = Opened::new(&job.model, &job.evaluation, items(job)?, session)?;
        let cells = places(&grid, &opened.model.loaded.decoder)?.len() * grid.sizes.len();
        return opened.cost(cells, &job.evaluation, session).map(Outcome::of);
    }
    let Finished { result, output } = match swept(job, session)? {
        Swept::Whole(finished) => *finished,
        Swept::Part(outcome) => return Ok(*outcome),
    };
    let swept = &result.sweep;
    let mut blocks = vec![text([verdict(swept)])];
    blocks.extend(swept.test.as_ref().map(|test| Block::Table(test_table(test))));
    blocks.push(text([format!("report: {}", session.portable(output.join("report.html")))]));
    blocks.push(Block::Table(ranking(swept)));
    Ok(Outcome::of(result).showing(blocks))
}

/// A finished sweep with its files.
pub(crate) struct Finished {
    /// The result.
    pub(crate) result: SweepOfModel,
    /// Its directory.
    pub(crate) output: PathBuf,
}

/// A sweep, or the part of it that a shard did.
pub(crate) enum Swept {
    /// Every cell.
    Whole(Box<Finished>),
    /// The cells of a shard.
    Part(Box<Outcome>),
}

/// Runs a sweep and writes its files.
pub(crate) fn swept(job: &Sweep, session: &mut Session<'_>) -> Result<Swept, Failure> {
    // A recipe of sweeps calls this, too.
    outputs::check_job(job, session)?;
    shards::output_of(session, job.output.as_deref())?;
    let grid = grid(&job.slots, &job.cut)?;
    let opened = Opened::new(&job.model, &job.evaluation, items(job)?, session)?;
    let store = store::open(job.cut.cache.as_deref(), job.cut.no_cache, session)?;
    places(&grid, &opened.model.loaded.decoder)?;
    let mut work = opened.work(&job.evaluation, job.evaluation.metric.as_deref(), &store)?;
    work.shares = !job.no_share;
    work.run.shard = session.shard();
    let fingerprint = work.fingerprint(&grid);
    let own = || Path::new("runs").join(format!("sweep-{}", &fingerprint.0[..8]));
    let output = job.output.as_deref().map_or_else(own, Path::to_owned);
    let directory = RunDirectory::open_of(
        &output,
        &fingerprint,
        &outputs::basis(job, &opened.model.loaded.hash, session),
    )?;
    shards::mark(session, &output)?;
    let directory = directory.reading_also(shards::sources(session, Path::new(""))?);
    let swept = sweep(&work, &grid, &directory, session);
    session.tell_damage(directory.pieces());
    session.tell_damage(&store);
    let swept = match swept.map_err(|error| left_nothing(&directory, error.into()))? {
        Part::Complete(swept) => swept,
        Part::Part { known, total } => {
            session.finish();
            let part = shards::part(session, &output, known, total)?;
            return Ok(Swept::Part(Box::new(part)));
        }
    };
    let times = session.finish();
    let document = sweep_document(&job.title, &opened.model.place.name, &swept);
    let result = result(&opened, swept, &times, session);
    let (kept, measured) = apart(&result)?;
    write_beside(session, &opened.model, &measured, &output)?;
    write(&output, &result.sweep, &document, &kept)?;
    Ok(Swept::Whole(Box::new(Finished { result, output })))
}

/// Writes `cells.jsonl`, `report.md`, `report.html` and `result.json`.
fn write(
    directory: &Path,
    swept: &SweepCells,
    document: &Document,
    json: &Value,
) -> Result<(), Failure> {
    let text = |path: &str, text: String| state::write(&directory.join(path), text.as_bytes());
    let mut lines = String::new();
    for cell in &swept.cells {
        let line = serde_json::to_string(cell)
            .map_err(|error| Failure::general(format!("cannot write a cell as JSON: {error}")))?;
        lines += &(line + "\n");
    }
    text("cells.jsonl", lines)?;
    write_pages(document, directory)?;
    // Last, so that it is there when all is.
    Ok(text("result.json", format!("{json:#}\n"))?)
}

/// Removes what a run began that can never be finished, unless it has more finished pieces than the
/// dense model, which comes first: those took time.
pub(crate) fn left_nothing(directory: &RunDirectory, failure: Failure) -> Failure {
    let pieces = directory.pieces().entries().unwrap_or_default();
    if failure.is_for_good() && pieces.len() <= 1 {
        directory.discard();
    }
    failure
}

fn result(
    opened: &Opened,
    sweep: SweepCells,
    times: &[StepTime],
    session: &Session<'_>,
) -> SweepOfModel {
    let results: Vec<_> = std::iter::once(&sweep.dense)
        .chain(sweep.test.iter().map(|test| &test.dense))
        .cloned()
        .collect();
    let mut provenance = session.provenance("linwright sweep", &opened.model.loaded, &results);
    provenance.seeds = vec![sweep.grid.seed];
    let seconds: f64 = times.iter().map(|step| step.seconds).sum();
    let model = opened.model.place.name.clone();
    SweepOfModel { model, sweep, provenance, seconds: Measured(seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::kit::FailureKind;
    use linwright_evaluate::EvaluationError;
    use linwright_run::{Fingerprint, PieceKey};

    /// Whether a new run with so many finished cells is there after a failure.
    fn stays(cells: u32, failure: Failure) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let directory = RunDirectory::open(&path, &Fingerprint::of(&[("a", &1)])).unwrap();
        for cell in 0..cells {
            let key = PieceKey::new("cell", Fingerprint::of(&[("cell", &cell)]));
            directory.pieces().put(&key, &[b"{}"]).unwrap();
        }
        drop(left_nothing(&directory, failure));
        drop(directory);
        path.exists()
    }

    #[test]
    fn finished_cells_stay_after_an_error_that_would_come_again() {
        let lost = || EvaluationError::NonFinite { place: "a".into(), token: 0, found: f64::NAN };
        assert!(
            !stays(0, lost().into()) && !stays(1, lost().into()),
            "nothing, or the dense model"
        );
        assert!(stays(2, lost().into()));
        assert!(stays(1, Failure::new(FailureKind::General, "a disk")), "the same command resumes");
    }
}
