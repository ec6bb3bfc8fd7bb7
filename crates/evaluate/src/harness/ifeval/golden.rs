//! Golden answers: every JSON file in `ifeval` of `$LINWRIGHT_GOLDEN`, by default `testdata/golden`
//! of the workspace, made by `tools/golden/ifeval.py` with the harness's own code.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden answers"
)]

use super::catalogue::KINDS;
use super::{Fields, Measured, score};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Golden {
    documents: Vec<Document>,
}

#[derive(Deserialize)]
struct Document {
    fields: Fields,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    answer: String,
    strict: Vec<bool>,
    loose: Vec<bool>,
}

fn folder() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    std::env::var_os("LINWRIGHT_GOLDEN").map_or(own, PathBuf::from).join("ifeval")
}

fn documents() -> Vec<Document> {
    let folder = folder();
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let golden: Golden = serde_json::from_slice(&fs::read(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        golden.documents
    };
    paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .flat_map(read)
        .collect()
}

#[test]
fn golden_answers_are_judged_as_by_the_harness() {
    let (mut judged, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for document in documents() {
        let names = document.fields["instruction_id_list"].as_array().unwrap();
        for answer in &document.answers {
            let outcome = score(&document.fields, &answer.answer)
                .unwrap_or_else(|error| panic!("{:?}: {error}", document.fields));
            for (metric, want) in [("strict", &answer.strict), ("loose", &answer.loose)] {
                let Measured::Truths(found) = &outcome[&format!("inst_level_{metric}_acc")] else {
                    panic!("{outcome:?}")
                };
                let all = Measured::Number(f64::from(u8::from(found.iter().all(|f| *f))));
                assert_eq!(outcome[&format!("prompt_level_{metric}_acc")], all);
                assert_eq!(found.len(), want.len());
                for (index, name) in names.iter().enumerate() {
                    *judged.entry(name.as_str().unwrap().to_owned()).or_default() += 1;
                    if found[index] != want[index] {
                        let arguments = &document.fields["kwargs"][index];
                        wrong.push(format!("{metric} {name} {arguments} {:?}", answer.answer));
                    }
                }
            }
        }
    }
    let all: usize = judged.values().sum();
    assert!(wrong.is_empty(), "{} of {all} differ:\n{}\n{judged:?}", wrong.len(), wrong.join("\n"));
}

#[test]
fn golden_answers_follow_and_break_every_kind() {
    let documents = documents();
    for (name, _) in KINDS {
        let judged = |truth: bool| {
            documents.iter().any(|document| {
                let names = document.fields["instruction_id_list"].as_array().unwrap();
                let mut places = names.iter().enumerate().filter(|(_, known)| known == name);
                places.any(|(index, _)| document.answers.iter().any(|a| a.strict[index] == truth))
            })
        };
        assert!(judged(true) && judged(false), "{name}");
    }
}
