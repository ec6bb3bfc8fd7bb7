//! The model card, and the record of how a model was produced.

use super::super::native;
use super::super::save::pretty;
use super::super::source::Source;
use super::{ExportForm, widths};
use crate::transformer::Transformer;
use linwright_files::StoredType;
use linwright_files::json::read_bounded;
use linwright_ops::{LinearSlot, OpSpec, Sites};
use linwright_tensor::dtype::DType;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Largest source card in bytes that is read for its licence.
const CARD_BYTES: u64 = 1 << 20;
/// Largest source record in bytes that is carried over.
const RECORD_BYTES: u64 = 1 << 20;
/// Keys of the `linwright` object that describe the file, not the model.
const OF_THE_FILE: [&str; 3] = ["schema", "sites", "base"];

/// Card content that is not derived from the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Card {
    /// Base model of this one, as its hub id. It is not in the configuration, where `_name_or_path`
    /// is the base of *that* model, or a path on another machine.
    pub base_model: Option<String>,
    /// Results in the shape of the evaluation harness: `results.<task>["<metric>,<filter>"]`, with
    /// protocols under `linwright.protocols`.
    pub results: Option<Value>,
}

/// Sizes of a model.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Sizes {
    /// Parameters if every linear layer were dense.
    pub dense: u64,
    /// Stored parameters.
    pub stored: u64,
    /// Stored parameters without embedding tables, since a token uses only one row.
    pub active: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Bytes of dense weights in the same storage type.
    pub dense_bytes: u64,
}

impl Sizes {
    pub(super) fn new(model: &Transformer, stored: u64, bytes: u64, dtype: DType) -> Self {
        let config = model.config();
        let dense = config.parameters();
        let layout = config.layout();
        let looked_up = [Some(&layout.embedding), layout.positions.as_ref(), layout.types.as_ref()];
        let tables = looked_up.into_iter().skip(usize::from(config.tied_embeddings)).flatten();
        let rows: u64 = tables.map(|t| t.shape.iter().map(|&n| n as u64).product::<u64>()).sum();
        let dense_bytes = dense * dtype.size() as u64;
        Self { dense, stored, active: stored.saturating_sub(rows), bytes, dense_bytes }
    }
}

/// Notes of the source on the model, in addition to its operators.
pub(super) fn metadata(source: &Source) -> Map<String, Value> {
    let mut object = match source.config.get(native::KEY) {
        Some(Value::Object(object)) => object.clone(),
        _ => Map::new(),
    };
    OF_THE_FILE.iter().for_each(|key| drop(object.shift_remove(*key)));
    object
}

/// The record of how an export was produced (`reproduce.json`).
pub(super) fn reproduce(
    given: &Map<String, Value>,
    source: &Source,
    form: &str,
    dtype: DType,
) -> Vec<u8> {
    let metadata = metadata(source);
    let mut record = Map::new();
    record.insert("schema".into(), json!(1));
    record.insert("linwright".into(), json!(env!("CARGO_PKG_VERSION")));
    record.insert("form".into(), json!(form));
    record.insert("dtype".into(), json!(StoredType::from(dtype).name()));
    for key in ["recipe", "seed"] {
        record.insert(key.into(), metadata.get(key).cloned().unwrap_or(Value::Null));
    }
    record.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
    record.insert("source".into(), record_of(source));
    pretty(&Value::Object(record)).into_bytes()
}

/// A field of the front matter of the source's card.
fn said_by_source(source: &Source, key: &str) -> Option<String> {
    let bytes = read_bounded(&source.dir.join("README.md"), CARD_BYTES).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    (lines.next()?.trim_end() == "---").then_some(())?;
    let matter = lines.take_while(|line| line.trim_end() != "---");
    let value = matter.filter_map(|line| line.strip_prefix(key)?.strip_prefix(':')).next()?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

/// The licence in the source's card.
fn licence(source: &Source) -> Option<String> {
    said_by_source(source, "license").filter(|licence| plain_word(licence).is_some())
}

/// The base model: the given one, or else that of the source if Linwright wrote the source.
pub(super) fn base_model(source: &Source, card: &Card) -> Option<String> {
    card.base_model.clone().or_else(|| {
        record_of(source).get("linwright")?;
        let base = said_by_source(source, "base_model")?;
        base.split('/').all(|part| plain_word(part).is_some()).then_some(base)
    })
}

/// The record of how the source was produced; null if it has none.
fn record_of(source: &Source) -> Value {
    let bytes = read_bounded(&source.dir.join("reproduce.json"), RECORD_BYTES).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null)
}

