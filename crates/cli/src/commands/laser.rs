//! `linwright laser`: cut weights of a model, judge it before and after, save it.

use super::cuts::{CutArgs, SlotArgs, edits_table};
use super::eval::{render, render_comparisons};
use super::form::{self, FormArg, Saving};
use super::tasks::{Measured, TaskArgs, Tasks};
use super::{grouped, print, print_json};
use crate::args::{Shared, one_of, role_of};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::provenance;
use crate::source::open_model;
use clap::Args;
use linwright::compress::Monitor;
use linwright::compress::intervention::{Edit, Edits, SiteEdit, Variant, Variants, apply_edits};
use linwright::measure::evaluate::{
    Comparison, Hooks, RunOptions, Task, TaskResult, compare, evaluate_each,
};
use linwright::model::Transformer;
use linwright::model::checkpoint::export::Exported;
use linwright::model::checkpoint::{LoadedModel, SavedModel};
use linwright::ops::{Role, Sites};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Largest plan that is read, in bytes.
const PLAN_BYTES: u64 = 1 << 24;

/// Cut weights of a model as LASER does, score it before and after, and save it, smaller where factors are.
#[derive(Debug, Args)]
pub(crate) struct LaserArgs {
    /// A checkpoint directory, `pocket` for the built-in model, or `owner/name[@revision]` on the hub.
    model: String,
    #[command(flatten)]
    slots: SlotArgs,
    /// Roles of weights, beside --lname.
    #[arg(long, value_delimiter = ',', value_parser = role_of(&Role::ALL))]
    roles: Vec<Role>,
    /// Names of slots: a glob such as `*.mlp.*`, or a regular expression after `re:`.
    #[arg(long, value_name = "PATTERN")]
    site: Option<String>,
    /// Make these edits instead: JSON, as `linwright compose` writes it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lname", "lnum", "roles", "site"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    cut: CutArgs,
    #[command(flatten)]
    asked: TaskArgs,
    /// Directory to write the model to.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// What is written: `auto` is what loads in most places without being larger than it need be.
    #[arg(long, value_parser = one_of(&FormArg::EDITED, FormArg::name), default_value = "auto")]
    form: FormArg,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
}

/// What came of it.
struct Done {
    edits: Edits,
    sites: Vec<SiteEdit>,
    dense: Vec<TaskResult>,
    results: Vec<TaskResult>,
    comparisons: Vec<Comparison>,
    saved: Option<Exported>,
}

pub(crate) fn run(args: &LaserArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let edits = edits(args)?;
    if let Some(output) =
        args.output.as_ref().filter(|path| path.symlink_metadata().is_ok() && !args.force)
    {
        return Err(Failure::usage(format!("{} exists", output.display()))
            .hint("choose another directory or give --force"));
    }
    let asked = &args.asked;
    if asked.apply_chat_template {
        return Err(Failure::usage("--apply-chat-template is of no use here")
            .hint("save the model with -o and give both to `linwright eval`"));
    }
    let is_asked = !asked.tasks.is_empty() || asked.questions.is_some() || asked.text.is_some();
    // Mistakes in tasks are told before a model is loaded.
    let tasks = match is_asked {
        true => Tasks::open(asked, false, None, &mut console)?.all,
        false => Vec::new(),
    };
    let (loaded, place) = open_model(&args.model, &mut console)?;
    let store = args.cut.store(&console)?;
    let mut edited = loaded.decoder.clone();
    let sites = apply_edits(&mut edited, &edits, &store, &mut console)?;
    let mut done = judge(args, (&loaded, &edited), (edits, sites), &tasks, &mut console)?;
    if let Some(output) = &args.output {
        let saving = Saving { form: args.form, dtype: None, force: args.force, output };
        done.saved = Some(saving.write(&edited, (&loaded, &place), &mut console)?);
    }
    console.finish();
    if shared.json {
        return print_json(&result(args, &loaded, &place.name, &done)?);
    }
    show(args, &done)
}

/// The edits that options describe.
fn edits(args: &LaserArgs) -> Result<Edits, Failure> {
    if let Some(path) = &args.plan {
        return read_plan(path);
    }
    let sizes = args.cut.sizes()?;
    if sizes.len() > 1 {
        let given: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        return Err(Failure::usage(format!(
            "{} say how much stays, expected one",
            given.join(", ")
        ))
        .hint("`linwright sweep` tries several"));
    }
    let cut = args.cut.cut(sizes[0]);
    cut.check().map_err(Failure::usage)?;
    let slots = args.slots.set(args.roles.clone(), args.site.clone())?;
    Ok(Edits { edits: vec![Edit { slots, cut }] })
}

