//! Golden vectors of the metrics: every set `<stem>.json` of the folder `laser-sfsd` of
//! `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "an environment variable gives the folder of the golden vectors"
)]

use super::figures::{Row, Scores};
use super::words::{Overlap, contains, folded, overlap};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of other golden vectors, where one is given.
fn given() -> Option<PathBuf> {
    std::env::var_os("LINWRIGHT_GOLDEN").map(PathBuf::from)
}

/// Smallest number of compared values, in a set of the repository and in another set.
fn least(of_ours: usize, of_others: usize) -> usize {
    if given().is_none() { of_ours } else { of_others }
}

/// Golden sets with a table, and their names; all sets of the repository have it.
fn sets(table: &str) -> Vec<(String, Value)> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden");
    let root = given().unwrap_or(default).join("laser-sfsd");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let set: Value = serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        (path.display().to_string(), set)
    };
    // JSON files without the table are notes or other sets.
    let sets: Vec<_> = paths.into_iter().map(read).collect();
    let all = sets.iter().filter(|(_, set)| set["cases"].is_array()).count();
    let sets: Vec<_> = sets.into_iter().filter(|(_, set)| set[table].is_object()).collect();
    assert!(sets.len() >= least(all, 1), "no golden set with {table} in {}", root.display());
    sets
}

fn number(value: &Value, place: &str) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{place}: expected a number, found {value}"))
}

fn near(found: f64, want: &Value, place: &str, tol: f64) {
    let want = number(want, place);
    assert!((found - want).abs() <= tol * want.abs().max(1.0), "{place}: {found}, not {want}");
}

/// F1 of a row, as a number or with precision and recall, if present.
fn overlap_of(row: &Value, place: &str) -> Option<Overlap> {
    let found = ["f1", "f1_score", "f1pr_score"].iter().find_map(|name| row.get(name));
    let found = found.filter(|value| !value.is_null())?;
    let f1 = number(found.get("f1").unwrap_or(found), place);
    Some(Overlap { f1, precision: 0.0, recall: 0.0 })
}

fn row_of(row: &Value, place: &str) -> Row {
    let nats = row["answer_log_prob"].as_f64();
    let top =
        row["top"].as_object().map(|top| ["1", "5", "10"].map(|k| number(&top[k], place) == 1.0));
    Row {
        right: row["is_correct"].as_bool().unwrap_or_else(|| panic!("{place}: is_correct")),
        answer: nats.map(|nats| (nats, number(&row["answer_len"], place) as usize)),
        overlap: overlap_of(row, place),
        top,
    }
}

#[test]
fn golden_dataset_metrics() {
    for (path, set) in sets("dataset_metrics") {
        let golden = &set["dataset_metrics"];
        let tol = number(&golden["tol"], &path);
        let rows = golden["rows"].as_array().expect("rows").iter();
        let rows: Vec<Row> = rows.map(|row| row_of(row, &path)).collect();
        let (figures, want) = (Scores::of(&rows), &golden["result"]);
        let of_top = |place: usize| figures.top.map(|top| 100.0 * top[place]);
        let all = [
            ("0-1 correctness", Some(100.0 * figures.accuracy)),
            ("mean log prob", figures.log_loss.map(|loss| -loss)),
            ("perplexity", figures.perplexity),
            ("dataset_size", Some(rows.len() as f64)),
            ("total answer tokens", Some(figures.tokens as f64)),
            ("num log probs", Some(figures.answers as f64)),
            ("top-1 accuracy", of_top(0)),
            ("top-5 accuracy", of_top(1)),
            ("top-10 accuracy", of_top(2)),
        ];
        let mut compared = 0;
        for (name, found) in all {
            // A number may be missing from a set.
            if !want[name].is_null() {
                let found = found.unwrap_or_else(|| panic!("{path}: no {name}"));
                near(found, &want[name], &path, tol);
                compared += 1;
            }
        }
        assert!(compared >= least(9, 1), "{path}: {compared} metrics");
        match &want["avg f1 score"] {
            Value::Null => assert_eq!(figures.f1, None, "{path}"),
            f1 => near(figures.f1.expect("f1"), f1, &path, tol),
        }
    }
}

#[test]
fn golden_metrics_f1() {
    for (path, set) in sets("metrics_f1") {
        let golden = &set["metrics_f1"];
        let tol = number(&golden["tol"], &path);
        for case in golden["cases"].as_array().expect("cases") {
            let text = |name: &str| case[name].as_str().expect("a text");
            let (written, answer) = (text("generation"), text("answer"));
            let found = overlap(written, answer, true);
            near(found.f1, &case["f1"], &path, tol);
            near(found.precision, &case["precision"], &path, tol);
            near(found.recall, &case["recall"], &path, tol);
            assert_eq!(contains(written, answer), case["generation_match"], "{path}: {case}");
            let exact = folded(written) == folded(answer);
            assert_eq!(exact, case["exact_match"], "{path}: {case}");
        }
    }
}
