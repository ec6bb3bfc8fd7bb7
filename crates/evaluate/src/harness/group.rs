//! Groups of tasks with aggregate metrics.
//!
//! The file of a group lists tasks, or further groups, and the metrics to average over them, as in
//! lm-evaluation-harness. Tasks are built-in tasks, or task files in the folder of the group.

use super::dataset::SharedFiles;
use super::description::{TaskFile, fields_of};
use super::standard::{self, STANDARD_TASKS, is_known, open};
use super::{HarnessOptions, HarnessTask};
use crate::{EvaluationError, Metric, TaskResult};
use linwright_data::sets::name_matches;
use linwright_run::{shown, shown_reason};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Greatest depth of nested groups.
const MAX_DEPTH: usize = 8;
/// Largest number of names of tasks and groups within one group, nested ones included.
const MAX_ENTRIES: usize = 20_000;
/// Largest number of task files of a folder that are searched for a name.
const MAX_FILES: usize = 4096;

/// A metric to average over tasks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupMetric {
    metric: String,
    aggregation: Option<String>,
    #[serde(default = "yes")]
    weight_by_size: bool,
    filter_list: Option<Value>,
}

fn yes() -> bool {
    true
}

/// Fields of the file of a group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    group: String,
    group_alias: Option<String>,
    #[serde(default)]
    task: Value,
    #[serde(default)]
    aggregate_metric_list: Vec<GroupMetric>,
    metadata: Option<Value>,
    tag: Option<Value>,
}

/// A group of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskGroup {
    /// Its name: the key under `groups` in results.
    pub name: String,
    /// Its name in tables.
    pub alias: String,
    /// Names of the tasks and groups listed in its file.
    pub children: Vec<String>,
    /// Version of the group; zero if its file has none.
    pub version: f64,
    /// Names of all its tasks, those of nested groups included.
    tasks: Vec<String>,
    metrics: Vec<GroupMetric>,
}

/// Selected tasks, each once, and selected groups.
#[derive(Debug, Default)]
pub struct Selection {
    /// The tasks.
    pub tasks: Vec<HarnessTask>,
    /// The groups, nested ones before those that contain them.
    pub groups: Vec<TaskGroup>,
}

impl Selection {
    /// Opens tasks and groups by path, by the name of a built-in task, by tag, or by a pattern in
    /// the syntax of Python's `fnmatch`.
    ///
    /// # Errors
    /// [`EvaluationError`], naming the file or document.
    pub fn open(names: &[String], options: &HarnessOptions<'_>) -> Result<Self, EvaluationError> {
        let mut opened = Found::default();
        for name in names {
            opened.add(name, Path::new(""), 0)?;
        }
        let mut selection = Self { groups: opened.groups, ..Self::default() };
        let shared = SharedFiles::default();
        for file in opened.files {
            selection.tasks.push(HarnessTask::new(file, options, &shared)?);
        }
        Ok(selection)
    }
}

/// Task files and groups found so far.
pub(super) struct Found {
    pub(super) files: Vec<TaskFile>,
    groups: Vec<TaskGroup>,
    /// Remaining number of group entries.
    left: usize,
}

impl Default for Found {
    fn default() -> Self {
        Self { files: Vec::new(), groups: Vec::new(), left: MAX_ENTRIES }
    }
}

impl Found {
    /// Resolves a name and returns the names of its tasks. `folder` is that of the file with the
    /// name, `depth` the number of enclosing groups.
    pub(super) fn add(
        &mut self,
        name: &str,
        folder: &Path,
        depth: usize,
    ) -> Result<Vec<String>, EvaluationError> {
        if let Some(path) = path_of(name, folder)? {
            let (origin, fields) = (path.display().to_string(), fields_of(&path)?);
            // A file named without a folder is in the working directory.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).to_owned();
            return self.add_fields(fields, &origin, &folder, depth);
        }
        let many: Vec<&str> = STANDARD_TASKS
            .iter()
            .filter(|task| {
                task.name != name && (name_matches(name, task.name) || has_tag(task.name, name))
            })
            .map(|task| task.name)
            .collect();
        let names = if many.is_empty() { vec![name] } else { many };
        let mut tasks = Vec::new();
        for name in names {
            let (fields, origin) = (standard::fields(name)?, standard::origin(name));
            tasks.extend(self.add_fields(fields, &origin, Path::new(""), depth)?);
        }
        Ok(tasks)
    }

