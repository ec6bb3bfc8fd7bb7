//! `linwright export`: saves a model in a form that other runtimes load.

use super::{grouped, print, print_json};
use crate::args::{Shared, one_of};
use crate::console::Console;
use crate::failure::Failure;
use crate::outputs;
use crate::source::{OpenModel, Place, find_model, open_model};
use clap::{Args, ValueEnum};
use linwright::jobs::{ByteSize, SavedForm};
use linwright::model::checkpoint::export::lora::{Adapter, LoraOptions, export_lora};
use linwright::model::checkpoint::export::{Card, ExportForm, ExportOptions, Exported, export};
use linwright::model::checkpoint::{LoadedModel, SHARD_BYTES};
use linwright::run::{Monitor, input};
use linwright::tensor::dtype::DType;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Largest file of results that is read, in bytes.
const RESULT_BYTES: u64 = 1 << 24;

/// Save a model in a form that other runtimes load, with a model card and a record of its
/// provenance.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A checkpoint directory, or `pocket` for the built-in model.
    model: String,
    /// Output directory.
    #[arg(short, long)]
    output: PathBuf,
    /// Form of the saved model.
    #[arg(long, value_parser = one_of(&SavedForm::ALL, SavedForm::name), default_value = "auto")]
    form: SavedForm,
    /// Storage type of the weights [default: that of the model; f32 for adapters].
    #[arg(long, value_enum)]
    dtype: Option<DTypeArg>,
    /// Largest weight file: `5GB`, `500MB`, `2GiB`, or bytes [default: 5GB; gguf is one file].
    #[arg(long, alias = "shard_size", value_parser = ByteSize::from_str)]
    shard_size: Option<ByteSize>,
    /// The model that an adapter belongs to (lora).
    #[arg(long, value_name = "MODEL", required_if_eq("form", "lora"))]
    base: Option<String>,
    /// Largest rank of the adapter of a layer (lora).
    #[arg(long, requires = "base")]
    rank: Option<usize>,
    /// Share of the squared singular values of each weight difference to keep, above 0, at most 1
    /// (lora).
    #[arg(long, requires = "base")]
    energy: Option<f64>,
    /// Name of the original model, `owner/name`, for the model card.
    #[arg(long, value_name = "NAME", alias = "base_model")]
    base_model: Option<String>,
    /// Results of `linwright eval --json`, for the model card.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Replace the directory if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DTypeArg {
    F32,
    F16,
    Bf16,
}

impl DTypeArg {
    fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
        }
    }
}

pub(crate) fn run(args: &ExportArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    check(args)?;
    let mut inputs = outputs::of_model(&args.model);
    inputs.extend(args.base.as_deref().into_iter().flat_map(outputs::of_model));
    inputs.extend(args.results.clone());
    outputs::directory(&args.output, args.force, &inputs)?;
    let results = args.results.as_deref().map(read_results).transpose()?;
    let model = open_model(&args.model, &mut console)?;
    let base = args.base.as_deref().map(|base| find_model(base, &mut console)).transpose()?;
    // An adapter belongs to its base, not to the model from which it was extracted.
    let origin = base.as_ref().unwrap_or(&model.place);
    let base_model = args.base_model.clone().or_else(|| origin.on_hub.clone());
    let card = Card { base_model, results };
    let reproduce = record(&model, base.as_ref());
    console.step("saving and loading back");
    match args.form {
        SavedForm::Lora => {
            let base = base.ok_or_else(|| Failure::usage("form lora needs --base"))?;
            let adapter = write_adapter(args, &model.loaded, &base, card, reproduce)?;
            for warning in &adapter.warnings {
                console.note(&format!("note: {warning}"));
            }
            console.finish();
            print_adapter(args, &adapter, shared)
        }
        SavedForm::Auto | SavedForm::Whole(_) => {
            let options = ExportOptions {
                form: args.form.whole(),
                dtype: args.dtype.map(DTypeArg::dtype),
                force: args.force,
                shard_bytes: args.shard_size.map_or(SHARD_BYTES, |size| size.0),
                max_bytes: None,
                card,
                reproduce,
            };
            let done = export(&model.loaded.decoder, &model.loaded.source, &options, &args.output)?;
            for warning in &done.warnings {
                console.note(&format!("note: {warning}"));
            }
            console.finish();
            print_result(args, &done, shared)
        }
    }
}

/// Refuses options that the form does not use.
fn check(args: &ExportArgs) -> Result<(), Failure> {
    let form = args.form.name();
    if args.form != SavedForm::Lora && args.base.is_some() {
        return Err(Failure::usage(format!("--base does not apply to form {form}"))
            .hint("give --form lora to write the difference from a base"));
    }
    let one_file = matches!(args.form, SavedForm::Lora | SavedForm::Whole(ExportForm::Gguf));
    if one_file && args.shard_size.is_some() {
        return Err(Failure::usage(format!("--shard-size does not apply to form {form}"))
            .hint("its weights are one file"));
    }
    if args.output.extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")) {
        let shown = args.output.display();
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
    args: &ExportArgs,
    loaded: &LoadedModel,
    base: &Place,
    card: Card,
    reproduce: Map<String, Value>,
) -> Result<Adapter, Failure> {
    let options = LoraOptions {
        rank: args.rank,
        energy: args.energy,
        dtype: args.dtype.map_or(DType::F32, DTypeArg::dtype),
        force: args.force,
        max_bytes: None,
        card,
        reproduce,
    };
    Ok(export_lora(&loaded.decoder, &loaded.source, &base.path, &options, &args.output)?)
}

fn print_result(args: &ExportArgs, done: &Exported, shared: &Shared) -> Result<(), Failure> {
    let form = done.choice.form.name();
    if shared.json {
        return print_json(&json!({
            "output": args.output, "form": form, "reason": done.choice.reason,
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
        args.output.display(),
    ))
}

fn print_adapter(args: &ExportArgs, adapter: &Adapter, shared: &Shared) -> Result<(), Failure> {
    let loss = adapter.sites.iter().map(|site| site.loss).fold(0.0, f64::max);
    let parameters: u64 = adapter.sites.iter().map(|site| site.parameters).sum();
    if shared.json {
        return print_json(&json!({
            "output": args.output, "form": "lora", "sites": adapter.sites,
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
        args.output.display(),
    ))
}
