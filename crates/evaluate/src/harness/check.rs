//! Validation of a task file, before its data is read.

use super::dataset::SharedFiles;
use super::description::{Description, Field, MetricEntry, OutputType, TaskFile};
use super::filter::Filter;
use super::functions::{Function, Kind};
use super::generation::{self, Answers};
use super::group::Found;
use super::metric::MetricRule;
use super::prompt::output_of;
use super::template::Templates;
use super::yaml::FUNCTION;
use super::{HarnessOptions, HarnessTask};
use crate::{EvaluationError, Request, Task};
use serde_json::{Map, Value};
use std::path::Path;

/// Fields of a task file other than its prompts.
pub(super) struct Rules {
    /// The split to score.
    pub(super) scored: String,
    pub(super) process: Option<&'static Function>,
    pub(super) results: Option<&'static Function>,
    pub(super) metrics: Vec<MetricRule>,
    pub(super) filters: Vec<Filter>,
    pub(super) answers: Answers,
}

impl Rules {
    pub(super) fn of(file: &TaskFile, seed: u64) -> Result<Self, EvaluationError> {
        let d = &file.description;
        let scored = d.test_split.clone().or_else(|| d.validation_split.clone());
        let function = |name: &str, value: &Option<String>| {
            value.as_deref().map(|value| file.function_of(name, value)).transpose()
        };
        let results = function("process_results", &d.process_results)?;
        if let Some(function) = results {
            scores(file, function)?;
        }
        let entries = d.metric_list.as_deref().map(|all| aggregated(file, all)).transpose()?;
        let metrics = MetricRule::all(entries.as_deref(), output_of(d), results.is_some());
        let answers = Answers::of(file, seed)?;
        // Log-likelihoods are the same each time.
        let repeats = if output_of(d) == OutputType::GenerateUntil { answers.repeats } else { 1 };
        let filters = Filter::all(d.filter_list.as_deref(), repeats);
        Ok(Self {
            scored: scored
                .ok_or_else(|| file.wrong("there is no test_split or validation_split"))?,
            process: function("process_docs", &d.process_docs)?,
            results,
            metrics: metrics.map_err(|reason| file.wrong(reason))?,
            filters: filters.map_err(|reason| file.wrong(reason))?,
            answers,
        })
    }
}

/// A valid task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The task.
    pub task: String,
    /// Its output type, as in the harness.
    pub output: &'static str,
    /// Number of documents in the scored split; `None` if its data is missing.
    pub documents: Option<usize>,
    /// The reason why the data is missing.
    pub missing: Option<String>,
    /// The first request: a context and its continuations, or a text.
    pub first: Option<(String, Vec<String>)>,
}

/// Validates tasks and groups, named as for an evaluation: files, functions, templates and, if its
/// data is present, the prompts of all documents.
///
/// # Errors
/// [`EvaluationError`] for the first invalid file or document.
pub fn validate(
    names: &[String],
    options: &HarnessOptions<'_>,
) -> Result<Vec<Validated>, EvaluationError> {
    let mut found = Found::default();
    for name in names {
        found.add(name, Path::new(""), 0)?;
    }
    let shared = SharedFiles::default();
    found.files.into_iter().map(|file| validated(file, options, &shared)).collect()
}

/// Validates the text of a task file without `include`, and returns its prompt for a document, if a
/// template gives one.
///
/// # Errors
/// [`EvaluationError`] for an invalid text or document.
pub fn prompt_of_text(
    text: &str,
    document: &Map<String, Value>,
) -> Result<Option<String>, EvaluationError> {
    let include = |_: &Path, name: &str| Err(format!("{name} is not included here"));
    let file = TaskFile::parse(text, "text".into(), Path::new(""), &include)?;
    Rules::of(&file, generation::SEED)?;
    templates(&file)?;
    let engine = Templates::new().map_err(|reason| file.wrong(reason))?;
    let Some(field) = &file.description.doc_to_text else { return Ok(None) };
    match file.field("doc_to_text", field)? {
        Field::Text(template) => {
            let text = engine.render(&template, document);
            text.map(Some).map_err(|reason| file.wrong(format!("doc_to_text: {reason}")))
        }
        _ => Ok(None),
    }
}