    /// Adds the task or group with these fields.
    fn add_fields(
        &mut self,
        fields: Map<String, Value>,
        origin: &str,
        folder: &Path,
        depth: usize,
    ) -> Result<Vec<String>, EvaluationError> {
        if !fields.contains_key("group") {
            let file = TaskFile::of_fields(fields, origin.to_owned(), folder)?;
            return Ok(vec![self.keep(file)]);
        }
        let wrong =
            |reason: String| EvaluationError::TaskFile { origin: origin.to_owned(), reason };
        if depth > MAX_DEPTH {
            return Err(wrong(format!("groups are nested more than {MAX_DEPTH} deep")));
        }
        let file: GroupFile = serde_json::from_value(Value::Object(fields))
            .map_err(|error| wrong(shown_reason(&error.to_string())))?;
        if let Some(bad) = file.aggregate_metric_list.iter().find(|metric| !metric.is_mean()) {
            return Err(wrong(format!("the aggregation of {} is not mean", bad.metric)));
        }
        let entries = match file.task {
            Value::Array(entries) => entries,
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let (mut tasks, mut children) = (Vec::new(), Vec::new());
        for entry in entries {
            // Eight groups, each listing the next one ten times, have a hundred million entries.
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                wrong(format!("nested groups have more than {MAX_ENTRIES} names"))
            })?;
            let added = match entry {
                Value::String(name) => {
                    children.push(name.clone());
                    self.add(&name, folder, depth + 1)?
                }
                Value::Object(fields) => {
                    let fields = over_base(fields, folder)?;
                    let name = fields.get("group").or(fields.get("task")).and_then(Value::as_str);
                    children.push(name.unwrap_or_default().to_owned());
                    self.add_fields(fields, origin, folder, depth + 1)?
                }
                other => {
                    return Err(wrong(format!(
                        "task lists {}, expected names",
                        shown(&other.to_string())
                    )));
                }
            };
            tasks.extend(added);
        }
        if tasks.is_empty() {
            return Err(wrong("the group has no tasks".into()));
        }
        let version = file.metadata.as_ref().and_then(|data| data.get("version")?.as_f64());
        self.groups.push(TaskGroup {
            alias: file.group_alias.unwrap_or_else(|| file.group.clone()),
            name: file.group,
            children,
            version: version.unwrap_or(0.0),
            tasks: tasks.clone(),
            metrics: file.aggregate_metric_list,
        });
        Ok(tasks)
    }

    /// Stores a task file once, and returns the name of its task.
    fn keep(&mut self, file: TaskFile) -> String {
        let name = file.description.task.clone();
        if !self.files.contains(&file) {
            self.files.push(file);
        }
        name
    }
}

/// The file of one task.
pub(super) fn task_file(name: &str) -> Result<TaskFile, EvaluationError> {
    let Some(path) = path_of(name, Path::new(""))? else { return open(name) };
    let folder = path.parent().unwrap_or(Path::new(""));
    TaskFile::of_fields(fields_of(&path)?, path.display().to_string(), folder)
}

/// Path of the file that a name means: a path, or a task's name in the folder of a group. `None` if
/// there is no such file.
fn path_of(name: &str, folder: &Path) -> Result<Option<PathBuf>, EvaluationError> {
    let path = Path::new(name);
    let is_path = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
    if is_path || path.is_file() {
        let inside = folder.join(path);
        return Ok(Some(if inside.is_file() { inside } else { path.to_owned() }));
    }
    if folder.as_os_str().is_empty() || name.contains(['/', '\\']) {
        return Ok(None);
    }
    let file = folder.join(format!("{name}.yaml"));
    if file.is_file() {
        return Ok(Some(file));
    }
    if is_known(name) {
        return Ok(None);
    }
    let Ok(entries) = folder.read_dir() else { return Ok(None) };
    let files = entries.take(MAX_FILES).filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    let is_it = |path: &&PathBuf| {
        let fields = fields_of(path).unwrap_or_default();
        ["task", "group"].iter().any(|key| fields.get(*key).and_then(Value::as_str) == Some(name))
    };
    Ok(files.iter().find(is_it).cloned())
}

/// Fields of an entry, merged over those of the task that it names, if there is one.
fn over_base(
    fields: Map<String, Value>,
    folder: &Path,
) -> Result<Map<String, Value>, EvaluationError> {
    let name = fields.get("task").and_then(Value::as_str).filter(|_| !fields.contains_key("group"));
    let Some(name) = name else { return Ok(fields) };
    let base = match path_of(name, folder)? {
        Some(path) => fields_of(&path)?,
        None if is_known(name) => open(name)?.fields,
        None => return Ok(fields),
    };
    let mut merged = base;
    merged.extend(fields);
    Ok(merged)
}

