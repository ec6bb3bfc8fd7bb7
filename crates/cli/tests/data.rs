//! Where `eval` gets its rows, which of them it takes, and what it says of them.

use crate::workshop::{Outcome, Workshop};
use serde_json::{Value, json};
use std::path::PathBuf;

#[cfg(feature = "parquet")]
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// A task over a set of the hub.
const TASK: &str = "task: boats\ndataset_path: owner/BoatQuestions\ndataset_name: Easy\n\
                    training_split: train\ntest_split: test\noutput_type: multiple_choice\n\
                    doc_to_text: \"{{question}} A:\"\ndoc_to_target: answer\n\
                    doc_to_choice: [Tom, Mira]\n";

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/columns").join(name)
}

fn workshop() -> Workshop {
    let w = Workshop::new();
    let row = |i: usize| json!({"id": format!("q{i}"), "question": format!("Who saw boat {i}?"), "answer": i % 2});
    let rows: Vec<String> = (0..4).map(|i| row(i).to_string()).collect();
    w.write("rows.jsonl", rows.join("\n"));
    w.write("boats.yaml", TASK);
    w
}

#[test]
fn documents_are_chosen_by_index() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml --data boats=rows.jsonl";
    let result = w.ok_json(&format!("{args} --samples {{\"boats\":[3,1]}} --log-samples samples"));
    assert_eq!(result["n-samples"]["boats"], json!({"original": 4, "effective": 2}));
    let samples = w.text("samples/samples_boats.jsonl");
    let ids: Vec<Value> = samples
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["doc_id"].clone())
        .collect();
    assert_eq!(ids, [1, 3]);
    w.write("samples.json", "{\"boats\": [0]}");
    let result = w.ok_json(&format!("{args} --samples samples.json"));
    assert_eq!(result["n-samples"]["boats"]["effective"], 1);
    for (samples, code, want) in [
        ("{\"boats\":[4]}", 1, "samples name document 4, there are 0 to 3"),
        (
            "{\"boat\":[0]}",
            2,
            "names boat, which is not a task of this command; its tasks are boats",
        ),
        ("{\"boats\":[-1]}", 2, "expected indices from zero"),
        ("{}", 2, "names no task"),
        ("nowhere.json", 1, "nowhere.json"),
        ("samples.json --limit 1", 2, "--limit"),
    ] {
        w.fails(&format!("{args} --samples {samples}"), code, &[want]);
    }
    let args =
        "eval model --tasks questions --data questions=questions.jsonl --samples samples.json";
    w.fails(args, 2, &["applies only to task files"]);
}

#[test]
fn every_file_is_recorded_with_its_checksum() {
    let w = workshop();
    let args =
        "eval model --tasks boats.yaml --data boats=rows.jsonl --data boats:train=rows.jsonl";
    let result = w.ok_json(&format!("{args} --num-fewshot 1"));
    let data = result["linwright"]["data"].as_array().unwrap();
    let paths: Vec<&str> = data.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["boats, test: rows.jsonl", "boats, train: rows.jsonl"]);
    let sha256 = linwright::run::sha256_hex(&w.read("rows.jsonl"));
    assert!(data.iter().all(|one| one["sha256"] == sha256.as_str()), "{data:?}");
}

#[test]
fn calibration_text_in_the_questions_is_warned_of() {
    let w = workshop();
    let text = w.text("text.jsonl");
    w.write("leaked.jsonl", text.lines().next().unwrap());
    let args = "eval model --text text.jsonl --overlap-with leaked.jsonl calibration.jsonl";
    let outcome = w.run(&format!("{args} --json"));
    let stderr = outcome.stderr.clone();
    let result: Value = serde_json::from_str(&outcome.succeeded(args)).unwrap();
    let overlap = &result["linwright"]["overlap"]["text"];
    assert!(overlap["overlapping"].as_u64().unwrap() >= 1, "{overlap}");
    assert_eq!((&overlap["documents"], &overlap["words"]), (&json!(6), &json!(13)));
    assert_eq!(overlap["first"][0]["calibration"], "leaked.jsonl, line 1");
    assert!(stderr.contains("warning: text: ") && stderr.contains("too good"), "{stderr}");
    let sources: Vec<&Value> = result["linwright"]["data"].as_array().unwrap().iter().collect();
    assert!(sources.iter().any(|one| one["path"] == "calibration.jsonl"), "{sources:?}");
    let none = {
        w.write(
            "other.txt",
            "Nothing of this stands anywhere else, whatever one may look for in it at all.",
        );
        w.ok_json("eval model --text text.jsonl --overlap-with other.txt --limit 1")
    };
    assert_eq!(none["linwright"]["overlap"]["text"]["overlapping"], 0);
    let without = w.ok_json("eval model --text text.jsonl --limit 1");
    assert_eq!(without["linwright"]["overlap"], Value::Null);
}