/// Whether a word needs no quotes in YAML.
fn plain_word(word: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    (!word.is_empty() && word.len() <= 96 && word.chars().all(plain)).then_some(word)
}

/// The YAML front matter that the hub reads.
pub(super) fn front_matter(source: &Source, card: &Card, library: &str, tags: &[&str]) -> String {
    let mut text = String::from("---\n");
    if let Some(base) = base_model(source, card) {
        let _ = writeln!(text, "base_model: {}", json!(base));
    }
    let _ = writeln!(text, "library_name: {library}");
    if let Some(licence) = licence(source) {
        let _ = writeln!(text, "license: {licence}");
    }
    text.push_str("tags:\n");
    text.extend(tags.iter().map(|tag| format!("- {tag}\n")));
    text.push_str("---\n\n");
    text
}

/// The card of a whole model.
pub(super) fn of_model(
    model: &Transformer,
    source: &Source,
    form: ExportForm,
    sizes: &Sizes,
    warnings: &[String],
    card: &Card,
) -> String {
    let remote = matches!(form, ExportForm::Factored | ExportForm::Blocks);
    let library = match form {
        ExportForm::Native => "linwright",
        ExportForm::Gguf => "gguf",
        ExportForm::Dense | ExportForm::Factored | ExportForm::Width | ExportForm::Blocks => {
            "transformers"
        }
    };
    let mut tags = vec!["linwright"];
    tags.extend(remote.then_some("custom_code"));
    let mut text = front_matter(source, card, library, &tags);
    let name = base_model(source, card).unwrap_or_else(|| "A model".into());
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "# {name}, edited by Linwright\n");
    let _ = writeln!(
        text,
        "Written by Linwright {version} in the form `{}`, loaded back and compared; `reproduce.json` \
         says how, `SHA256SUMS` what.\n",
        form.name()
    );
    text.push_str(&replaced(model));
    text.push_str(&sizes_table(sizes));
    for warning in warnings {
        let _ = writeln!(text, "Note: {warning}.\n");
    }
    if let Some(results) = &card.results {
        text.push_str(&results_table(results));
    }
    text.push_str(&runtimes(form, model));
    text
}

/// Section on the operators that replace dense layers, by kind.
fn replaced(model: &Transformer) -> String {
    let slots = model.slots();
    let mut kinds: BTreeMap<&'static str, (usize, usize, usize)> = BTreeMap::new();
    let structured = |slot: &&&LinearSlot| !matches!(slot.op().map().spec(), OpSpec::Dense(_));
    for slot in slots.iter().filter(structured) {
        let entry = kinds.entry(slot.op().map().spec().kind()).or_default();
        entry.0 += 1;
        entry.1 += slot.shape().dense_parameters();
        entry.2 += slot.parameters();
    }
    let mut text = String::from("## What was replaced\n\n");
    if kinds.is_empty() {
        let common = match widths::common(model.config()) {
            Some((heads, inner)) => format!("{heads} key heads and MLPs of {inner} features"),
            None => widths::difference(model.config()),
        };
        let _ = writeln!(text, "All {} linear layers are dense: {common}.\n", slots.len());
        return text;
    }
    text.push_str("| operator | layers | parameters, dense | parameters |\n");
    text.push_str("| --- | ---: | ---: | ---: |\n");
    for (kind, (count, dense, own)) in kinds {
        let _ = writeln!(text, "| {kind} | {count} of {} | {dense} | {own} |", slots.len());
    }
    text.push('\n');
    text
}

