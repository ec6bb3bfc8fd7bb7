//! `linwright export`: saves a model in a form that other runtimes load.

use super::{grouped, print, print_json};
use crate::args::Shared;
use crate::console::Console;
use crate::face::Verb;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{OpenModel, Place, find_model, open_model};
use linwright::jobs::{Export, SavedForm, StoredDType};
use linwright::model::checkpoint::export::lora::{Adapter, LoraOptions, export_lora};
use linwright::model::checkpoint::export::{Card, ExportForm, ExportOptions, Exported, export};
use linwright::model::checkpoint::{LoadedModel, SHARD_BYTES};
use linwright::run::{Monitor, input};
use linwright::tensor::dtype::DType;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Largest file of results that is read, in bytes.
const RESULT_BYTES: u64 = 1 << 24;

pub(crate) type ExportArgs = Verb<Export>;

pub(crate) fn run(job: &Export, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    check(job)?;
    let mut inputs = outputs::of_model(&job.model);
    inputs.extend(job.base.as_deref().into_iter().flat_map(outputs::of_model));
    inputs.extend(job.results.clone());
    outputs::directory(&job.output, job.force, &inputs)?;
    let results = job.results.as_deref().map(read_results).transpose()?;
    let model = open_model(&job.model, &mut console)?;
    let base = job.base.as_deref().map(|base| find_model(base, &mut console)).transpose()?;
    // An adapter belongs to its base, not to the model from which it was extracted.
    let origin = base.as_ref().unwrap_or(&model.place);
    let base_model = job.base_model.clone().or_else(|| origin.on_hub.clone());
    let card = Card { base_model, results };
    let reproduce = record(&model, base.as_ref());
    console.step("saving and loading back");
    match job.form {
        SavedForm::Lora => {
            let base = base.ok_or_else(|| Failure::usage("form lora needs --base"))?;
            let adapter = write_adapter(job, &model.loaded, &base, card, reproduce)?;
            for warning in &adapter.warnings {
                console.note(&format!("note: {warning}"));
            }
            console.finish();
            print_adapter(job, &adapter, shared)
        }
        SavedForm::Auto | SavedForm::Whole(_) => {
            let options = ExportOptions {
                form: job.form.whole(),
                dtype: job.dtype.map(StoredDType::dtype),
                force: job.force,
                shard_bytes: job.shard_size.map_or(SHARD_BYTES, |size| size.0),
                max_bytes: None,
                card,
                reproduce,
            };
            let done = export(&model.loaded.decoder, &model.loaded.source, &options, &job.output)?;
            for warning in &done.warnings {
                console.note(&format!("note: {warning}"));
            }
            console.finish();
            print_result(job, &done, shared)
        }
    }
}

/// Refuses options that the form does not use.
fn check(job: &Export) -> Result<(), Failure> {
    let form = job.form.name();
    if job.form == SavedForm::Lora && job.base.is_none() {
        return Err(Failure::usage("--form lora needs the model that the adapter belongs to")
            .hint("give --base MODEL"));
    }
    if job.form != SavedForm::Lora && job.base.is_some() {
        return Err(Failure::usage(format!("--base does not apply to form {form}"))
            .hint("give --form lora to write the difference from a base"));
    }
    let one_file = matches!(job.form, SavedForm::Lora | SavedForm::Whole(ExportForm::Gguf));
    if one_file && job.shard_size.is_some() {
        return Err(Failure::usage(format!("--shard-size does not apply to form {form}"))
            .hint("its weights are one file"));
    }
    if job.output.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
        let shown = job.output.display();
        return Err(Failure::usage(format!("{shown} would be a directory")).hint(
            "give a directory; form gguf writes model-F16.gguf (or another data type) into it",
        ));
    }
    Ok(())
}

/// The result of an evaluation, as `linwright eval --json` prints it.
fn read_results(path: &Path) -> Result<Value, Failure> {
    let shown = path.display().to_string();
    let bytes = input::read(path, RESULT_BYTES).map_err(|error| Failure::io(&shown, &error))?;
    let wrong = |what: &str| {
        Failure::general(format!("{shown}: {what}"))
            .hint("give what `linwright eval --json` printed")
    };
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| wrong(&format!("not valid JSON ({error})")))?;
    match value.get("results") {
        Some(Value::Object(_)) => Ok(value),
        _ => Err(wrong("it has no object `results`")),
    }
}

/// Command line and inputs.
pub(super) fn record(model: &OpenModel, base: Option<&Place>) -> Map<String, Value> {
    let command: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let mut inputs = vec![json!({ "model": model.place.name, "sha256": model.loaded.hash })];
    if let Some(base) = base {
        // The base of an adapter; its weights are read when they are needed.
        let config = base.path.join("config.json");
        inputs.push(json!({ "base": base.name, "config": config.display().to_string() }));
    }
    let mut record = Map::new();
    record.insert("command".into(), json!([&["linwright".to_owned()][..], &command].concat()));
    record.insert("inputs".into(), json!(inputs));
    record
}

fn write_adapter(
    job: &Export,
    loaded: &LoadedModel,
    base: &Place,
    card: Card,
    reproduce: Map<String, Value>,
) -> Result<Adapter, Failure> {
    let options = LoraOptions {
        rank: job.rank,
        energy: job.energy,
        dtype: job.dtype.map_or(DType::F32, StoredDType::dtype),
        force: job.force,
        max_bytes: None,
        card,
        reproduce,
    };
    Ok(export_lora(&loaded.decoder, &loaded.source, &base.path, &options, &job.output)?)
}

fn print_result(job: &Export, done: &Exported, shared: &Shared) -> Result<(), Failure> {
    let form = done.choice.form.name();
    if shared.json {
        return print_json(&json!({
            "output": job.output, "form": form, "reason": done.choice.reason,
            "parameters": done.sizes, "warnings": done.warnings,
            "max_logit_difference": done.saved.max_difference,
            "files": done.saved.files.iter().map(|file| json!({
                "name": file.name, "bytes": file.bytes, "sha256": file.sha256,
            })).collect::<Vec<_>>(),
        }));
    }
    let sizes = &done.sizes;
    print(&format!(
        "form {form}: {}\n{} parameters (dense {}), {} bytes of weights (dense {})\n{}",
        done.choice.reason,
        grouped(sizes.stored),
        grouped(sizes.dense),
        grouped(sizes.bytes),
        grouped(sizes.dense_bytes),
        job.output.display(),
    ))
}

fn print_adapter(job: &Export, adapter: &Adapter, shared: &Shared) -> Result<(), Failure> {
    let loss = adapter.sites.iter().map(|site| site.loss).fold(0.0, f64::max);
    let parameters: u64 = adapter.sites.iter().map(|site| site.parameters).sum();
    if shared.json {
        return print_json(&json!({
            "output": job.output, "form": "lora", "sites": adapter.sites,
            "parameters": parameters, "resolution": adapter.resolution, "max_loss": loss,
            "warnings": adapter.warnings,
        }));
    }
    let (least, most) = adapter
        .sites
        .iter()
        .fold((usize::MAX, 0), |(least, most), site| (least.min(site.rank), most.max(site.rank)));
    print(&format!(
        "form lora: {} layers of ranks {least} to {most}, {} parameters; at most {loss:.2e} of a \
         difference was cut\n{}",
        adapter.sites.len(),
        grouped(parameters),
        job.output.display(),
    ))
}
