//! Built-in tasks: one file each in `assets/tasks`, with the prompts of lm-evaluation-harness, so
//! that scores are comparable.

use super::description::TaskFile;
use crate::{EvaluationError, LASER_TASKS};
use linwright_run::spelling::distance;
use std::path::Path;

/// A built-in task.
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
        StandardTask {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../../assets/tasks/", $name, ".yaml")),
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
    task!("mmlu", "the form of MMLU, by letter"),
    task!("sst2", "positive or negative"),
    task!("mnli", "true, neither or false: does a premise entail it"),
    task!("ifeval", "verifiable instructions, followed by the generated answer"),
    task!("rotor_arc_challenge", "ARC as in the rotor paper, by the generated letter"),
    task!("rotor_hellaswag", "HellaSwag likewise"),
    task!("rotor_gpqa", "GPQA likewise"),
];

/// Largest edit distance of a suggested name.
const CLOSE: usize = 4;

/// Opens a built-in task by name.
pub(super) fn open(name: &str) -> Result<TaskFile, EvaluationError> {
    let task = find(name).ok_or_else(|| EvaluationError::UnknownTask {
        found: name.to_owned(),
        known: nearest(name),
    })?;
    let include = |folder: &Path, name: &str| {
        let task = find(name).ok_or_else(|| format!("{name} is missing"))?;
        Ok((task.text.to_owned(), folder.to_owned()))
    };
    TaskFile::parse(task.text, format!("task {name}"), Path::new(""), &include)
}

/// A built-in task by name.
pub(super) fn find(name: &str) -> Option<&'static StandardTask> {
    STANDARD_TASKS.iter().find(|task| task.name == name)
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
