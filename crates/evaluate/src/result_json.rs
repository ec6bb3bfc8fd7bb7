//! JSON of an evaluation, in the format of lm-evaluation-harness.
//!
//! The top level is the harness's object, so that its tools can read it: metrics under
//! `results.<task>["<metric>,none"]`, groups of a task as sub-tasks. Everything else is under one
//! additional key, `linwright`.

use crate::{Comparison, Metric, TaskGroup, TaskResult};
use linwright_data::Overlap;
use linwright_run::{Provenance, sha256_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version of the schema of the object `linwright`.
const SCHEMA: u32 = 1;

/// Parameters before and after a replacement. Targeted counts exclude biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterCounts {
    /// In the replaced sites, after.
    pub targeted: u64,
    /// In the replaced sites, before.
    pub targeted_dense: u64,
    /// In the whole model, after.
    pub model: u64,
    /// In the whole model, before.
    pub model_dense: u64,
}

impl ParameterCounts {
    /// Share of the targeted parameters that are kept; 1 if no site is replaced.
    #[must_use]
    pub fn keep(&self) -> f64 {
        if self.targeted_dense == 0 {
            return 1.0;
        }
        self.targeted as f64 / self.targeted_dense as f64
    }
}

/// Format of the prompts, beyond the task files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompting {
    /// System instruction.
    pub system_instruction: Option<String>,
    /// Chat template.
    pub chat_template: Option<String>,
    /// Whether examples were separate messages.
    pub multiturn: bool,
    /// The date passed to the template, if it uses one.
    pub date: Option<String>,
    /// Further variables passed to the template, as JSON.
    pub template_args: Option<String>,
}

/// The data of an evaluation's JSON.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationRecord<'a> {
    /// The model as named by the user.
    pub model: &'a str,
    /// Results of the model.
    pub results: &'a [TaskResult],
    /// Results of the dense model in the same run; `None` if the model itself is dense.
    pub baseline: Option<&'a [TaskResult]>,
    /// Paired comparisons of both.
    pub comparisons: &'a [Comparison],
    /// Overlap of the tasks with calibration text, if requested.
    pub overlap: &'a [Overlap],
    /// Groups of the tasks.
    pub groups: &'a [TaskGroup],
    /// Format of the prompts.
    pub prompting: &'a Prompting,
    /// Longest input in tokens.
    pub max_length: usize,
    /// Its parameters.
    pub parameters: ParameterCounts,
    /// Provenance.
    pub provenance: &'a Provenance,
    /// Duration of the evaluation in seconds.
    pub seconds: f64,
    /// Peak resident set size of the process in bytes, if the system reports it.
    pub peak_bytes: Option<u64>,
}

/// Format of the prompts, with the harness's names where they exist.
fn prompting(of: &Prompting) -> Map<String, Value> {
    let Prompting { system_instruction, chat_template, multiturn, date, template_args } = of;
    let hash = |text: &Option<String>| text.as_ref().map(|text| sha256_hex(text.as_bytes()));
    let own = [("chat_template_date", date), ("chat_template_args", template_args)];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, json!(value.as_ref()?))));
    let all = own.chain([
        ("system_instruction", json!(system_instruction)),
        ("system_instruction_sha", json!(hash(system_instruction))),
        ("fewshot_as_multiturn", json!(multiturn)),
        ("chat_template", json!(chat_template)),
        ("chat_template_sha", json!(hash(chat_template))),
    ]);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The record as one JSON object.
#[must_use]
pub fn result_json(record: &EvaluationRecord<'_>) -> Value {
    let provenance = record.provenance;
    let tokens: usize = of_text(record.results).map(|r| r.counts.tokens_counted).sum();
    let mut object = Map::new();
    let groups = groups(record);
    let mut metrics = results(record.results);
    metrics.extend(groups.clone());
    object.insert("results".to_owned(), metrics.into());
    // As in the harness, the key is absent without groups.
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
    object.extend(prompting(record.prompting));
    for (name, value) in [
        ("max_length", json!(record.max_length)),
        ("model_source", json!("linwright")),
        ("model_name", json!(record.model)),
        ("model_name_sanitized", json!(file_name(record.model))),
        // A string, as in the harness.
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

/// The name of a model as part of a path, as in the harness: runs of characters that some system
/// rejects become two underscores.
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

/// Metrics of groups.
fn groups(record: &EvaluationRecord<'_>) -> Map<String, Value> {
    let of_group = |group: &TaskGroup| {
        let mut entry = figures(&group.alias, &group.metrics(record.results));
        entry.insert("name".to_owned(), json!(group.name));
        entry.insert("sample_len".to_owned(), json!(group.items(record.results)));
        (group.name.clone(), entry.into())
    };
    record.groups.iter().map(of_group).collect()
}

fn results(results: &[TaskResult]) -> Map<String, Value> {
    let mut object = Map::new();
    for result in results {
        let alias = result.description["task_alias"].as_str().unwrap_or(&result.task);
        let mut entry = figures(alias, &result.metrics);
        entry.insert("name".to_owned(), json!(result.task));
        entry.insert("sample_len".to_owned(), json!(result.counts.items));
        object.insert(result.task.clone(), entry.into());
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
        // The harness's value for a missing standard error.
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

/// Hash of the task's file or data.
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

/// By task; null if not requested.
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

/// Warnings.
fn health(results: &[TaskResult]) -> Vec<String> {
    let mut notes = Vec::new();
    for result in results {
        let (task, counts) = (&result.task, result.counts);
        for metric in result.metrics.iter().filter(|metric| !metric.value.is_finite()) {
            notes.push(format!("{task}: {} overflows and is written as null", metric.name));
        }
        notes.extend(result.notes.iter().map(|note| format!("{task}: {note}")));
        if counts.truncated > 0 {
            notes.push(format!(
                "{task}: {} contexts were truncated to fit the model",
                counts.truncated
            ));
        }
        if counts.ties > 0 {
            notes.push(format!(
                "{task}: {} questions had ties, which went to the first choice",
                counts.ties
            ));
        }
    }
    notes
}