fn sizes_table(sizes: &Sizes) -> String {
    let Sizes { dense, stored, active, bytes, dense_bytes } = sizes;
    format!(
        "## Size\n\n| | dense | here |\n| --- | ---: | ---: |\n\
         | parameters | {dense} | {stored} |\n\
         | of them used for every token | | {active} |\n\
         | bytes of weights | {dense_bytes} | {bytes} |\n\n"
    )
}

/// Table of results in the evaluation harness's format, copied unchanged.
fn results_table(results: &Value) -> String {
    let mut text = String::from("## Results\n\n| task | protocol | metric | value |\n");
    text.push_str("| --- | --- | --- | ---: |\n");
    let tasks = results.get("results").and_then(Value::as_object);
    for (task, metrics) in tasks.into_iter().flatten() {
        let protocol = &results["linwright"]["protocols"][task];
        let protocol = protocol.as_str().unwrap_or("not named");
        for (metric, value) in metrics.as_object().into_iter().flatten() {
            if let Some(value) = value.as_f64() {
                let metric = metric.split(',').next().unwrap_or(metric);
                let cells = [task, protocol, metric].map(|cell| cell.replace('|', "\\|"));
                let _ = writeln!(text, "| {} | {value} |", cells.join(" | "));
            }
        }
    }
    text.push('\n');
    text
}

/// Compatibility table: runtime, whether it loads the form, and under which condition.
fn compatibility(form: ExportForm, model: &Transformer) -> Vec<[&'static str; 3]> {
    let tried = "tested by this project";
    let public = "from its public documentation, not tested";
    match form {
        ExportForm::Dense | ExportForm::Width => vec![
            ["transformers", "yes", tried],
            ["vLLM", "yes, if it knows the model type", public],
            ["llama.cpp", "yes, if it knows the model type", public],
        ],
        ExportForm::Blocks if widths::has_own_heads(model.config()) => vec![
            ["transformers", "with `trust_remote_code=True`", tried],
            ["vLLM", "no: it has as many query heads in every layer", public],
            ["llama.cpp", "no: it has as many query heads in every layer", public],
        ],
        ExportForm::Blocks => vec![
            ["transformers", "with `trust_remote_code=True`", tried],
            ["vLLM", "yes, with `--trust-remote-code` for the configuration", public],
            match widths::has_multipliers(model.config()) {
                true => ["llama.cpp", "yes (`deci`)", public],
                false => ["llama.cpp", "no: it needs MLPs of multiples of 256", public],
            },
        ],
        ExportForm::Factored => vec![
            ["transformers", "with `trust_remote_code=True`", tried],
            ["vLLM", "through its transformers backend at best", "not tried"],
            ["llama.cpp", "no", "it does not have these operators"],
        ],
        ExportForm::Native => vec![
            [
                "transformers",
                "no: it rejects the model type",
                "tested by this project; form `dense` loads",
            ],
            ["vLLM", "no", "the same"],
            ["llama.cpp", "no", "the same"],
        ],
        ExportForm::Gguf => vec![
            ["transformers", "with `gguf_file`, if it supports the architecture", tried],
            ["vLLM", "in part", public],
            ["llama.cpp", "yes: `llama-cli -m` and this file", public],
        ],
    }
}

/// Which other runtimes load a form, in one line; `None` for ordinary weights, which every runtime
/// that knows the model type loads.
#[must_use]
pub fn loads_in(form: ExportForm, model: &Transformer) -> Option<String> {
    let is_special = matches!(form, ExportForm::Blocks | ExportForm::Factored | ExportForm::Native);
    let line = |[runtime, loads, _]: [&str; 3]| format!("{runtime}: {loads}");
    let lines = || compatibility(form, model).into_iter().map(line).collect::<Vec<_>>();
    is_special.then(|| format!("form {}; {}", form.name(), lines().join("; ")))
}

fn runtimes(form: ExportForm, model: &Transformer) -> String {
    let mut text = String::from("## Compatibility\n\n| runtime | loads | source |\n");
    text.push_str("| --- | --- | --- |\n| Linwright | yes | read back when it was written |\n");
    for [runtime, loads, note] in compatibility(form, model) {
        let _ = writeln!(text, "| {runtime} | {loads} | {note} |");
    }
    text
}
