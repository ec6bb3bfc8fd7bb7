//! What calibration text may be, and what results say of it.

use crate::workshop::Workshop;
use serde_json::{Value, json};

/// Questions in the form of PIQA, the same every time.
fn piqa(w: &Workshop, name: &str, range: std::ops::Range<usize>) {
    let row = |i| {
        let goal = format!("Mira saw a boat by the lake and Tom painted the bell at noon {i}");
        json!({"goal": goal, "sol1": "the key is lost", "sol2": "the lantern is lit", "label": i % 2})
    };
    w.write(name, range.map(|i| format!("{}\n", row(i))).collect::<String>());
}

/// A compression by one small fit.
const COMPRESS: &str = "compress model --rank 1 --roles output --layers 0 --force -o out";

/// How much text is enough for it.
const FEW: &str = "num_tokens=300,seq_len=16";

fn record(found: &Value) -> &Value {
    &found["calibration"]
}

#[test]
fn results_tell_where_calibration_text_is_from() {
    let w = Workshop::new();
    piqa(&w, "train.jsonl", 0..40);
    let of = |dataset: &str| {
        let (text, rest) = dataset.split_once(' ').unwrap_or((dataset, ""));
        let found = w.ok_json(&format!("{COMPRESS} --calibration {text}:{FEW} {rest}"));
        assert_eq!(w.json("out/results.json")["calibration"], *record(&found), "{dataset}");
        record(&found).clone()
    };
    let file = of("calibration.jsonl");
    assert_eq!((&file["kind"], &file["name"]), (&json!("file"), &json!("calibration.jsonl")));
    assert_eq!(file["data"][0]["sha256"].as_str().unwrap().len(), 64);
    assert!((100..=300).contains(&file["tokens"].as_u64().unwrap()), "{file}");
    let task = of("task:piqa --data piqa:train=train.jsonl");
    assert_eq!((&task["kind"], &task["name"]), (&json!("task"), &json!("piqa")));
    let read =
        json!({"split": "train", "path": "train.jsonl", "sha256": task["data"][0]["sha256"]});
    assert_eq!(task["data"], json!([read]));
    let own = of("samples --seed 3");
    assert_eq!((&own["kind"], &own["seed"]), (&json!("samples"), &json!(3)));
    assert!(own.get("data").is_none());
    assert_eq!(of("samples --seed 3"), own);
    assert_ne!(of("samples --seed 4")["fingerprint"], own["fingerprint"]);
    let told = w.ok(&format!("{COMPRESS} --calibration samples:{FEW} --dry-run"));
    assert!(told.contains("time: about"), "{told}");
}

#[test]
fn a_task_may_calibrate_and_another_part_of_it_evaluate() {
    let w = Workshop::new();
    piqa(&w, "train.jsonl", 0..30);
    piqa(&w, "valid.jsonl", 100..120);
    let both = "--calibration task:piqa --data piqa:train=train.jsonl --data piqa=valid.jsonl --tasks piqa";
    let found = w.ok_json(&format!("{COMPRESS} {both}"));
    assert_eq!(record(&found)["data"][0]["split"], "train");
    assert_eq!(found["results"][0]["counts"]["items"], 20);
    // Only the calibration reads the data of its task.
    w.ok(&format!(
        "{COMPRESS} --calibration task:piqa:{FEW} --data piqa:train=train.jsonl --tasks questions --data questions=questions.jsonl"
    ));
    w.fails(
        &format!("{COMPRESS} --calibration task:piqa:{FEW} --data piqa=valid.jsonl --data pika=train.jsonl --tasks questions --data questions=questions.jsonl"),
        2,
        &["--data names pika"],
    );
}