fn has_tag(task: &str, tag: &str) -> bool {
    let Ok(file) = open(task) else { return false };
    match &file.description.tag {
        Some(Value::String(own)) => own == tag,
        Some(Value::Array(several)) => several.iter().any(|own| own.as_str() == Some(tag)),
        _ => false,
    }
}

impl GroupMetric {
    fn is_mean(&self) -> bool {
        self.aggregation.as_deref().is_none_or(|aggregation| aggregation == "mean")
    }

    /// Whether the metric includes results of this filter.
    fn takes(&self, filter: &str) -> bool {
        match &self.filter_list {
            None => true,
            Some(Value::String(one)) => one == filter,
            Some(several) => several
                .as_array()
                .is_some_and(|several| several.iter().any(|one| one.as_str() == Some(filter))),
        }
    }
}

impl TaskGroup {
    /// Total number of documents of its tasks.
    #[must_use]
    pub fn items(&self, results: &[TaskResult]) -> usize {
        self.of(results).map(|result| result.counts.items).sum()
    }

    fn of<'r>(&self, results: &'r [TaskResult]) -> impl Iterator<Item = &'r TaskResult> {
        results.iter().filter(|result| self.tasks.contains(&result.task))
    }

    /// Means over its tasks, weighted by size or equally. The standard error of a weighted mean is
    /// that of the pooled sample; that of an unweighted one assumes independent tasks.
    #[must_use]
    pub fn metrics(&self, results: &[TaskResult]) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for wanted in &self.metrics {
            let of_task = |result: &TaskResult| {
                let size = result.counts.items as f64;
                let metrics_of_task = result.metrics.clone().into_iter();
                metrics_of_task
                    .filter(|m| m.name == wanted.metric && wanted.takes(&m.filter))
                    .map(move |metric| (metric, size))
                    .collect::<Vec<_>>()
            };
            let all: Vec<(Metric, f64)> = self.of(results).flat_map(of_task).collect();
            let mut filters: Vec<&str> = all.iter().map(|(m, _)| m.filter.as_str()).collect();
            filters.sort_unstable();
            filters.dedup();
            for filter in filters {
                let own: Vec<&(Metric, f64)> =
                    all.iter().filter(|(metric, _)| metric.filter == filter).collect();
                metrics.push(mean(&own, wanted.weight_by_size));
            }
        }
        metrics
    }
}

