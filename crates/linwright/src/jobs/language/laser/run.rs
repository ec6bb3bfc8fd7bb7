//! `linwright laser`: edits weights as LASER does, evaluates before and after, saves the model.

use super::Laser;
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::source::{OpenModel, open_model};
use crate::jobs::kit::{Failure, Job, Outcome, Session, outputs, store};
use crate::jobs::language::saving::{self, Saving};
use crate::jobs::language::tasks::{
    Judged, before_and_after, check_tasks, cost, open_tasks_if_any,
};
use linwright_compress::Plan;
use linwright_compress::intervention::{SiteEdit, apply_edits};
use linwright_evaluate::Task;
use linwright_lm::cuts::report::edits_table;
use linwright_model::Stored;
use linwright_model::checkpoint::SavedModel;
use linwright_model::checkpoint::export::Exported;
use linwright_ops::SiteId;
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::Monitor;
use serde_json::{Value, json};

/// The edits and their evaluation.
struct Done {
    edits: Plan,
    sites: Vec<SiteEdit>,
    judged: Judged,
    saved: Option<Exported>,
}

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
        return cost(&both, &model, &job.evaluation, session);
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
    let mut done = Done { edits, sites, judged, saved: None };
    if let Some(output) = &job.output {
        let result = kept_result(&done);
        let saving = Saving {
            form: job.form,
            dtype: None,
            force: job.force,
            output,
            result,
            measured: Laser::MEASURED,
            curves: String::new(),
        };
        done.saved = Some(saving.write(&edited, &model, session)?);
    }
    session.finish();
    let result = result(job, &model, &done, session);
    let output = job.output.as_ref().map(|output| session.portable(output));
    Ok(Outcome::new(result, blocks(output.as_deref(), &done)))
}

/// What stands beside the saved model.
fn kept_result(done: &Done) -> Value {
    let (now, before) = parameters(&done.sites);
    json!({
        "edits": done.edits, "sites": done.sites, "targeted": now, "targeted_dense": before,
        "dense": done.judged.dense, "results": done.judged.results,
        "comparisons": done.judged.comparisons,
    })
}

/// Parameters of the edited slots, after and before.
fn parameters(sites: &[SiteEdit]) -> (u64, u64) {
    let sum = |of: fn(&SiteEdit) -> usize| sites.iter().map(|edit| of(edit) as u64).sum();
    (sum(|edit| edit.report.parameters), sum(|edit| edit.report.dense_parameters))
}

fn result(job: &Laser, model: &OpenModel, done: &Done, session: &Session<'_>) -> Value {
    let results = &done.judged.results;
    let mut provenance = session.provenance("linwright laser", &model.loaded, results);
    provenance.seeds = vec![done.edits.seed];
    let (now, before) = parameters(&done.sites);
    let saved = done.saved.as_ref().map(|done| {
        let saved = &done.saved;
        let mut summary = saving::summary(done);
        summary["output"] = json!(job.output.as_ref().map(|output| session.portable(output)));
        summary["parameters"] = json!(saved.parameters);
        summary["weight_bytes"] = json!(bytes(saved));
        summary["max_logit_difference"] = json!(saved.gap.largest);
        summary["relative_logit_difference"] = json!(saved.gap.relative);
        summary
    });
    json!({
        "model": model.place.name, "edits": done.edits, "sites": done.sites,
        "targeted": now, "targeted_dense": before, "keep": now as f64 / before.max(1) as f64,
        "dense": done.judged.dense, "results": done.judged.results,
        "comparisons": done.judged.comparisons,
        "saved": saved, "provenance": provenance,
    })
}

/// Bytes of the weight files.
fn bytes(saved: &SavedModel) -> u64 {
    let weights = saved.files.iter().filter(|file| file.name.ends_with(".safetensors"));
    weights.map(|file| file.bytes).sum()
}

fn blocks(output: Option<&str>, done: &Done) -> Vec<Block> {
    let (now, before) = parameters(&done.sites);
    let told = format!(
        "parameters of the edited weights: {} of {} (keep {:.4})",
        grouped(now),
        grouped(before),
        now as f64 / before.max(1) as f64
    );
    let mut blocks = vec![match done.sites.is_empty() {
        true => text(["nothing is cut", &told]),
        false => text([told]),
    }];
    blocks.extend(done.judged.blocks());
    if let (Some(saved), Some(output)) = (&done.saved, output) {
        let bytes = grouped(bytes(&saved.saved));
        blocks.push(text([
            format!("form {}: {}", saved.choice.form.name(), saved.choice.reason),
            format!("saved to {output}: {bytes} bytes of weights"),
        ]));
    }
    if !done.sites.is_empty() {
        blocks.push(Block::Table(edits_table(&done.sites)));
    }
    blocks
}
