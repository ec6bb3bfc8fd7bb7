//! An evaluation in the JSON shape of the evaluation harness.
//!
//! The top level is the harness's object, so that its tools can read it: figures under
//! `results.<task>["<metric>,none"]`, groups of a task as sub-tasks. What it has no place for is
//! under one further key, `linwright`.

use crate::{Comparison, Metric, TaskGroup, TaskResult};
use linwright_data::Overlap;
use linwright_run::{Provenance, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version of the layout of what is under the key `linwright`.
const SCHEMA: u32 = 1;

/// Parameters before and after a replacement, biases not counted in the targeted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterCounts {
    /// In the replaced sites, now.
    pub targeted: u64,
    /// In the same sites of the dense model.
    pub targeted_dense: u64,
    /// In the whole model, now.
    pub model: u64,
    /// In the whole dense model.
    pub model_dense: u64,
}

impl ParameterCounts {
    /// Share of the targeted parameters that is kept; 1 if nothing is targeted.
    #[must_use]
    pub fn keep(&self) -> f64 {
        if self.targeted_dense == 0 {
            return 1.0;
        }
        self.targeted as f64 / self.targeted_dense as f64
    }
}

/// How prompts were written, beside what the tasks say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompting {
    /// What the system says.
    pub system_instruction: Option<String>,
    /// The chat template that wrote them.
    pub chat_template: Option<String>,
    /// Whether examples were messages of their own.
    pub multiturn: bool,
}

/// What an evaluation knows.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationRecord<'a> {
    /// The model as the user named it.
    pub model: &'a str,
    /// Figures of the model.
    pub results: &'a [TaskResult],
    /// Figures of the dense model in the same run; none if the model itself is the dense one.
    pub baseline: Option<&'a [TaskResult]>,
    /// How the two compare, item by item.
    pub comparisons: &'a [Comparison],
    /// What the tasks have in common with calibration text, where that was asked for.
    pub overlap: &'a [Overlap],
    /// Groups of the tasks.
    pub groups: &'a [TaskGroup],
    /// How prompts were written.
    pub prompting: &'a Prompting,
    /// Tokens that an input may have at most.
    pub max_length: usize,
    /// Its parameters.
    pub parameters: ParameterCounts,
    /// Where it comes from.
    pub provenance: &'a Provenance,
    /// Duration of the evaluation.
    pub seconds: f64,
    /// Largest resident set of the process, where the system tells.
    pub peak_bytes: Option<u64>,
}

/// The record as one JSON object.
#[must_use]
pub fn result_json(record: &EvaluationRecord<'_>) -> Value {
    let provenance = record.provenance;
    let tokens: usize = of_text(record.results).map(|r| r.counts.tokens_counted).sum();
    let mut object = Map::new();
    let groups = groups(record);
    let mut all = results(record.results);
    all.extend(groups.clone());
    object.insert("results".to_owned(), all.into());
    // As in the harness, which has no such key where there is no group.
    if !groups.is_empty() {
        object.insert("groups".to_owned(), groups.into());
    }
    let mut subtasks = subtasks(record.results);
    subtasks.extend(record.groups.iter().map(|g| (g.name.clone(), json!(g.children))));
    object.insert("group_subtasks".to_owned(), subtasks.into());
    let per_task = |field: fn(&TaskResult) -> Value| -> Value {
        record.results.iter().map(|r| (r.task.clone(), field(r))).collect::<Map<_, _>>().into()
    };
    object.insert("configs".to_owned(), per_task(configuration));
    object.insert("versions".to_owned(), per_task(|r| json!(r.version)));
    object.insert("n-shot".to_owned(), per_task(|r| json!(r.shots)));
    object.insert("higher_is_better".to_owned(), per_task(directions));
    object.insert(
        "n-samples".to_owned(),
        per_task(|r| json!({"original": r.original, "effective": r.counts.items})),
    );
    object.insert(
        "config".to_owned(),
        json!({
            "model": record.model, "model_args": "", "device": provenance.device,
            "model_dtype": provenance.dtype, "random_seed": provenance.seeds.first().copied().unwrap_or(0),
        }),
    );
    object.insert("git_hash".to_owned(), json!(provenance.commit));
    object.insert("date".to_owned(), json!(provenance.date_unix_seconds));
    let Prompting { system_instruction, chat_template, multiturn } = record.prompting;
    let hash = |text: &Option<String>| text.as_ref().map(|text| sha256_hex(text.as_bytes()));
    for (name, value) in [
        ("system_instruction", json!(system_instruction)),
        ("system_instruction_sha", json!(hash(system_instruction))),
        ("fewshot_as_multiturn", json!(multiturn)),
        ("chat_template", json!(chat_template)),
        ("chat_template_sha", json!(hash(chat_template))),
        ("max_length", json!(record.max_length)),
        ("model_source", json!("linwright")),
        ("model_name", json!(record.model)),
        ("model_name_sanitized", json!(file_name(record.model))),
        // Text, as the harness writes it.
        ("total_evaluation_time_seconds", json!(record.seconds.to_string())),
    ] {
        object.insert(name.to_owned(), value);
    }
    object.insert("task_hashes".to_owned(), per_task(|r| json!(task_hash(r))));
    object.insert(
        "linwright".to_owned(),
        json!({
            "schema": SCHEMA,
            "version": provenance.version,
            "tokens_counted": tokens,
            "protocols": per_task(|r| json!(r.protocol)),
            "bos_used": per_task(|r| json!(r.bos_used)),
            "counts": per_task(|r| json!(r.counts)),
            "params": {
                "dense": record.parameters.model_dense, "stored": record.parameters.model,
                "targeted": record.parameters.targeted,
                "targeted_dense": record.parameters.targeted_dense,
            },
            "baseline": record.baseline.map(results),
            "comparisons": record.comparisons,
            "timing": {"evaluate_seconds": record.seconds},
            "peak_resident_bytes": record.peak_bytes,
            "threads": provenance.threads,
            "model_sha256": provenance.model_sha256,
            "recipe_sha256": provenance.recipe_sha256,
            "data": provenance.data,
            "overlap": overlaps(record.overlap),
            "health": health(record.results),
        }),
    );
    Value::Object(object)
}

