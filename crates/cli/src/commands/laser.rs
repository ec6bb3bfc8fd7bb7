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
use linwright::compress::intervention::report::edits_table;
use linwright::compress::intervention::{Edit, Edits, SiteEdit, apply_edits};
use linwright::jobs::Laser;
use linwright::model::checkpoint::SavedModel;
use linwright::model::checkpoint::export::Exported;
use linwright::run::{input, shown_reason};
use serde_json::json;
use std::path::Path;

/// Largest plan that is read, in bytes.
const PLAN_BYTES: u64 = 1 << 24;

/// The edits and their evaluation.
struct Done {
    edits: Edits,
    sites: Vec<SiteEdit>,
    judged: Judged,
    saved: Option<Exported>,
}

pub(crate) type LaserArgs = Verb<Laser>;

pub(crate) fn run(job: &Laser, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let edits = edits(job)?;
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
    let sites = apply_edits(&mut edited, &edits, &store, &mut console);
    console.tell_damage(&store);
    let sites = sites?;
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

/// The edits that options describe.
fn edits(job: &Laser) -> Result<Edits, Failure> {
    if let Some(path) = &job.plan {
        return read_plan(path);
    }
    let sizes = job.cut.sizes()?;
    if sizes.len() > 1 {
        let given: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!("{} each give a size, expected one", given.join(", ")))
            .hint("`linwright sweep` tries several"));
    }
    let cut = job.cut.cut(sizes[0]);
    cut.check().map_err(Failure::usage)?;
    let slots = job.slots.set(job.roles.clone(), job.site.clone())?;
    Ok(Edits { edits: vec![Edit { slots, cut }] })
}

fn read_plan(path: &Path) -> Result<Edits, Failure> {
    let shown = path.display().to_string();
    let io = |error: std::io::Error| Failure::io(&shown, &error);
    let text = input::read_text(path, PLAN_BYTES).map_err(io)?;
    let edits: Edits = serde_json::from_str(&text).map_err(|error| {
        let reason = shown_reason(&error.to_string());
        Failure::usage(format!("{shown} is not a plan of edits: {reason}")).hint(
            "expected {\"edits\": [{\"slots\": {\"lnames\": [\"fc_in\"], \"layers\": [3]}, \
                   \"cut\": {\"intervention\": \"rank-reduction\", \"size\": {\"rate\": 9}}}]}",
        )
    })?;
    for edit in &edits.edits {
        edit.cut.check().map_err(|reason| Failure::usage(format!("{shown}: {reason}")))?;
    }
    Ok(edits)
}

/// Parameters of the edited slots, after and before.
fn parameters(sites: &[SiteEdit]) -> (u64, u64) {
    let sum = |of: fn(&SiteEdit) -> usize| sites.iter().map(|edit| of(edit) as u64).sum();
    (sum(|edit| edit.report.parameters), sum(|edit| edit.report.dense_parameters))
}

fn result(job: &Laser, model: &OpenModel, done: &Done) -> Result<serde_json::Value, Failure> {
    let mut provenance = provenance_of("linwright laser", &model.loaded, &done.judged.results);
    provenance.seeds = done.edits.edits.iter().map(|edit| edit.cut.seed).collect();
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
