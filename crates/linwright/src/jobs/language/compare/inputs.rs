//! What a comparison reads: the model, its tasks, its calibration text and its candidates.

use super::Compare;
use super::names::rows;
use crate::jobs::comparison::check_keeps;
use crate::jobs::comparison::places::{At, check_seeds, places};
use crate::jobs::comparison::rows::check_against;
use crate::jobs::kit::source::{OpenModel, POCKET, open_model};
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::calibration::Calibration;
use crate::jobs::language::compress::plan::{healed, standard};
use crate::jobs::language::compress::{StoredDType, recovery};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::offload::open_mapped;
use crate::jobs::language::tasks::{check_tasks, open_tasks_if_any};
use linwright_compare::{Asking, Place};
use linwright_compress::{Edit, Plan};
use linwright_evaluate::{LastOutputs, RunOptions, Task};
use linwright_lm::compare::{Candidate, Row, Work};
use linwright_run::Store;

/// Documents of each task without --limit.
const LIMIT: usize = 200;

/// What a comparison reads.
pub(super) struct Inputs {
    pub(super) model: OpenModel,
    pub(super) evaluation: EvaluationOptions,
    pub(super) tasks: Vec<Box<dyn Task>>,
    /// Calibration text of each seed, or of all; none if nothing reads one.
    pub(super) calibrations: Vec<Calibration>,
    pub(super) rows: Vec<Row>,
    pub(super) places: Vec<At>,
    /// What was told about the data.
    pub(super) notes: Vec<String>,
    /// Outputs of the dense model, with which all others are compared.
    outputs: LastOutputs,
}

impl Inputs {
    pub(super) fn new(job: &Compare, session: &mut Session<'_>) -> Result<Self, Failure> {
        let evaluation = evaluation(job);
        check(job)?;
        let text = job.calibration_text(&evaluation, job.seed[0]);
        text.check_text_field()?;
        let rows = rows(&job.methods, &job.keep, !job.no_controls)?;
        check_against(&job.against, &asking(job, &rows, &[]).lines())?;
        let (sites, sets) = (job.slots.set_of_all(), job.slots.sets()?);
        // Errors in tasks are reported before a model is loaded.
        let source = text.open(session)?;
        let beside = source.as_ref().map_or_else(Vec::new, |source| source.tasks().to_vec());
        let mut tasks = open_tasks_if_any(&evaluation, &beside, session)?;
        if tasks.is_empty() {
            return Err(Failure::usage("nothing to compare models by")
                .hint("give --text FILE or --tasks TASK"));
        }
        // A list of sizes reads no weights.
        let model = match job.dry_run {
            true => open_mapped(&job.model, session)?,
            false => open_model(&job.model, session)?,
        };
        check_tasks(tasks.iter().map(AsRef::as_ref), &model, &evaluation)?;
        recovery::check_model(job.recover.as_deref(), &model.loaded.decoder, None)?;
        let places = places(&model.loaded.decoder, &job.seed, sets.as_deref(), &sites)?;
        let notes = match (&source, job.exclude_overlap) {
            (_, false) => Vec::new(),
            (Some(source), true) => source.leave_out(&mut tasks)?,
            (None, true) => {
                return Err(Failure::usage("--exclude-overlap: there is no calibration text")
                    .hint("give --calibration FILE"));
            }
        };
        notes.iter().for_each(|note| session.note(&format!("note: {note}")));
        let has_text = source.is_some()
            || job.recover.is_some()
            || rows.iter().any(|row| row.candidate.needs_text());
        let mut calibrations = Vec::new();
        if has_text {
            calibrations.push(text.windows(source, &model, session)?);
            for &seed in job.seed.iter().skip(1).filter(|_| text.is_drawn()) {
                let text = job.calibration_text(&evaluation, seed);
                let source = text.open(session)?;
                calibrations.push(text.windows(source, &model, session)?);
            }
        }
        let mut inputs = Self {
            model,
            evaluation,
            tasks,
            calibrations,
            rows,
            places,
            notes,
            outputs: LastOutputs::default(),
        };
        inputs.compare_texts(session);
        Ok(inputs)
    }

    /// The calibration text of the first seed.
    pub(super) fn calibration(&self) -> Option<&Calibration> {
        self.calibrations.first()
    }

    /// What is asked for at these places.
    pub(super) fn asking<'a>(
        &'a self,
        job: &'a Compare,
        places: &'a [Place],
    ) -> Asking<'a, Candidate> {
        asking(job, &self.rows, places)
    }

    /// Tells which documents of the tasks are in the calibration text, too.
    fn compare_texts(&mut self, session: &mut Session<'_>) {
        let Some(calibration) = self.calibrations.first_mut() else { return };
        let tasks = self.tasks.iter().map(AsRef::as_ref);
        calibration.compare(tasks, "its scores may be too good", session);
        self.notes.push(calibration.record.line());
        self.notes.extend(calibration.notes.iter().cloned());
    }

    /// The work of the comparison at a place.
    pub(super) fn work<'a>(
        &'a self,
        job: &Compare,
        at: &'a At,
        plan_of: &'a dyn Fn(Edit) -> Plan,
        stores: [&'a Store; 2],
        session: &Session<'_>,
    ) -> Result<Work<'a>, Failure> {
        let max_batch_tokens = self.evaluation.batch_size.tokens();
        let [fits, pieces] = stores;
        Ok(Work {
            model: &self.model.loaded.decoder,
            model_hash: &self.model.loaded.hash,
            outputs: &self.outputs,
            tokenizer: self.model.tokenizer()?,
            sentence: self.model.sentence(),
            max_length: self.evaluation.max_length,
            run: RunOptions { max_batch_tokens, ..RunOptions::default() },
            windows: self
                .calibrations
                .get(at.draw)
                .or(self.calibration())
                .map(|text| &text.windows),
            tasks: &self.tasks,
            sites: &at.sites,
            plan_of,
            recovery: recovery::settings_of(job.recover.as_deref(), at.place.seed),
            dtype: job.dtype.map_or(self.model.loaded.source.dtype, StoredDType::dtype),
            seed: at.place.seed,
            fits,
            pieces,
            shard: session.shard(),
        })
    }

    /// The plan of an edit, with the healing that all rows have, or else that of `compress`.
    pub(super) fn plan(&self, job: &Compare, edit: Edit, seed: u64) -> Plan {
        match job.heal {
            Some(heal) => healed(&self.model.loaded.decoder, edit, heal, seed),
            None => standard(&self.model.loaded.decoder, edit, seed),
        }
    }
}

/// What is asked for at these places.
fn asking<'a>(job: &'a Compare, rows: &'a [Row], places: &'a [Place]) -> Asking<'a, Candidate> {
    Asking { rows, keeps: &job.keep, places, against: &job.against }
}

/// The tasks: those of the built-in model if none is named, and not all of their documents.
fn evaluation(job: &Compare) -> EvaluationOptions {
    let mut asked = job.evaluation.clone();
    let is_asked = !asked.tasks.is_empty() || asked.text.is_some();
    if !is_asked && job.model == POCKET {
        asked.text = Some(POCKET.to_owned());
        asked.tasks = vec![POCKET.to_owned()];
    }
    if asked.limit.is_none() && asked.samples.is_none() {
        asked.limit = Some(LIMIT);
    }
    asked
}

/// Checks what needs no file.
fn check(job: &Compare) -> Result<(), Failure> {
    check_keeps(&job.keep)?;
    check_seeds(&job.seed)?;
    Ok(recovery::check_settings(job.recover.as_deref())?)
}
