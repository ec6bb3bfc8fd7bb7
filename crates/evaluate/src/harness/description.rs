//! Task files, in the vocabulary of lm-evaluation-harness (its `TaskConfig`, version 0.4.13).
//!
//! A file may include another one (`include: base.yaml`), whose fields it overrides. Python is
//! never executed: `!function module.name` names one of the functions in [`super::functions`].

use super::functions::Function;
use super::yaml::{self, FUNCTION};
use crate::EvaluationError;
use linwright_run::{input, shown, shown_reason};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Includes inside each other at most.
const DEEPEST: usize = 8;
/// Largest task file, in bytes.
const LARGEST: u64 = 1 << 22;

/// Fields that a function can fill.
const OF_FUNCTIONS: [&str; 6] = [
    "process_docs",
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "process_results",
    "doc_to_decontamination_query",
];

/// How the text, the answer or the choices are made of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// Always this number.
    Number(i64),
    /// The column of this name, or else this template.
    Text(String),
    /// Always this list.
    List(Vec<Value>),
    /// A named function.
    Function(&'static Function),
}

/// What a task asks of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputType {
    /// Log-likelihood of one continuation.
    Loglikelihood,
    /// Log-likelihood of a whole text.
    LoglikelihoodRolling,
    /// Log-likelihood of each choice.
    MultipleChoice,
    /// A continuation that the model writes.
    GenerateUntil,
}

impl OutputType {
    /// The word of the harness.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loglikelihood => "loglikelihood",
            Self::LoglikelihoodRolling => "loglikelihood_rolling",
            Self::MultipleChoice => "multiple_choice",
            Self::GenerateUntil => "generate_until",
        }
    }
}

/// A figure and how it is made of those of the documents.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct MetricEntry {
    pub(super) metric: String,
    pub(super) aggregation: Option<String>,
    pub(super) higher_is_better: Option<bool>,
    /// Options of the metric itself.
    #[serde(flatten)]
    pub(super) options: Map<String, Value>,
}

/// A named way from what a model wrote to the answer in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct FilterEntry {
    pub(super) name: String,
    pub(super) filter: Vec<Map<String, Value>>,
}

/// Where examples come from and how they are written, where it differs from the documents.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FewshotEntry {
    pub(super) sampler: Option<String>,
    pub(super) split: Option<String>,
    pub(super) samples: Option<Vec<Map<String, Value>>>,
    pub(super) fewshot_indices: Option<Vec<usize>>,
    pub(super) process_docs: Option<String>,
    pub(super) doc_to_text: Option<Value>,
    pub(super) doc_to_target: Option<Value>,
    pub(super) doc_to_choice: Option<Value>,
    pub(super) gen_prefix: Option<String>,
    pub(super) target_delimiter: Option<String>,
    pub(super) fewshot_delimiter: Option<String>,
}

/// The fields of a task file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) task: String,
    pub(super) task_alias: Option<String>,
    pub(super) tag: Option<Value>,
    pub(super) dataset_path: Option<String>,
    pub(super) dataset_name: Option<Value>,
    pub(super) dataset_kwargs: Option<Map<String, Value>>,
    pub(super) training_split: Option<String>,
    pub(super) validation_split: Option<String>,
    pub(super) test_split: Option<String>,
    pub(super) fewshot_split: Option<String>,
    pub(super) process_docs: Option<String>,
    pub(super) doc_to_text: Option<Value>,
    pub(super) doc_to_target: Option<Value>,
    pub(super) doc_to_choice: Option<Value>,
    pub(super) process_results: Option<String>,
    pub(super) description: Option<String>,
    #[serde(default = "space")]
    pub(super) target_delimiter: String,
    #[serde(default = "blank_line")]
    pub(super) fewshot_delimiter: String,
    pub(super) fewshot_config: Option<FewshotEntry>,
    pub(super) num_fewshot: Option<usize>,
    pub(super) metric_list: Option<Vec<MetricEntry>>,
    pub(super) output_type: Option<OutputType>,
    pub(super) generation_kwargs: Option<Map<String, Value>>,
    pub(super) repeats: Option<usize>,
    pub(super) filter_list: Option<Vec<FilterEntry>>,
    pub(super) should_decontaminate: Option<bool>,
    pub(super) doc_to_decontamination_query: Option<Value>,
    pub(super) gen_prefix: Option<String>,
    pub(super) metadata: Option<Value>,
    // What the harness knows and this does not; refused by name.
    pub(super) custom_dataset: Option<Value>,
    pub(super) doc_to_image: Option<Value>,
    pub(super) doc_to_audio: Option<Value>,
    pub(super) unsafe_code: Option<bool>,
    pub(super) use_prompt: Option<Value>,
}

fn space() -> String {
    " ".into()
}

fn blank_line() -> String {
    "\n\n".into()
}

