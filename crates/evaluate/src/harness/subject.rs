//! Built-in tasks of one subject each, of data sets that are divided into subjects: MMLU and
//! MMLU-Pro. They have no files of their own: a template gives the text of each.

use super::standard::{STANDARD_TASKS, SUBGROUPS};
use super::yaml;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A data set whose subjects are tasks.
struct Family {
    /// Name of the group, and prefix of the names of its tasks.
    group: &'static str,
    /// Task file of a subject, with `SUBJECT` for its name and `WORDS` for its words.
    template: &'static str,
    /// Column with the subject of a row.
    column: &'static str,
    /// Whether that column has words, instead of a name with underscores.
    is_of_words: bool,
    /// Names of its tasks.
    tasks: LazyLock<BTreeSet<String>>,
}

static FAMILIES: [Family; 2] = [
    Family {
        group: "mmlu",
        template: include_str!("../../assets/tasks/subjects/mmlu.yaml"),
        column: "subject",
        is_of_words: false,
        tasks: LazyLock::new(|| tasks_of("mmlu")),
    },
    Family {
        group: "mmlu_pro",
        template: include_str!("../../assets/tasks/subjects/mmlu_pro.yaml"),
        column: "category",
        is_of_words: true,
        tasks: LazyLock::new(|| tasks_of("mmlu_pro")),
    },
];

/// The rows of a task in data of its whole group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// The group.
    pub(super) group: &'static str,
    /// The column that says to which task a row belongs.
    pub(super) column: &'static str,
    /// Its value in the rows of the task.
    pub(super) value: String,
}

/// Names of the tasks of a built-in group, those of nested groups included.
fn tasks_of(group: &str) -> BTreeSet<String> {
    let all = || STANDARD_TASKS.iter().chain(SUBGROUPS);
    let text = all().find(|task| task.name == group).map_or("", |task| task.text);
    let fields = yaml::fields(text).unwrap_or_default();
    let names = fields.get("task").and_then(Value::as_array).into_iter().flatten();
    let mut tasks = BTreeSet::new();
    for name in names.filter_map(Value::as_str) {
        match all().any(|task| task.name == name) {
            true => tasks.extend(tasks_of(name)),
            false => tasks.extend([name.to_owned()]),
        }
    }
    tasks
}

/// The family of a task, and the name of its subject.
fn family(task: &str) -> Option<(&'static Family, &str)> {
    let family = FAMILIES.iter().find(|family| family.tasks.contains(task))?;
    Some((family, task.strip_prefix(family.group)?.strip_prefix('_')?))
}

fn words(subject: &str) -> String {
    subject.replace('_', " ")
}

/// Text of the file of a task of a subject.
pub(super) fn text(task: &str) -> Option<String> {
    let (family, subject) = family(task)?;
    Some(family.template.replace("SUBJECT", subject).replace("WORDS", &words(subject)))
}

/// The rows of a task in data of its whole group, if it belongs to one.
pub(crate) fn part(task: &str) -> Option<Part> {
    let (family, subject) = family(task)?;
    let value = if family.is_of_words { words(subject) } else { subject.to_owned() };
    Some(Part { group: family.group, column: family.column, value })
}

/// The group whose data may be given for a task of one of its subjects.
pub(crate) fn group_with_data(task: &str) -> Option<&'static str> {
    family(task).map(|(family, _)| family.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_those_of_the_groups() {
        let [mmlu, pro] = &FAMILIES;
        assert_eq!((mmlu.tasks.len(), pro.tasks.len()), (57, 14));
        let text = text("mmlu_high_school_us_history").unwrap();
        assert!(text.contains("about high school us history.\\n\\n"), "{text}");
        let part_of = |task: &str| part(task).map(|part| (part.column, part.value));
        assert_eq!(
            part_of("mmlu_us_foreign_policy"),
            Some(("subject", "us_foreign_policy".into()))
        );
        let pro = Some(("category", "computer science".to_owned()));
        assert_eq!(part_of("mmlu_pro_computer_science"), pro);
        assert_eq!(part_of("mmlu"), None);
        assert_eq!(group_with_data("mmlu_pro_law"), Some("mmlu_pro"));
    }
}
