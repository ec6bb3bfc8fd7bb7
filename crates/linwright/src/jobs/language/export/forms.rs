//! `linwright export`: saves a model in a form that other runtimes load.

use super::Export;
use super::result::{AdapterResult, ExportResult};
use crate::jobs::kit::record::ModelInput;
use crate::jobs::kit::source::{Place, find_model, open_model};
use crate::jobs::kit::{Failure, Outcome, Session, inputs, outputs};
use crate::jobs::language::compress::StoredDType;
use crate::jobs::language::form::SavedForm;
use crate::jobs::language::saving::record;
use linwright_files::TOKENIZER_FILES;
use linwright_model::checkpoint::export::lora::{Adapter, LoraOptions, export_lora};
use linwright_model::checkpoint::export::{Card, ExportForm, ExportOptions, export, loads_in};
use linwright_model::checkpoint::{Adapted, LoadedModel, SHARD_BYTES, merge_adapter};
use linwright_run::{Monitor, input};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// Largest file of results that is read, in bytes.
const RESULT_BYTES: u64 = 1 << 24;

pub(super) fn run(job: &Export, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    check(job)?;
    let inputs = outputs::inputs_of(job, session);
    outputs::directory(&job.output, job.force, &inputs, session)?;
    let results = job.results.as_deref().map(read_results).transpose()?;
    let mut model = open_model(&job.model, session)?;
    if let Some(adapter) = &job.adapter {
        merge(adapter, &mut model.loaded, session)?;
    }
    let base = job.base.as_deref().map(|base| find_model(base, session)).transpose()?;
    // An adapter belongs to its base, not to the model from which it was extracted.
    let origin = base.as_ref().unwrap_or(&model.place);
    let base_model = job.base_model.clone().or_else(|| origin.on_hub.clone());
    let card = Card { base_model, results };
    let mut reproduce = record(session, &model, base.as_ref());
    if let Some(adapter) = &job.adapter {
        let sha256 = inputs::hash(adapter)?.sha256;
        let adapter = session.portable(adapter);
        reproduce.inputs.push(ModelInput::Adapter { adapter, sha256 });
    }
    let reproduce = reproduce.into_map()?;
    let output = session.portable(&job.output);
    let beside = session.files_beside(&Value::Null)?;
    session.step("saving and loading back");
    match job.form {
        SavedForm::Lora => {
            let base = base.ok_or_else(|| Failure::usage("form lora needs --base"))?;
            let adapter =
                write_adapter(job, &model.loaded, &base, Record { card, reproduce, beside })?;
            for warning in &adapter.warnings {
                session.note(&format!("note: {warning}"));
            }
            session.finish();
            Ok(Outcome::of(AdapterResult::of(output, adapter)))
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
                beside,
            };
            let done = export(&model.loaded.decoder, &model.loaded.source, &options, &job.output)?;
            for warning in &done.warnings {
                session.note(&format!("note: {warning}"));
            }
            if let Some(line) = loads_in(done.choice.form, &model.loaded.decoder) {
                session.note(&format!("note: {line}"));
            }
            session.finish();
            Ok(Outcome::of(ExportResult::of(output, &done)))
        }
    }
}

/// Merges an adapter into the model, which keeps its own tokenizer.
fn merge(
    adapter: &Path,
    model: &mut LoadedModel,
    session: &mut Session<'_>,
) -> Result<(), Failure> {
    session.step("merging the adapter");
    let Adapted { added, replaced } = merge_adapter(&mut model.decoder, adapter)?;
    let shown = adapter.display();
    session.note(&format!(
        "note: {shown}: merged into {added} layers; {replaced} tensors were replaced"
    ));
    for (name, bytes) in &model.source.companions {
        let path = adapter.join(name);
        if TOKENIZER_FILES.contains(&name.as_str())
            && path.is_file()
            && fs::read(&path).is_ok_and(|own| own != *bytes)
        {
            session.note(&format!(
                "note: {}: differs from that of the model, which is kept",
                path.display()
            ));
        }
    }
    Ok(())
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

/// What stands in a directory about how it was made.
struct Record {
    card: Card,
    reproduce: Map<String, Value>,
    beside: Vec<(String, Vec<u8>)>,
}

fn write_adapter(
    job: &Export,
    loaded: &LoadedModel,
    base: &Place,
    record: Record,
) -> Result<Adapter, Failure> {
    let Record { card, reproduce, beside } = record;
    let options = LoraOptions {
        rank: job.rank,
        energy: job.energy,
        dtype: job.dtype.map_or(DType::F32, StoredDType::dtype),
        force: job.force,
        max_bytes: None,
        card,
        reproduce,
        beside,
    };
    Ok(export_lora(&loaded.decoder, &loaded.source, &base.path, &options, &job.output)?)
}