/// Mean of metrics with their sample sizes, of which there is at least one.
fn mean(figures: &[&(Metric, f64)], by_size: bool) -> Metric {
    let count = figures.len() as f64;
    let sizes: f64 = figures.iter().map(|(_, size)| size).sum();
    let weight = |size: f64| if by_size { size / sizes } else { 1.0 / count };
    let value = figures.iter().map(|(metric, size)| metric.value * weight(*size)).sum();
    let errors: Option<Vec<f64>> = figures.iter().map(|(metric, _)| metric.stderr).collect();
    let stderr = errors.map(|errors| match by_size {
        true => {
            let terms = figures.iter().zip(&errors).map(|((_, n), e)| (n - 1.0) * e * e * n);
            (terms.sum::<f64>() / (sizes - count) / sizes).sqrt()
        }
        false => errors.iter().map(|e| e * e).sum::<f64>().sqrt() / count,
    });
    let (first, _) = figures[0];
    Metric { value, stderr: stderr.filter(|error| error.is_finite()), ..first.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counts;
    use std::fs;

    fn group(text: &str) -> (tempfile::TempDir, Result<Selection, EvaluationError>) {
        let dir = tempfile::tempdir().unwrap();
        let task = |name: &str| {
            format!(
                "task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: rows.jsonl}}}}\n\
                 output_type: multiple_choice\ntest_split: test\ndoc_to_text: \"{{{{q}}}}\"\n\
                 doc_to_target: 0\ndoc_to_choice: [a, b]\n"
            )
        };
        fs::write(dir.path().join("one.yaml"), task("one")).unwrap();
        fs::write(dir.path().join("other_name.yaml"), task("two")).unwrap();
        fs::write(dir.path().join("rows.jsonl"), "{\"q\": \"x\"}\n{\"q\": \"y\"}\n").unwrap();
        fs::write(dir.path().join("all.yaml"), text).unwrap();
        let name = dir.path().join("all.yaml").display().to_string();
        let selection = Selection::open(&[name], &HarnessOptions::default());
        (dir, selection)
    }

    #[test]
    fn a_group_finds_its_tasks() {
        let (_dir, selection) = group(
            "group: all\ntask:\n- one\n- {group: inner, task: [two, one]}\n\
             - {task: one, task_alias: again, num_fewshot: 0}\n\
             aggregate_metric_list: [{metric: acc}]\nmetadata: {version: 2}\n",
        );
        let selection = selection.unwrap();
        let names: Vec<String> =
            selection.tasks.iter().map(|task| task.file.description.task.clone()).collect();
        assert_eq!(names, ["one", "two", "one"]);
        let groups: Vec<&str> = selection.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(groups, ["inner", "all"]);
        assert_eq!(selection.groups[1].children, ["one", "inner", "one"]);
        assert_eq!(selection.groups[1].version, 2.0);
    }

    #[test]
    fn faults_of_groups_are_told() {
        for (text, want) in [
            ("group: all\ntask: [absent]\n", "no task is called \"absent\""),
            ("group: all\n", "the group has no tasks"),
            ("group: all\ntask: [all]\n", "deep"),
            ("group: all\ntask: [3]\n", "task lists 3"),
            (
                "group: all\ntask: one\naggregate_metric_list: [{metric: acc, aggregation: max}]\n",
                "acc is not mean",
            ),
            ("group: all\nwhat: 3\n", "unknown field `what`"),
        ] {
            let message = group(text).1.unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
    }

    #[test]
    fn groups_that_multiply_are_refused_before_long() {
        let dir = tempfile::tempdir().unwrap();
        for depth in 0..7 {
            let inner = vec![format!("g{}", depth + 1); 10].join(", ");
            let text = format!("group: g{depth}\ntask: [{inner}]\n");
            fs::write(dir.path().join(format!("g{depth}.yaml")), text).unwrap();
        }
        fs::write(dir.path().join("g7.yaml"), "group: g7\ntask: [piqa]\n").unwrap();
        let name = dir.path().join("g0.yaml").display().to_string();
        let mut found = Found { left: 200, ..Found::default() };
        let error = found.add(&name, Path::new(""), 0).unwrap_err().to_string();
        assert!(error.contains("have more than"), "{error}");
        assert!(found.files.len() <= 1, "{}", found.files.len());
    }

    #[test]
    fn tags_and_patterns_name_several() {
        let names = |pattern: &str| {
            let fits = |task: &&str| name_matches(pattern, task);
            STANDARD_TASKS.iter().map(|task| task.name).filter(fits).collect::<Vec<_>>()
        };
        assert_eq!(names("arc_*"), ["arc_easy", "arc_challenge"]);
        assert_eq!(names("arc_[!c]*"), ["arc_easy"]);
        assert!(has_tag("arc_easy", "ai2_arc") && !has_tag("piqa", "ai2_arc"));
    }

    fn result(task: &str, value: f64, stderr: f64, items: usize) -> TaskResult {
        TaskResult {
            task: task.into(),
            metrics: vec![Metric::new("acc", value, Some(stderr), true)],
            counts: Counts { items, ..Counts::default() },
            ..TaskResult::default()
        }
    }

    #[test]
    fn means_are_those_of_the_harness() {
        let results = [result("one", 0.5, 0.1, 10), result("two", 0.8, 0.05, 40)];
        let metric = |weight_by_size| GroupMetric {
            metric: "acc".into(),
            aggregation: None,
            weight_by_size,
            filter_list: None,
        };
        let group = TaskGroup {
            name: "all".into(),
            alias: "all".into(),
            children: Vec::new(),
            version: 0.0,
            tasks: vec!["one".into(), "two".into()],
            metrics: vec![metric(true), metric(false)],
        };
        let metrics = group.metrics(&results);
        assert_eq!(group.items(&results), 50);
        assert!((metrics[0].value - 0.74).abs() < 1e-12);
        // (9 * 0.01 * 10 + 39 * 0.0025 * 40) / 48 / 50.
        assert!((metrics[0].stderr.unwrap() - (4.8f64 / 48.0 / 50.0).sqrt()).abs() < 1e-12);
        assert!((metrics[1].value - 0.65).abs() < 1e-12);
        assert!((metrics[1].stderr.unwrap() - (0.0125f64).sqrt() / 2.0).abs() < 1e-12);
    }
}