/// The name of a model as the harness makes it part of a path: runs of letters that some system
/// refuses become two lines.
fn file_name(model: &str) -> String {
    let is_refused = |letter: char| "\"<>:/|\\?*[]".contains(letter);
    let mut name = String::new();
    for part in model.split_inclusive(is_refused) {
        let kept = part.trim_end_matches(is_refused);
        name += kept;
        if kept.len() < part.len() && !(kept.is_empty() && name.ends_with("__")) {
            name += "__";
        }
    }
    name
}

fn of_text(results: &[TaskResult]) -> impl Iterator<Item = &TaskResult> {
    results.iter().filter(|result| result.metric("token_perplexity").is_some())
}

/// Figures of groups.
fn groups(record: &EvaluationRecord<'_>) -> Map<String, Value> {
    let of_group = |group: &TaskGroup| {
        let mut own = figures(&group.alias, &group.metrics(record.results));
        own.insert("name".to_owned(), json!(group.name));
        own.insert("sample_len".to_owned(), json!(group.items(record.results)));
        (group.name.clone(), own.into())
    };
    record.groups.iter().map(of_group).collect()
}

fn results(results: &[TaskResult]) -> Map<String, Value> {
    let mut object = Map::new();
    for result in results {
        let alias = result.description["task_alias"].as_str().unwrap_or(&result.task);
        let mut own = figures(alias, &result.metrics);
        own.insert("name".to_owned(), json!(result.task));
        own.insert("sample_len".to_owned(), json!(result.counts.items));
        object.insert(result.task.clone(), own.into());
        for group in &result.groups {
            let alias = format!(" - {}", group.group);
            object.insert(subtask(result, &group.group), figures(&alias, &group.metrics).into());
        }
    }
    object
}

fn figures(alias: &str, metrics: &[Metric]) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("alias".to_owned(), json!(alias));
    for metric in metrics {
        let Metric { name, filter, .. } = metric;
        object.insert(format!("{name},{filter}"), json!(metric.value));
        // The word of the harness for a figure that has no error.
        let stderr = metric.stderr.map_or_else(|| json!("N/A"), |stderr| json!(stderr));
        object.insert(format!("{name}_stderr,{filter}"), stderr);
    }
    object
}

fn subtasks(results: &[TaskResult]) -> Map<String, Value> {
    let with_groups = results.iter().filter(|result| !result.groups.is_empty());
    with_groups
        .map(|result| {
            let names = result.groups.iter().map(|group| json!(subtask(result, &group.group)));
            (result.task.clone(), names.collect())
        })
        .collect()
}

fn subtask(result: &TaskResult, group: &str) -> String {
    format!("{}_{group}", result.task)
}

/// What names the way of asking and the data.
fn task_hash(result: &TaskResult) -> &str {
    if result.task_hash.is_empty() { &result.data_sha256 } else { &result.task_hash }
}

fn configuration(result: &TaskResult) -> Value {
    if let Value::Object(fields) = &result.description {
        let mut fields = fields.clone();
        fields.insert("num_fewshot".to_owned(), json!(result.shots));
        return fields.into();
    }
    let kind = if result.metric("token_perplexity").is_some() {
        "loglikelihood_rolling"
    } else {
        "loglikelihood"
    };
    json!({
        "task": result.task, "output_type": kind, "num_fewshot": 0,
        "metadata": {"version": result.version, "protocol": result.protocol},
    })
}

fn directions(result: &TaskResult) -> Value {
    let each = result.metrics.iter().map(|m| (m.name.clone(), json!(m.higher_is_better)));
    each.collect::<Map<_, _>>().into()
}

/// By task; null where it was not asked for.
fn overlaps(overlaps: &[Overlap]) -> Value {
    if overlaps.is_empty() {
        return Value::Null;
    }
    overlaps
        .iter()
        .map(|overlap| (overlap.task.clone(), json!(overlap)))
        .collect::<Map<_, _>>()
        .into()
}

/// What a reader must not overlook.
fn health(results: &[TaskResult]) -> Vec<String> {
    let mut notes = Vec::new();
    for result in results {
        let (task, counts) = (&result.task, result.counts);
        for metric in result.metrics.iter().filter(|metric| !metric.value.is_finite()) {
            notes.push(format!("{task}: {} is beyond all numbers, written as null", metric.name));
        }
        notes.extend(result.notes.iter().map(|note| format!("{task}: {note}")));
        if counts.truncated > 0 {
            notes.push(format!("{task}: {} contexts were cut to fit the model", counts.truncated));
        }
        if counts.ties > 0 {
            notes.push(format!("{task}: {} questions were ties, first choice taken", counts.ties));
        }
    }
    notes
}