#[test]
fn documents_of_the_evaluation_in_the_calibration_text_are_told() {
    let w = Workshop::new();
    piqa(&w, "valid.jsonl", 0..5);
    let same = "--calibration task:piqa --data piqa=valid.jsonl --tasks piqa";
    let told = w.run(&format!("{COMPRESS} {same}"));
    let warning = "warning: piqa: 5 of 5 documents share 13 consecutive words, or all of theirs, \
                   with the calibration text, so its scores may be too good";
    assert!(told.code == Some(0) && told.stderr.contains(warning), "{}", told.stderr);
    assert!(told.stdout.contains("of task piqa (validation), with their right answers"));
    let shared = json!([{"task": "piqa", "documents": 5, "overlapping": 5, "words": 13}]);
    assert_eq!(w.json("out/results.json")["calibration"]["overlap"], shared);
    let other = w.run(&format!(
        "{COMPRESS} --calibration samples:{FEW} --data piqa=valid.jsonl --tasks piqa"
    ));
    assert!(other.code == Some(0) && !other.stderr.contains("warning"), "{}", other.stderr);
}

#[test]
fn a_search_calibrates_on_samples_and_on_tasks() {
    let w = Workshop::new();
    piqa(&w, "train.jsonl", 0..40);
    let args = "search model --roles fc_in --layers 0 --ranks 1 --text text.jsonl --evaluation window=8 \
                --force -o out";
    let few = "num_tokens=600,seq_len=16";
    let found = w.ok_json(&format!("{args} --calibration samples:{few} --seed 2"));
    assert_eq!((&record(&found)["kind"], &record(&found)["seed"]), (&json!("samples"), &json!(2)));
    assert!(w.text("out/report.md").contains("documents written by the model"));
    let found =
        w.ok_json(&format!("{args} --calibration task:piqa:{few} --data piqa:train=train.jsonl"));
    assert_eq!(record(&found)["name"], "piqa");
    assert_eq!(w.json("out/results.json")["calibration"], *record(&found));
}

#[test]
fn calibration_text_that_cannot_be_is_refused_before_any_work() {
    let w = Workshop::new();
    w.write("pairs.tsv", "a\tb\tc\td\t1.0\tA boat.\tA ship.\n".repeat(5));
    for (dataset, code, words) in [
        ("task:pika", 2, &["no task is called \"pika\""][..]),
        ("task:piqa", 1, &["--data piqa:train=FILE"]),
        ("task:stsb --data stsb=pairs.tsv", 2, &["stsb has no correct answers", "--calibration"]),
        ("task:multiple_choice", 2, &["--data multiple_choice=FILE"]),
        ("combination", 1, &["--data piqa:train=FILE"]),
        (
            "combination:num_tokens=300,seq_len=64",
            2,
            &["4 texts of 64", "combination:num_tokens=384"],
        ),
        ("samples --text-field body", 2, &["--text-field body: no text"]),
        ("samples:seq_len=300", 2, &["300 tokens", "256"]),
    ] {
        let before = w.names();
        let given = match dataset.split_once(' ') {
            _ if dataset.contains("seq_len") => dataset.to_owned(),
            Some((text, rest)) => format!("{text}:{FEW} {rest}"),
            None => format!("{dataset}:{FEW}"),
        };
        let told = w.fails(&format!("{COMPRESS} --calibration {given}"), code, words);
        assert!(!told.contains("fitting"), "{told}");
        assert_eq!(w.names(), before, "{dataset}");
    }
}

const RECIPE: &str = "
version: 1
title: Rows
model: model
calibration: {dataset: task:piqa, num_tokens: 300, seq_len: 16}
text: text.jsonl
limit: 1
evaluation: {window: 16}
data: [\"piqa:train=train.jsonl\"]
keep: []
no_controls: true
jobs:
  - compare: {layers: 0, roles: output, methods: [{method: low_rank, size: rank=1, label: LR1}]}
";

#[test]
fn comparisons_of_recipes_calibrate_on_tasks() {
    let w = Workshop::new();
    piqa(&w, "train.jsonl", 0..40);
    w.write("own.yaml", RECIPE);
    w.ok("run -r own.yaml -o out");
    let provenance = &w.json("out/compare-1/result.json")["provenance"]["data"];
    let calibration =
        provenance.as_array().unwrap().iter().find(|one| one["purpose"] == "calibration");
    assert_eq!(calibration.unwrap()["path"], "task:piqa", "{provenance}");
    w.write("own.yaml", RECIPE.replace("[\"piqa", "[\"pika=train.jsonl\", \"piqa"));
    w.fails("run -r own.yaml -o other", 2, &["--data names pika, which is not a task"]);
}