/// Gives the text of a file by its name, or says in words why not.
type Include<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// A task file that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskFile {
    pub(super) description: Description,
    /// All fields, includes resolved, as they were written.
    pub(super) fields: Map<String, Value>,
    /// Where it was read: a path, or the name of a task that comes along.
    pub(super) origin: String,
    /// The folder against which paths in it are resolved.
    pub(super) folder: PathBuf,
}

impl TaskFile {
    /// Reads the text of a file; `include` gives the text of another one by its name.
    pub(super) fn parse(
        text: &str,
        origin: String,
        (folder, include): (&Path, &Include<'_>),
    ) -> Result<Self, EvaluationError> {
        let fields = with_includes(text, include, 0).map_err(|reason| wrong(&origin, reason))?;
        Self::of_fields(fields, origin, folder)
    }

    /// A task of its fields, includes resolved.
    pub(super) fn of_fields(
        fields: Map<String, Value>,
        origin: String,
        folder: &Path,
    ) -> Result<Self, EvaluationError> {
        let description: Description = serde_json::from_value(Value::Object(fields.clone()))
            .map_err(|error| wrong(&origin, shown_reason(&error.to_string())))?;
        let file = Self { description, fields, origin, folder: folder.to_owned() };
        file.check()?;
        Ok(file)
    }

    /// What is wrong with the file.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> EvaluationError {
        wrong(&self.origin, reason.into())
    }

    fn check(&self) -> Result<(), EvaluationError> {
        let d = &self.description;
        let unknown = [
            ("custom_dataset", d.custom_dataset.is_some()),
            ("doc_to_image", d.doc_to_image.is_some()),
            ("doc_to_audio", d.doc_to_audio.is_some()),
            ("use_prompt", d.use_prompt.is_some()),
            ("unsafe_code", d.unsafe_code == Some(true)),
        ];
        if let Some((name, _)) = unknown.iter().find(|(_, given)| *given) {
            return Err(self.wrong(format!("{name} is not supported; only text tasks are")));
        }
        if d.repeats.is_some_and(|repeats| repeats != 1) {
            return Err(self.wrong("repeats must be 1: nothing is drawn at random"));
        }
        for (name, value) in &self.fields {
            self.check_functions(name, value)?;
        }
        if d.task.is_empty() || d.task.contains(['/', '\\', '\n']) {
            return Err(self.wrong(format!("task \"{}\" is no name", shown(&d.task))));
        }
        Ok(())
    }

    /// Whether every function in a field is known, and stands where functions can.
    fn check_functions(&self, name: &str, value: &Value) -> Result<(), EvaluationError> {
        match value {
            Value::String(text) => match text.strip_prefix(FUNCTION) {
                None => Ok(()),
                Some(function) if OF_FUNCTIONS.contains(&name) => {
                    self.function(function).map(|_| ())
                }
                Some(function) => Err(self.wrong(format!(
                    "{} is !function {}, and takes none",
                    shown(name),
                    shown(function)
                ))),
            },
            Value::Array(items) => {
                let name = format!("an item of {name}");
                items.iter().try_for_each(|item| self.check_functions(&name, item))
            }
            Value::Object(fields) => {
                fields.iter().try_for_each(|(name, value)| self.check_functions(name, value))
            }
            _ => Ok(()),
        }
    }

    /// Field of a document from a value of the file.
    pub(super) fn field(&self, name: &str, value: &Value) -> Result<Field, EvaluationError> {
        Ok(match value {
            Value::Number(number) => match number.as_i64() {
                Some(number) => Field::Number(number),
                None => return Err(self.wrong(format!("{name} is {number}, expected a whole one"))),
            },
            Value::String(text) => match text.strip_prefix(FUNCTION) {
                Some(function) => Field::Function(self.function(function)?),
                None => Field::Text(text.clone()),
            },
            Value::Array(items) => Field::List(items.clone()),
            Value::Object(fields) => Field::List(fields.values().cloned().collect()),
            Value::Null | Value::Bool(_) => {
                return Err(self.wrong(format!("{name} is {value}, expected text, number or list")));
            }
        })
    }

    /// The function of a field that can hold nothing else.
    pub(super) fn function_of(
        &self,
        name: &str,
        value: &str,
    ) -> Result<&'static Function, EvaluationError> {
        match value.strip_prefix(FUNCTION) {
            Some(function) => self.function(function),
            None => {
                Err(self.wrong(format!("{name} is \"{}\", expected !function ...", shown(value))))
            }
        }
    }

    fn function(&self, name: &str) -> Result<&'static Function, EvaluationError> {
        let name = name.trim();
        Function::find(name, &self.description.task).ok_or_else(|| {
            self.wrong(format!(
                "!function {} is not known, and Python is never executed; known are {}",
                shown(name),
                Function::known()
            ))
        })
    }
}

