//! `linwright laser`: edits weights as LASER does, evaluates before and after, saves the model.

use super::cuts::component_store;
use super::form::{self, Saving};
use super::tasks::{Judged, Tasks, before_and_after, check_tasks};
use super::{grouped, plain, print, print_json};
use crate::args::Shared;
use crate::build::provenance_of;
use crate::console::Console;
use crate::face::Verb;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{OpenModel, open_model};
use linwright::compress::Plan;
use linwright::compress::intervention::report::edits_table;
use linwright::compress::intervention::{SiteEdit, apply_edits};
use linwright::jobs::Laser;
use linwright::model::checkpoint::SavedModel;
use linwright::model::checkpoint::export::Exported;
use serde_json::json;

/// The edits and their evaluation.
struct Done {
    edits: Plan,
    sites: Vec<SiteEdit>,
    judged: Judged,
    saved: Option<Exported>,
}

pub(crate) type LaserArgs = Verb<Laser>;

pub(crate) fn run(job: &Laser, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let edits = job.edits()?;
    if let Some(output) = &job.output {
        let mut inputs = outputs::of_model(&job.model);
        inputs.extend(job.plan.clone());
        inputs.extend(job.evaluation.inputs());
        outputs::directory(output, job.force, &inputs)?;
    }
    job.evaluation.check_text_field(&[])?;
    // Errors in tasks are reported before a model is loaded.
    let tasks = Tasks::open_if_any(&job.evaluation, &mut console)?;
    let model = open_model(&job.model, &mut console)?;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model)?;
    let store = component_store(&job.cut, &console)?;
    let mut edited = model.loaded.decoder.clone();
    let sites = apply_edits(&mut edited, &edits, &store, &mut console)?;
    let cut = sites.iter().map(|edit| &edit.site);
    let judged = before_and_after(&tasks, &job.evaluation, &model, &edited, cut, &mut console);
    let judged = judged.map_err(Failure::not_resumable)?;
    let mut done = Done { edits, sites, judged, saved: None };
    if let Some(output) = &job.output {
        let saving = Saving { form: job.form, dtype: None, force: job.force, output };
        done.saved = Some(saving.write(&edited, &model, &mut console)?);
    }
    console.finish();
    if shared.json {
        return print_json(&result(job, &model, &done)?);
    }
    show(job, &done)
}

/// Parameters of the edited slots, after and before.
fn parameters(sites: &[SiteEdit]) -> (u64, u64) {
    let sum = |of: fn(&SiteEdit) -> usize| sites.iter().map(|edit| of(edit) as u64).sum();
    (sum(|edit| edit.report.parameters), sum(|edit| edit.report.dense_parameters))
}

fn result(job: &Laser, model: &OpenModel, done: &Done) -> Result<serde_json::Value, Failure> {
    let mut provenance = provenance_of("linwright laser", &model.loaded, &done.judged.results);
    provenance.seeds = vec![done.edits.seed];
    let (now, before) = parameters(&done.sites);
    let saved = done.saved.as_ref().map(|done| {
        let saved = &done.saved;
        let mut summary = form::summary(done);
        summary["output"] = json!(job.output);
        summary["parameters"] = json!(saved.parameters);
        summary["weight_bytes"] = json!(bytes(saved));
        summary["max_logit_difference"] = json!(saved.max_difference);
        summary
    });
    Ok(json!({
        "model": model.place.name, "edits": done.edits, "sites": done.sites,
        "targeted": now, "targeted_dense": before, "keep": now as f64 / before.max(1) as f64,
        "dense": done.judged.dense, "results": done.judged.results,
        "comparisons": done.judged.comparisons,
        "saved": saved, "provenance": provenance,
    }))
}

/// Bytes of the weight files.
fn bytes(saved: &SavedModel) -> u64 {
    let weights = saved.files.iter().filter(|file| file.name.ends_with(".safetensors"));
    weights.map(|file| file.bytes).sum()
}

fn show(job: &Laser, done: &Done) -> Result<(), Failure> {
    match done.sites.is_empty() {
        true => print("nothing is cut")?,
        false => print(&plain(&edits_table(&done.sites)))?,
    }
    let (now, before) = parameters(&done.sites);
    print(&format!(
        "\nparameters of the edited weights: {} of {} (keep {:.4})",
        grouped(now),
        grouped(before),
        now as f64 / before.max(1) as f64
    ))?;
    done.judged.show()?;
    if let (Some(saved), Some(output)) = (&done.saved, &job.output) {
        print(&format!(
            "\nform {}: {}\nsaved to {}: {} bytes of weights",
            saved.choice.form.name(),
            saved.choice.reason,
            output.display(),
            grouped(bytes(&saved.saved))
        ))?;
    }
    Ok(())
}
