//! What a comparison reads: the model, its tasks, its calibration text and its candidates.

use super::Compare;
use super::names::candidates;
use crate::jobs::comparison::check_keeps;
use crate::jobs::kit::source::{OpenModel, POCKET, open_model};
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::calibration::Calibration;
use crate::jobs::language::compress::plan::standard;
use crate::jobs::language::compress::{StoredDType, recovery};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::offload::open_mapped;
use crate::jobs::language::tasks::{check_tasks, open_tasks_if_any};
use linwright_compress::{Edit, Plan, SlotSet};
use linwright_evaluate::{LastOutputs, RunOptions, Task};
use linwright_lm::compare::{Candidate, Work};
use linwright_run::Store;

/// Documents of each task without --limit.
const LIMIT: usize = 200;

/// What a comparison reads.
pub(super) struct Inputs {
    pub(super) model: OpenModel,
    pub(super) evaluation: EvaluationOptions,
    pub(super) tasks: Vec<Box<dyn Task>>,
    pub(super) calibration: Option<Calibration>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) sites: SlotSet,
    /// What was told about the data.
    pub(super) notes: Vec<String>,
}

impl Inputs {
    pub(super) fn new(job: &Compare, session: &mut Session<'_>) -> Result<Self, Failure> {
        let evaluation = evaluation(job);
        let text = job.calibration_text(&evaluation);
        text.check_text_field()?;
        check(job)?;
        let candidates = candidates(&job.methods, !job.no_controls)?;
        let sites = sites(job)?;
        // Errors in tasks are reported before a model is loaded.
        let source = text.open(session)?;
        let beside = source.as_ref().map_or_else(Vec::new, |source| source.tasks().to_vec());
        let tasks = open_tasks_if_any(&evaluation, &beside, session)?;
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
        sites.of(&model.loaded.decoder)?;
        let has_text = source.is_some()
            || job.recover.is_some()
            || candidates.iter().any(Candidate::needs_text);
        let calibration = has_text.then(|| text.windows(source, &model, session)).transpose()?;
        let mut inputs =
            Self { model, evaluation, tasks, calibration, candidates, sites, notes: Vec::new() };
        inputs.compare_texts(session);
        Ok(inputs)
    }

    /// Tells which documents of the tasks are in the calibration text, too.
    fn compare_texts(&mut self, session: &mut Session<'_>) {
        let Some(calibration) = &mut self.calibration else { return };
        let tasks = self.tasks.iter().map(AsRef::as_ref);
        calibration.compare(tasks, "its scores may be too good", session);
        self.notes.push(calibration.record.line());
        self.notes.extend(calibration.notes.iter().cloned());
    }

    /// The work of the comparison.
    pub(super) fn work<'a>(
        &'a self,
        job: &Compare,
        plan_of: &'a dyn Fn(Edit) -> Plan,
        stores: [&'a Store; 2],
        session: &Session<'_>,
    ) -> Result<Work<'a>, Failure> {
        let max_batch_tokens = self.evaluation.batch_size.tokens();
        let [fits, pieces] = stores;
        Ok(Work {
            model: &self.model.loaded.decoder,
            model_hash: &self.model.loaded.hash,
            outputs: LastOutputs::default(),
            tokenizer: self.model.tokenizer()?,
            sentence: self.model.sentence(),
            max_length: self.evaluation.max_length,
            run: RunOptions { max_batch_tokens, ..RunOptions::default() },
            windows: self.calibration.as_ref().map(|text| &text.windows),
            tasks: &self.tasks,
            sites: &self.sites,
            plan_of,
            recovery: recovery::settings_of(job.recover.as_deref(), job.seed),
            dtype: job.dtype.map_or(self.model.loaded.source.dtype, StoredDType::dtype),
            seed: job.seed,
            fits,
            pieces,
            shard: session.shard(),
        })
    }

    /// The plan of an edit, with the healing that `compress` gives it.
    pub(super) fn plan(&self, job: &Compare, edit: Edit) -> Plan {
        standard(&self.model.loaded.decoder, edit, job.seed)
    }
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
    Ok(recovery::check_settings(job.recover.as_deref())?)
}

fn sites(job: &Compare) -> Result<SlotSet, Failure> {
    Ok(job.slots.set()?)
}