/// The fields of a file, includes resolved.
pub(super) fn fields_of(path: &Path) -> Result<Map<String, Value>, EvaluationError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let include = |name: &str| read_text(&folder.join(name));
    read_text(path)
        .and_then(|text| with_includes(&text, &include, 0))
        .map_err(|reason| wrong(&path.display().to_string(), reason))
}

fn wrong(origin: &str, reason: String) -> EvaluationError {
    EvaluationError::TaskFile { origin: origin.to_owned(), reason }
}

fn read_text(path: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    input::read_text(path, LARGEST).map_err(failed)
}

/// The fields of a file, over those of what it includes.
fn with_includes(
    text: &str,
    include: &Include<'_>,
    depth: usize,
) -> Result<Map<String, Value>, String> {
    if depth > DEEPEST {
        return Err(format!("files include each other more than {DEEPEST} deep"));
    }
    let mut fields = yaml::fields(text).map_err(|reason| format!("not a task file: {reason}"))?;
    let base = match fields.shift_remove("include") {
        None => return Ok(fields),
        Some(Value::String(name)) => name,
        Some(other) => {
            return Err(format!(
                "include is {}, expected the name of a file",
                shown(&other.to_string())
            ));
        }
    };
    let mut all = with_includes(&include(&base)?, include, depth + 1)?;
    all.extend(fields);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TaskFile, EvaluationError> {
        let include = |name: &str| match name {
            "base" => Ok("task: base\noutput_type: multiple_choice\ndoc_to_text: a\n".to_owned()),
            "round" => Ok("include: round\n".to_owned()),
            _ => Err(format!("no {name}")),
        };
        TaskFile::parse(text, "t.yaml".into(), (Path::new(""), &include))
    }

    #[test]
    fn a_file_overrides_what_it_includes() {
        let file = parse("include: base\ntask: mine\nmetadata: {version: 2.0}\n").unwrap();
        assert_eq!(file.description.task, "mine");
        assert_eq!(file.description.output_type, Some(OutputType::MultipleChoice));
        assert_eq!(file.description.doc_to_text, Some(Value::from("a")));
        assert_eq!((file.description.target_delimiter.as_str(), " "), (" ", " "));
        let order: Vec<&String> = file.fields.keys().collect();
        assert_eq!(order, ["task", "output_type", "doc_to_text", "metadata"]);
    }

    #[test]
    fn functions_are_known_by_name() {
        let file = parse(
            "task: hellaswag_mine\nprocess_docs: !function utils.process_docs\n\
             doc_to_text: 'a !function b'\n",
        )
        .unwrap();
        let name = file.description.process_docs.as_deref().unwrap();
        assert_eq!(file.function_of("process_docs", name).unwrap().name, "hellaswag.process_docs");
        let text = file.description.doc_to_text.as_ref().unwrap();
        assert_eq!(file.field("", text).unwrap(), Field::Text("a !function b".into()));
    }

    #[test]
    fn faults_name_the_file() {
        for (text, want) in [
            ("task: a\nwhat: 1\n", "unknown field `what`"),
            ("task: [", "t.yaml: not a task file"),
            ("output_type: multiple_choice\n", "missing field `task`"),
            ("task: a\noutput_type: guess\n", "unknown variant `guess`"),
            ("include: nowhere\n", "no nowhere"),
            ("include: round\n", "include each other"),
            ("task: a\nuse_prompt: x\n", "use_prompt is not supported"),
            ("task: a/b\n", "is no name"),
            ("task: a\nrepeats: 3\n", "repeats must be 1"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
        let message =
            parse("task: a\nprocess_docs: !function os.system\n").unwrap_err().to_string();
        assert!(message.contains("never executed") && message.contains("hellaswag"), "{message}");
    }

    #[test]
    fn a_tag_is_a_known_function_or_a_fault() {
        for (field, want) in [
            ("doc_to_text: !function utils.f  # note", "!function utils.f is not known"),
            ("doc_to_text: !function \"utils.f\"", "!function utils.f is not known"),
            ("doc_to_text:\n  !function utils.f", "!function utils.f is not known"),
            ("doc_to_text: !foo x", "the tag !foo is not known"),
            ("description: !function mnli.doc_to_text", "description is !function"),
            ("metric_list: [{metric: !function utils.m}]", "metric is !function utils.m"),
            ("doc_to_choice: [!function utils.m]", "an item of doc_to_choice is !function"),
        ] {
            let message = parse(&format!("task: a\n{field}\n")).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
        let file = parse("task: a\ndoc_to_text: !function 'mnli.doc_to_text' # note\n").unwrap();
        let text = file.description.doc_to_text.as_ref().unwrap();
        let Field::Function(function) = file.field("", text).unwrap() else { panic!("{text}") };
        assert_eq!(function.name, "mnli.doc_to_text");
    }
}