fn read_plan(path: &Path) -> Result<Edits, Failure> {
    let shown = path.display().to_string();
    let io = |error: std::io::Error| Failure::io(&shown, &error);
    if std::fs::metadata(path).map_err(io)?.len() > PLAN_BYTES {
        return Err(Failure::usage(format!("{shown} is larger than any plan")));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let edits: Edits = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{shown} is no plan of edits: {error}")).hint(
            "expected {\"edits\": [{\"slots\": {\"lnames\": [\"fc_in\"], \"layers\": [3]}, \
                   \"cut\": {\"intervention\": \"rank-reduction\", \"size\": {\"rate\": 9}}}]}",
        )
    })?;
    for edit in &edits.edits {
        edit.cut.check().map_err(|reason| Failure::usage(format!("{shown}: {reason}")))?;
    }
    Ok(edits)
}

/// Scores the model as it is and edited.
fn judge(
    args: &LaserArgs,
    (loaded, edited): (&LoadedModel, &Transformer),
    (edits, sites): (Edits, Vec<SiteEdit>),
    tasks: &[Measured],
    console: &mut Console,
) -> Result<Done, Failure> {
    let variants = [Variant { ops: Vec::new() }, variant(edited, &sites)];
    let options = RunOptions { max_batch_tokens: args.asked.batch_size, longest: None };
    let (mut dense, mut results) = (Vec::new(), Vec::new());
    for task in tasks {
        let task: &dyn Task = match task {
            Measured::Asked(task) => task.as_ref(),
            Measured::Pairs(pairs) => {
                return Err(Failure::usage(format!("{} compares sentences", pairs.id()))
                    .hint("save the model with -o and give both to `linwright eval`"));
            }
        };
        console.stage(&format!("{}: before and after", task.id()));
        let tokenizer = loaded.tokenizer.as_ref().ok_or_else(|| {
            Failure::general(format!("{} has no tokenizer.json", args.model))
                .hint("text can only be scored with the model's tokenizer")
        })?;
        let both = Variants::new((&loaded.decoder, tokenizer), &variants, args.asked.max_length);
        let mut hooks = Hooks {
            progress: &mut |p| console.progress(p.done_tokens, p.total_tokens),
            cancelled: &interrupt::asked,
            journal: None,
        };
        let found = evaluate_each(task, &both, &options, &mut hooks, |result| result);
        let mut found = found.map_err(|error| Failure::from(error).not_resumable())?.into_iter();
        dense.extend(found.next());
        results.extend(found.next());
    }
    let comparisons = compare(&results, &dense);
    Ok(Done { edits, sites, dense, results, comparisons, saved: None })
}

/// The operators of edited slots.
fn variant(edited: &Transformer, sites: &[SiteEdit]) -> Variant {
    let op = |edit: &SiteEdit| {
        let slot = edited.slot(&edit.site).expect("the slot was edited");
        (edit.site.clone(), slot.op().clone())
    };
    Variant { ops: sites.iter().map(op).collect() }
}

/// Parameters of the edited slots now and before.
fn parameters(sites: &[SiteEdit]) -> (u64, u64) {
    let sum = |of: fn(&SiteEdit) -> usize| sites.iter().map(|edit| of(edit) as u64).sum();
    (sum(|edit| edit.report.parameters), sum(|edit| edit.report.dense_parameters))
}

fn result(
    args: &LaserArgs,
    loaded: &LoadedModel,
    model: &str,
    done: &Done,
) -> Result<serde_json::Value, Failure> {
    let mut provenance = provenance::of_evaluation(loaded, &done.results);
    provenance.recipe = "linwright laser".into();
    provenance.seeds = done.edits.edits.iter().map(|edit| edit.cut.seed).collect();
    let (now, before) = parameters(&done.sites);
    let saved = done.saved.as_ref().map(|done| {
        let saved = &done.saved;
        let mut told = form::told(done);
        told["output"] = json!(args.output);
        told["parameters"] = json!(saved.parameters);
        told["weight_bytes"] = json!(bytes(saved));
        told["max_logit_difference"] = json!(saved.max_difference);
        told
    });
    Ok(json!({
        "model": model, "edits": done.edits, "sites": done.sites,
        "targeted": now, "targeted_dense": before, "keep": now as f64 / before.max(1) as f64,
        "dense": done.dense, "results": done.results, "comparisons": done.comparisons,
        "saved": saved, "provenance": provenance,
    }))
}

/// Bytes of the weight files.
fn bytes(saved: &SavedModel) -> u64 {
    let weights = saved.files.iter().filter(|file| file.name.ends_with(".safetensors"));
    weights.map(|file| file.bytes).sum()
}

fn show(args: &LaserArgs, done: &Done) -> Result<(), Failure> {
    match done.sites.is_empty() {
        true => print("nothing is cut")?,
        false => print(&edits_table(&done.sites))?,
    }
    let (now, before) = parameters(&done.sites);
    print(&format!(
        "\nparameters of the cut weights: {} of {} (keep {:.4})",
        grouped(now),
        grouped(before),
        now as f64 / before.max(1) as f64
    ))?;
    if !done.results.is_empty() {
        print(&format!("\n{}", render(&done.results, Some(&done.dense))))?;
        print(&format!("\n{}", render_comparisons(&done.comparisons)))?;
    }
    if let (Some(saved), Some(output)) = (&done.saved, &args.output) {
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
