use super::*;
use crate::tests::{Fake, run_with};
use crate::{HarnessOptions, Item, LaserOptions, LaserSet, Scoring, Split, TaskOptions};
use serde_json::json;
use std::collections::BTreeSet;

fn options<'a>(
    data: &[(&str, &Path)],
    text: TaskOptions,
    harness: HarnessOptions<'a>,
    laser: LaserOptions,
) -> OpenOptions<'a> {
    let file = |(task, path): &(&str, &Path)| DataFile {
        task: (*task).to_owned(),
        split: None,
        path: path.to_path_buf(),
    };
    OpenOptions::new(data.iter().map(file).collect(), text, harness, laser)
}

fn plain<'a>(data: &[(&str, &Path)]) -> OpenOptions<'a> {
    options(data, TaskOptions::default(), HarnessOptions::default(), LaserOptions::default())
}

fn named(names: &[&str]) -> Vec<TaskRequest> {
    names.iter().map(|name| TaskRequest::named(name)).collect()
}

fn refused(found: Result<impl Sized, EvaluationError>) -> RegistryError {
    match found.err() {
        Some(EvaluationError::Registry(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_name_means_one_entry_and_has_a_sentence() {
    let mut names = BTreeSet::new();
    for listed in entries() {
        assert!(names.insert(listed.name()), "{} twice", listed.name());
        let called: Vec<_> =
            entries().filter(|other| other.is_called(listed.name())).map(TaskEntry::name).collect();
        assert_eq!(called, [listed.name()]);
        assert!(!listed.summary().is_empty() && !listed.summary().ends_with('.'));
        assert_eq!(entry(listed.name()).name(), listed.name());
    }
    for name in ["text", "rotor_paper", "stsb", "arc_easy", "laser_fever"] {
        assert!(names.contains(name), "{name}");
    }
    assert_eq!(canonical_task("fever"), "laser_fever");
    assert_eq!((entry("fever").name(), entry("any.yaml").name()), ("laser_fever", "TASK.yaml"));
    assert_eq!((canonical_task("any.yaml"), canonical_task("text")), ("any.yaml", "text"));
}

/// `dummy.rs` is one file and one line of `lib.rs`; all below follows.
#[test]
fn a_new_task_is_listed_opened_divided_and_evaluated() {
    let listed = entries().find(|entry| entry.name() == "dummy").unwrap();
    assert_eq!(listed.data(), TaskData::File("data"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.txt");
    let lines: Vec<String> = (0..10).map(|line| format!("line {line}")).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let asked = plain(&[("dummy", &path)]);
    let task = open_tasks(&named(&["dummy"]), &asked).unwrap().single().unwrap();
    let result = run_with(task.as_ref(), &Fake::default(), 4096).unwrap();
    assert!(result.metric("nats").unwrap().value < 0.0);
    assert_eq!(result.counts.items, 10);
    for shuffle in [None, Some(3)] {
        let Parts { validation, test } = open_parts(&named(&["dummy"]), &asked, shuffle).unwrap();
        let texts = |task: &dyn Task| -> Vec<String> {
            let items = task.items();
            items.iter().flat_map(Item::own_texts).map(|text| text.into_owned()).collect()
        };
        let (first, others) = (texts(validation.as_ref()), texts(test.unwrap().as_ref()));
        assert_eq!(first.len(), 2);
        assert_eq!(shuffle.is_none(), first == lines[..2]);
        let mut all = [first, others].concat();
        all.sort_unstable();
        assert_eq!(all, lines);
    }
    std::fs::write(&path, "one\ntwo").unwrap();
    let few = refused(open_parts(&named(&["dummy"]), &asked, None));
    assert_eq!(few, RegistryError::TooFew { count: 2 });
}

#[test]
fn options_that_no_task_reads_are_refused() {
    let text =
        |text: TaskOptions| options(&[], text, HarnessOptions::default(), LaserOptions::default());
    let harness = |harness| options(&[], TaskOptions::default(), harness, LaserOptions::default());
    let laser = |laser| options(&[], TaskOptions::default(), HarnessOptions::default(), laser);
    let of_text = TaskOptions::default;
    let of_files = HarnessOptions::default;
    let of_laser = LaserOptions::default;
    for (asked, option, reader) in [
        (text(TaskOptions { window: 9, stride: 9, ..of_text() }), TaskOption::Window, "text"),
        (text(TaskOptions { stride: 9, ..of_text() }), TaskOption::Stride, "text"),
        (text(TaskOptions { second_half: true, ..of_text() }), TaskOption::SecondHalf, "text"),
        (text(TaskOptions { join: crate::Join::Space, ..of_text() }), TaskOption::Join, "text"),
        (harness(HarnessOptions { shots: Some(1), ..of_files() }), TaskOption::Shots, "arc_easy"),
        (
            harness(HarnessOptions { shots_seed: Some(1), ..of_files() }),
            TaskOption::ShotsSeed,
            "a.yaml",
        ),
        (
            harness(HarnessOptions { bootstrap: Some(1), ..of_files() }),
            TaskOption::Bootstrap,
            "piqa",
        ),
        (
            harness(HarnessOptions { instruction: "Be brief.".into(), ..of_files() }),
            TaskOption::Instruction,
            "sciq",
        ),
        (
            laser(LaserOptions { scoring: Scoring::Compat, ..of_laser() }),
            TaskOption::Scoring,
            "laser_fever",
        ),
        (
            laser(LaserOptions { split: Split::Test, ..of_laser() }),
            TaskOption::Split,
            "laser_fever",
        ),
        (
            laser(LaserOptions { new_tokens: Some(1), ..of_laser() }),
            TaskOption::NewTokens,
            "laser_hotpotqa",
        ),
    ] {
        assert_eq!(asked.given(), [option]);
        let error = refused(open_tasks(&named(&["stsb"]), &asked));
        assert_eq!(error, RegistryError::Unread { option });
        assert!(error.to_string().starts_with(option.flag()) && error.hint().is_some());
        assert!(entry(reader).reads(option) && !entry("stsb").reads(option), "{reader}");
    }
    assert_eq!(plain(&[]).given(), []);
    let explicit =
        HarnessOptions { shots_seed: Some(1234), bootstrap: Some(100_000), ..of_files() };
    assert_eq!(harness(explicit).given(), []);
    // Those of chosen answers generate none.
    assert!(!entry("laser_fever").reads(TaskOption::NewTokens));
    assert!(LaserSet::named("hotpotqa").unwrap().is_generated());
}

#[test]
fn tasks_and_data_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.txt");
    std::fs::write(&path, "one\ntwo\nthree\nfour\nfive").unwrap();
    let none = plain(&[]);
    let both = plain(&[("dummy", &path), ("other", &path)]);
    assert_eq!(refused(open_tasks(&[], &none)), RegistryError::Nothing);
    let twice = refused(open_tasks(&named(&["dummy", "dummy"]), &both));
    assert_eq!(twice, RegistryError::Named { name: "dummy".into() });
    let own = [TaskRequest::text(path.clone(), None), TaskRequest::text(path.clone(), None)];
    assert_eq!(refused(open_tasks(&own, &none)), RegistryError::Twice { name: "text".into() });
    for (name, what) in [("dummy", "data"), ("rotor_paper", "text"), ("stsb", "pairs")] {
        let error = refused(open_tasks(&named(&[name]), &none));
        assert_eq!(error, RegistryError::NoData { task: name.into(), what });
        assert_eq!(error.hint().unwrap(), format!("give --data {name}=FILE"));
    }
    let other = RegistryError::OtherData { task: "other".into() };
    assert_eq!(refused(open_tasks(&named(&["dummy"]), &both)), other);
    assert_eq!(refused(open_parts(&named(&["dummy"]), &both, None)), other);
    let error = refused(open_parts(&named(&["dummy", "text"]), &none, None));
    assert_eq!(error, RegistryError::NotOne { count: 2 });
    assert_eq!(refused(open_parts(&named(&["fever"]), &none, Some(1))), RegistryError::Shuffled);
    let samples = [("dummy".to_owned(), vec![0])].into();
    let asked = options(
        &[("dummy", &path)],
        TaskOptions::default(),
        HarnessOptions { samples, ..HarnessOptions::default() },
        LaserOptions::default(),
    );
    let error = refused(open_tasks(&named(&["dummy"]), &asked));
    assert_eq!(error.to_string(), "--samples names dummy; it applies only to task files");
    let error = refused(open_parts(&named(&["dummy"]), &asked, None));
    assert_eq!(error, RegistryError::NotWithParts { option: TaskOption::Samples });
    let mut data = plain(&[("laser_fever", &path)]);
    data.data[0].split = Some("dev".into());
    let error = refused(open_tasks(&named(&["laser_fever"]), &data));
    assert!(error.to_string().contains("laser_fever:dev") && error.hint().is_some(), "{error}");
}

#[test]
fn texts_and_questions_are_entries_too_and_text_is_all_validation() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("rows.jsonl");
    std::fs::write(&text, json!({"words": "some words"}).to_string()).unwrap();
    let request = TaskRequest::text(text, Some("words".into()));
    let parts = open_parts(std::slice::from_ref(&request), &plain(&[]), None).unwrap();
    assert_eq!((parts.validation.id().as_str(), parts.test.is_none()), ("text", true));
    let path = folder.path().join("questions.jsonl");
    let question = |index: usize| {
        let mut question =
            json!({"question": format!("Q{index}"), "choices": ["a", "b"], "answer": 0});
        if index == 5 {
            question["prompt"] = "p".into();
            question["completion"] = "c".into();
        }
        question.to_string()
    };
    std::fs::write(&path, (0..6).map(question).collect::<Vec<_>>().join("\n")).unwrap();
    let names = |limit| {
        let requests = TaskRequest::questions(&path, limit).unwrap();
        requests.into_iter().map(|request| request.name).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["multiple_choice", "completion"]);
    assert_eq!(names(Some(5)), ["multiple_choice"]);
    let mut requests = vec![request];
    requests.extend(TaskRequest::questions(&path, None).unwrap());
    let opened = open_tasks(&requests, &plain(&[])).unwrap();
    let ids: Vec<String> = opened.all.iter().map(|task| task.id()).collect();
    assert_eq!(ids, ["text", "multiple_choice", "completion"]);
    let parts = open_parts(&requests[1..2], &plain(&[]), None).unwrap();
    assert_eq!((parts.validation.items().len(), parts.test.unwrap().items().len()), (1, 5));
}