#[test]
fn repeated_ids_and_absent_choices_are_said() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml --data boats=rows.jsonl";
    let rows = w.text("rows.jsonl");
    w.write("rows.jsonl", rows.replace("q2", "q0"));
    let outcome = w.run(&format!("{args} --json"));
    let want = "rows.jsonl, line 3: id \"q0\" is that of line 1 as well";
    assert!(outcome.stderr.contains(want), "{}", outcome.stderr);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let health = result["linwright"]["health"].to_string();
    assert!(health.contains("is that of line 1 as well"), "{health}");
    w.write("rows.jsonl", rows.replace("\"answer\":1", "\"answer\":2"));
    w.fails(args, 1, &["rows.jsonl, line 2: doc_to_target of task boats: is 2", "0 to 1"]);
    w.write("rows.jsonl", [rows.as_bytes(), b"\n{\"question\": \"\xff\"}"].concat());
    w.fails(args, 1, &["rows.jsonl, line 5: byte", "is not UTF-8"]);
    let questions = w.text("questions.jsonl").replace("\"band\"", "\"id\":7,\"band\"");
    w.write("questions.jsonl", questions);
    let args = "eval model --tasks questions --data questions=questions.jsonl";
    w.fails(args, 1, &["questions.jsonl, line 2: id 7 already occurs in line 1"]);
}

/// With the caches of Hugging Face as they are in `testdata`.
fn with_cache(w: &Workshop, args: &str) -> Outcome {
    let mut command = w.command(args);
    command.env("HF_DATASETS_CACHE", testdata("cache"));
    Outcome::of(command)
}

#[cfg(feature = "parquet")]
#[test]
fn a_set_of_the_cache_is_found_by_its_name() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml --num-fewshot 2";
    let result = with_cache(&w, &format!("{args} --json")).succeeded(args);
    let result: Value = serde_json::from_str(&result).unwrap();
    let given = "eval model --tasks boats.yaml --data boats=rows.jsonl --limit 4";
    let alone = with_cache(&w, "eval model --tasks boats.yaml --json").succeeded("alone");
    let alone: Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(alone["results"], w.ok_json(given)["results"], "the same rows, from another place");
    let data = result["linwright"]["data"].as_array().unwrap();
    let paths: Vec<&str> = data.iter().map(|one| one["path"].as_str().unwrap()).collect();
    let file = |split: &str, name: &str| {
        format!("boats, {split}: owner/BoatQuestions@{COMMIT}/boat_questions-{name}.arrow")
    };
    let want = [
        file("test", "test"),
        file("train", "train-00000-of-00002"),
        file("train", "train-00001-of-00002"),
    ];
    assert_eq!(paths, want);
    // Columns may be given, too.
    std::fs::copy(testdata("rows.parquet"), w.path("rows.parquet")).unwrap();
    w.write("boats.yaml", "task: boats\ndataset_path: parquet\ndataset_kwargs: {data_files: {test: rows.parquet}}\n\
                           test_split: test\noutput_type: multiple_choice\ndoc_to_text: \"{{id}} {{when}}\"\n\
                           doc_to_target: 0\ndoc_to_choice: \"{{choices.text}}\"\n");
    let result = w.ok_json("eval model --tasks boats.yaml");
    assert_eq!(result["n-samples"]["boats"]["original"], 4);
    let whole = w.read("rows.parquet");
    w.write("rows.parquet", &whole[..whole.len() / 2]);
    w.fails("eval model --tasks boats.yaml", 1, &["rows.parquet cannot be read as Parquet"]);
}

#[cfg(any(not(feature = "parquet"), clippy))]
#[test]
fn a_build_without_columns_says_how_to_get_them() {
    let w = workshop();
    let want = ["boat_questions-test.arrow", "without Arrow files", "--features parquet"];
    with_cache(&w, "eval model --tasks boats.yaml").failed("a cache", 1, &want);
    std::fs::copy(testdata("rows.parquet"), w.path("rows.parquet")).unwrap();
    let args = "eval model --tasks boats.yaml --data boats=rows.parquet";
    w.fails(args, 1, &["rows.parquet", "without Parquet files", "--features parquet"]);
}

#[test]
fn a_set_that_is_nowhere_says_what_to_do() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml";
    w.fails(args, 1, &["owner/BoatQuestions", "is not in the cache", "--data boats:test=FILE"]);
    w.write("boats.yaml", TASK.replace("Easy", "Hard"));
    with_cache(&w, args).failed(args, 1, &["owner/BoatQuestions", "is not in the cache"]);
    w.write("boats.yaml", TASK.replace("test_split: test", "test_split: dev"));
    with_cache(&w, args).failed(args, 1, &["Easy has no split dev; there are test, train"]);
}
