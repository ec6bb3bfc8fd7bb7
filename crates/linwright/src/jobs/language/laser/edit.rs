//! `linwright laser`: edits weights as LASER does, evaluates before and after, saves the model.

use super::Laser;
use super::result::{LaserResult, SavedCut};
use crate::jobs::kit::source::{OpenModel, open_model};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, store};
use crate::jobs::language::saving::{self, SavedAs, Saving};
use crate::jobs::language::tasks::{
    Judged, before_and_after, check_tasks, cost, open_tasks_if_any,
};
use linwright_compress::Plan;
use linwright_compress::intervention::{SiteEdit, apply_edits};
use linwright_evaluate::Task;
use linwright_model::Stored;
use linwright_ops::SiteId;
use linwright_run::Monitor;

pub(super) fn run(job: &Laser, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let edits = job.edits()?;
    if let (Some(output), false) = (&job.output, job.dry_run) {
        let inputs = outputs::inputs_of(job, session);
        outputs::directory(output, job.force, &inputs, session)?;
    }
    job.evaluation.check_text_field(&[])?;
    // Errors in tasks are reported before a model is loaded.
    let tasks = open_tasks_if_any(&job.evaluation, &[], session)?;
    let model = open_model(&job.model, session)?;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model, &job.evaluation)?;
    if job.dry_run {
        let both: Vec<(&dyn Task, u64)> = tasks.iter().map(|task| (task.as_ref(), 2)).collect();
        return cost(&both, &model, &job.evaluation, session).map(Outcome::of);
    }
    // Nothing is kept there, but one process at a time writes the model.
    let at_work = job.output.as_deref().map(|output| store::unfinished(job, Some(output), session));
    let _at_work = at_work.transpose()?;
    let store = store::open(job.cut.cache.as_deref(), job.cut.no_cache, session)?;
    let mut edited = model.loaded.decoder.clone();
    let sites = apply_edits(&mut edited, &edits, &store, session);
    session.tell_damage(&store);
    let sites = sites?;
    let cut: Vec<&SiteId> = sites.iter().map(|edit| &edit.site).collect();
    let stored = match &job.output {
        Some(_) => saving::as_stored(&edited, &model, (job.form, None), None)?,
        None => Stored { model: edited.clone(), changed: Vec::new() },
    };
    let both = (&stored, cut.as_slice());
    let judged = before_and_after(&tasks, &job.evaluation, &model, both, session);
    let judged = judged.map_err(Failure::not_resumable)?;
    let mut result = result(&model, edits, sites, judged, session);
    if let Some(output) = &job.output {
        let (force, form, curves) = (job.force, job.form, String::new());
        let saving = Saving { form, dtype: None, force, output, result: &result, curves };
        let saved = saving.write(&edited, &model, session)?;
        let (form, output) = (SavedAs::of(&saved), session.portable(output));
        result.saved = Some(SavedCut::of(form, output, &saved.saved));
    }
    session.finish();
    Ok(Outcome::of(result))
}

/// What was cut, before the model is saved.
fn result(
    model: &OpenModel,
    edits: Plan,
    sites: Vec<SiteEdit>,
    judged: Judged,
    session: &Session<'_>,
) -> LaserResult {
    let mut provenance = session.provenance("linwright laser", &model.loaded, &judged.results);
    provenance.seeds = vec![edits.seed];
    let sum = |of: fn(&SiteEdit) -> usize| sites.iter().map(|edit| of(edit) as u64).sum::<u64>();
    let now = sum(|edit| edit.report.parameters);
    let before = sum(|edit| edit.report.dense_parameters);
    LaserResult {
        model: model.place.name.clone(),
        edits,
        targeted: now,
        targeted_dense: before,
        keep: now as f64 / before.max(1) as f64,
        sites,
        judged,
        saved: None,
        provenance,
    }
}
