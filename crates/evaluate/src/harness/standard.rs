//! The tasks that come along: one file each in `assets/tasks`, with the prompts of the evaluation
//! harness, so that figures compare.

use super::description::TaskFile;
use crate::{EvaluationError, LASER_TASKS};
use linwright_run::spelling::distance;
use std::path::Path;

/// A task that comes along.
#[derive(Clone, Copy, Debug)]
pub struct StandardTask {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub summary: &'static str,
    /// Its file.
    pub text: &'static str,
}

/// A task by its name, which is that of its file.
macro_rules! task {
    ($name:literal, $summary:literal) => {
        StandardTask {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../../assets/tasks/", $name, ".yaml")),
        }
    };
}

/// All of them.
pub const STANDARD_TASKS: &[StandardTask] = &[
    task!("arc_easy", "science questions, easy"),
    task!("arc_challenge", "science questions, hard"),
    task!("hellaswag", "how a scene goes on"),
    task!("piqa", "how things are done"),
    task!("winogrande", "whom a sentence means"),
    task!("boolq", "yes or no, after a passage"),
    task!("openbookqa", "elementary science"),
    task!("social_iqa", "how people react"),
    task!("commonsense_qa", "common sense, by letter"),
    task!("truthfulqa_mc1", "the one true answer"),
    task!("truthfulqa_mc2", "probability on true answers"),
    task!("lambada_openai", "the last word of a passage"),
    task!("wikitext", "perplexity per word and byte"),
    task!("sciq", "science questions after a passage"),
    task!("mmlu", "the form of MMLU, by letter"),
    task!("sst2", "positive or negative"),
    task!("mnli", "true, neither or false"),
    task!("rotor_arc_challenge", "ARC as the rotor paper scores it, by the letter written"),
    task!("rotor_hellaswag", "HellaSwag likewise"),
    task!("rotor_gpqa", "GPQA likewise"),
];

/// Letters that may be wrong, missing or too many in a name that is meant.
const CLOSE: usize = 4;

/// The file of a task.
pub(super) fn open(name: &str) -> Result<TaskFile, EvaluationError> {
    let task = find(name).ok_or_else(|| EvaluationError::UnknownTask {
        found: name.to_owned(),
        known: nearest(name),
    })?;
    let include = |name: &str| {
        find(name).map(|task| task.text.to_owned()).ok_or_else(|| format!("there is no {name}"))
    };
    TaskFile::parse(task.text, format!("task {name}"), (Path::new(""), &include))
}

/// A task that comes along, by its name.
pub(super) fn find(name: &str) -> Option<&'static StandardTask> {
    STANDARD_TASKS.iter().find(|task| task.name == name)
}

/// The names that are closest to one, or all.
fn nearest(name: &str) -> String {
    let others = LASER_TASKS.iter().map(|set| set.name);
    let all = STANDARD_TASKS.iter().map(|task| task.name).chain(others);
    let mut names: Vec<(usize, &str)> = all.map(|known| (distance(name, known), known)).collect();
    names.sort_unstable();
    let close: Vec<&str> =
        names.iter().filter(|(far, _)| *far <= CLOSE).map(|(_, name)| *name).take(3).collect();
    if close.is_empty() {
        let all: Vec<&str> = STANDARD_TASKS.iter().map(|task| task.name).collect();
        return format!("the tasks are {}; or give the path of a .yaml file", all.join(", "));
    }
    format!("nearest are {}; see `linwright ls tasks`", close.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_parses_under_its_own_name() {
        for task in STANDARD_TASKS {
            let file = open(task.name).unwrap();
            assert_eq!(file.description.task, task.name);
        }
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