fn validated(
    file: TaskFile,
    options: &HarnessOptions<'_>,
    shared: &SharedFiles,
) -> Result<Validated, EvaluationError> {
    Rules::of(&file, generation::SEED)?;
    templates(&file)?;
    let (task, output) = (file.description.task.clone(), output_of(&file.description).name());
    let none = |missing| Validated {
        task: task.clone(),
        output,
        documents: None,
        missing: Some(missing),
        first: None,
    };
    let opened = match HarnessTask::new(file, options, shared) {
        Err(EvaluationError::Set { source, .. }) => return Ok(none(source.to_string())),
        Err(EvaluationError::NoRows { name, .. }) => {
            return Ok(none(format!("the data set {name} is not on this machine")));
        }
        other => other?,
    };
    let items = opened.items();
    let first = items.first().map(|item| {
        let text = item.requests.first().map_or("", Request::text).to_owned();
        let continuation = |request: &Request<'_>| match request {
            Request::LogLikelihood { continuation, .. } => Some(continuation.to_string()),
            _ => None,
        };
        (text, item.requests.iter().filter_map(continuation).collect())
    });
    Ok(Validated { task, output, documents: Some(items.len()), missing: None, first })
}

/// Checks that a function scores documents of the task's output type.
fn scores(file: &TaskFile, function: &Function) -> Result<(), EvaluationError> {
    let output = output_of(&file.description);
    let is_written = output == OutputType::GenerateUntil;
    let name = function.name;
    match &function.kind {
        Kind::Results(_) if !is_written => Ok(()),
        Kind::Answer(_) if is_written => Ok(()),
        Kind::Results(_) => Err(file.wrong(format!(
            "!function {name} scores log-likelihoods, and {} has none",
            output.name()
        ))),
        Kind::Answer(_) => Err(file.wrong(format!(
            "!function {name} scores generated answers, which only generate_until has; found {}",
            output.name()
        ))),
        Kind::Document(_)
        | Kind::Rows(..)
        | Kind::Lines(..)
        | Kind::Field(_)
        | Kind::Aggregation(_) => Err(file.wrong(format!("!function {name} scores no documents"))),
    }
}

/// Metrics with the names of aggregations that the file gives as functions.
fn aggregated(
    file: &TaskFile,
    entries: &[MetricEntry],
) -> Result<Vec<MetricEntry>, EvaluationError> {
    let one = |entry: &MetricEntry| {
        let mut entry = entry.clone();
        let Some(name) = entry.aggregation.as_mut().filter(|name| name.starts_with(FUNCTION))
        else {
            return Ok(entry);
        };
        let function = file.function_of("aggregation", name)?;
        let Kind::Aggregation(aggregation) = function.kind else {
            return Err(file.wrong(format!("!function {} is not an aggregation", function.name)));
        };
        aggregation.clone_into(name);
        Ok(entry)
    };
    entries.iter().map(one).collect()
}

/// Checks the syntax of the templates of a file.
fn templates(file: &TaskFile) -> Result<(), EvaluationError> {
    let engine = Templates::new().map_err(|reason| file.wrong(reason))?;
    let d: &Description = &file.description;
    let own = |text: &Option<String>| text.clone().map(Value::from);
    for (name, value) in [
        ("doc_to_text", d.doc_to_text.clone()),
        ("doc_to_target", d.doc_to_target.clone()),
        ("doc_to_choice", d.doc_to_choice.clone()),
        ("description", own(&d.description)),
        ("gen_prefix", own(&d.gen_prefix)),
    ] {
        if let Some(Value::String(template)) = value {
            engine.check(&template).map_err(|reason| file.wrong(format!("{name}: {reason}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, rows: Option<&str>) -> Result<Vec<Validated>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine.yaml"), text).unwrap();
        if let Some(rows) = rows {
            std::fs::write(dir.path().join("rows.jsonl"), rows).unwrap();
        }
        let name = dir.path().join("mine.yaml").display().to_string();
        validate(&[name], &HarnessOptions::default()).map_err(|error| error.to_string())
    }

    const TASK: &str = "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n\
                        output_type: multiple_choice\ntest_split: test\ndoc_to_text: \"{{q}}?\"\n\
                        doc_to_target: 0\ndoc_to_choice: [a, b]\n";

    #[test]
    fn a_file_with_its_rows_is_asked_about() {
        let all = check(TASK, Some("{\"q\": \"x\"}\n{\"q\": \"y\"}\n")).unwrap();
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((one.documents, one.output), (Some(2), "multiple_choice"));
        assert_eq!(one.first, Some(("x?".into(), vec![" a".into(), " b".into()])));
        let error = check(TASK, Some("{\"q\": \"x\"}\n{\"p\": 1}\n")).unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_file_without_its_rows_is_checked_by_itself() {
        let all = validate(&["arc_*".into()], &HarnessOptions::default()).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.task.as_str()).collect();
        assert_eq!(names, ["arc_easy", "arc_challenge"]);
        assert!(all.iter().all(|one| one.documents.is_none() && one.missing.is_some()), "{all:?}");
        let broken = TASK.replace("dataset_path: json", "dataset_path: a/b");
        let broken = broken.replace("{{q}}?", "{{q}");
        let error = check(&broken, None).unwrap_err();
        assert!(error.contains("doc_to_text: line 1 of the template"), "{error}");
    }
}
