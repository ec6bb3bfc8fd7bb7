//! Built-in tasks: one file each in `assets/tasks`, with the prompts of lm-evaluation-harness, so
//! that scores are comparable.

use super::description::{TaskFile, fields_of_text};
use super::subject;
use crate::{EvaluationError, LASER_TASKS};
use linwright_run::spelling::distance;
use serde_json::{Map, Value};
use std::path::Path;

/// A built-in task, or group of tasks.
#[derive(Clone, Copy, Debug)]
pub struct StandardTask {
    /// Its name.
    pub name: &'static str,
    /// Short description.
    pub summary: &'static str,
    /// Text of its file.
    pub text: &'static str,
}

/// A task by the name of its file.
macro_rules! task {
    ($name:literal, $summary:literal) => {
        task!("", $name, $summary)
    };
    ($folder:literal, $name:literal, $summary:literal) => {
        StandardTask {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../../assets/tasks/", $folder, $name, ".yaml")),
        }
    };
}

/// All built-in tasks.
pub const STANDARD_TASKS: &[StandardTask] = &[
    task!("arc_easy", "science questions, easy"),
    task!("arc_challenge", "science questions, hard"),
    task!("hellaswag", "continuation of a scene"),
    task!("piqa", "everyday physical tasks"),
    task!("winogrande", "the referent of a pronoun"),
    task!("boolq", "yes or no, about a passage"),
    task!("openbookqa", "elementary science"),
    task!("social_iqa", "social situations"),
    task!("commonsense_qa", "common sense, by letter"),
    task!("truthfulqa_mc1", "one true answer among false ones"),
    task!("truthfulqa_mc2", "probability on true answers"),
    task!("lambada_openai", "the last word of a passage"),
    task!("wikitext", "perplexity per word and byte"),
    task!("sciq", "science questions after a passage"),
    task!("mmlu", "57 subjects of MMLU, each a task, by letter"),
    task!("mmlu_pro", "14 subjects of MMLU-Pro, with reasoning, by the generated letter"),
    task!("gsm8k", "arithmetic word problems, by the generated number"),
    task!("sst2", "positive or negative"),
    task!("mnli", "true, neither or false: does a premise entail it"),
    task!("ifeval", "verifiable instructions, followed by the generated answer"),
    task!("rotor_arc_challenge", "ARC as in the rotor paper, by the generated letter"),
    task!("rotor_hellaswag", "HellaSwag likewise"),
    task!("rotor_gpqa", "GPQA likewise"),
];

/// Largest edit distance of a suggested name.
const CLOSE: usize = 4;

/// Groups within built-in groups.
pub(super) const SUBGROUPS: &[StandardTask] = &[
    task!("subjects/", "mmlu_stem", ""),
    task!("subjects/", "mmlu_other", ""),
    task!("subjects/", "mmlu_social_sciences", ""),
    task!("subjects/", "mmlu_humanities", ""),
];

/// Opens a built-in task by name.
pub(super) fn open(name: &str) -> Result<TaskFile, EvaluationError> {
    let (fields, origin) = (fields(name)?, origin(name));
    if fields.contains_key("group") {
        let reason = "it is a group of tasks, expected one task".to_owned();
        return Err(EvaluationError::TaskFile { origin, reason });
    }
    TaskFile::of_fields(fields, origin, Path::new(""))
}

/// Fields of a built-in task or group by name.
pub(super) fn fields(name: &str) -> Result<Map<String, Value>, EvaluationError> {
    let own = text(name).ok_or_else(|| EvaluationError::UnknownTask {
        found: name.to_owned(),
        known: nearest(name),
    })?;
    let include = |folder: &Path, name: &str| {
        let text = text(name).ok_or_else(|| format!("{name} is missing"))?;
        Ok((text, folder.to_owned()))
    };
    fields_of_text(&own, &origin(name), &include)
}

/// Name of a built-in task or group in messages.
pub(super) fn origin(name: &str) -> String {
    format!("task {name}")
}

/// Text of the file of a built-in task or group.
fn text(name: &str) -> Option<String> {
    let of_file = STANDARD_TASKS.iter().chain(SUBGROUPS).find(|task| task.name == name);
    of_file.map(|task| task.text.to_owned()).or_else(|| subject::text(name))
}

/// Whether there is a built-in task or group with this name.
pub(super) fn is_known(name: &str) -> bool {
    text(name).is_some()
}

/// Suggests the closest names, or lists all.
fn nearest(name: &str) -> String {
    let others = LASER_TASKS.iter().map(|set| set.name);
    let all = STANDARD_TASKS.iter().map(|task| task.name).chain(others);
    let mut names: Vec<(usize, &str)> = all.map(|known| (distance(name, known), known)).collect();
    names.sort_unstable();
    let close: Vec<&str> =
        names.iter().filter(|(far, _)| *far <= CLOSE).map(|(_, name)| *name).take(3).collect();
    if close.is_empty() {
        let all: Vec<&str> = STANDARD_TASKS.iter().map(|task| task.name).collect();
        return format!("built-in tasks are {}; or give the path of a .yaml file", all.join(", "));
    }
    format!("nearest are {}; see `linwright ls tasks`", close.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_parses_under_its_own_name() {
        let mut groups = 0;
        for task in STANDARD_TASKS.iter().chain(SUBGROUPS) {
            let fields = fields(task.name).unwrap();
            if fields.get("group").is_some_and(|group| group == task.name) {
                groups += 1;
                let error = open(task.name).unwrap_err().to_string();
                assert!(error.contains("is a group of tasks"), "{error}");
                continue;
            }
            let file = open(task.name).unwrap();
            assert_eq!(file.description.task, task.name);
        }
        assert_eq!(groups, 6);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let message = open("hellaswg").unwrap_err().to_string();
        assert!(message.contains("nearest are hellaswag"), "{message}");
        let message = open("nothing_like_any").unwrap_err().to_string();
        assert!(
            message.contains("arc_easy, arc_challenge") && message.contains(".yaml"),
            "{message}"
        );
    }

    #[test]
    fn distances() {
        assert_eq!(
            (distance("", "abc"), distance("kitten", "sitting"), distance("a", "a")),
            (3, 3, 0)
        );
    }
}
