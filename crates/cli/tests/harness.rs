//! Tasks of every form on the built-in model, against what lm-evaluation-harness replied and
//! scored: `tools/golden/harness_samples.py` makes `testdata/harness`.

use crate::workshop::Workshop;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Forms that there must be.
const FORMS: usize = 5;

fn close(found: f64, wanted: f64, what: &str) {
    assert!(
        (found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0),
        "{what}: {found}, not {wanted}"
    );
}

/// All numbers in a value, those in texts included, in their order.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::String(text) => text.parse().into_iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            value.as_f64().into_iter().collect()
        }
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Contexts and continuations, in the order in which they were asked.
fn asked(sample: &Value) -> Vec<Value> {
    let named = &sample["arguments"];
    match named.as_array() {
        Some(items) => items.clone(),
        None => {
            let of = |index: usize| named.get(format!("gen_args_{index}"));
            let list = |one: &Value| match one.get("arg_1") {
                Some(second) => json!([one["arg_0"], second]),
                None => json!([one["arg_0"]]),
            };
            (0..).map_while(of).map(list).collect()
        }
    }
}

fn check(name: &str, golden: &Value) {
    let w = Workshop::new();
    let rows = golden["rows"].as_array().unwrap();
    w.write("rows.jsonl", rows.iter().map(|row| format!("{row}\n")).collect::<String>());
    let mut task = golden["task"].clone();
    task["dataset_kwargs"] = json!({"data_files": {"test": "rows.jsonl"}});
    w.write("task.yaml", task.to_string());
    let result = w.ok_json(
        "eval pocket --tasks task.yaml --log-samples samples --bootstrap-iters 1000 --quiet",
    );
    for (key, wanted) in golden["results"].as_object().unwrap() {
        let found = &result["results"][name][key];
        match wanted.as_f64() {
            Some(wanted) if key.contains(',') => {
                close(found.as_f64().unwrap_or(f64::NAN), wanted, &format!("{name}, {key}"));
            }
            _ if key.contains(',') => assert_eq!(found, wanted, "{name}, {key}"),
            _ => {}
        }
    }
    let mut samples = lines(&w.text(&format!("samples/samples_{name}.jsonl")));
    samples.sort_by_key(|s| (s["filter"].as_str().unwrap().to_owned(), s["doc_id"].as_u64()));
    let golden = golden["samples"].as_array().unwrap();
    assert_eq!(samples.len(), golden.len(), "{name}");
    for (found, wanted) in samples.iter().zip(golden) {
        let place = format!("{name}, document {}", wanted["doc_id"]);
        for (own, other) in asked(found).iter().zip(asked(wanted)) {
            assert_eq!(own[0], other[0], "{place}: context");
            if other[1].is_string() {
                assert_eq!(own[1], other[1], "{place}: continuation");
            }
        }
        assert_eq!(asked(found).len(), asked(wanted).len(), "{place}");
        let (own, other) = (numbers(&found["resps"]), numbers(&wanted["resps"]));
        assert_eq!(own.len(), other.len(), "{place}: {found}");
        own.iter().zip(&other).for_each(|(own, other)| close(*own, *other, &place));
        for metric in wanted["metrics"].as_array().unwrap() {
            let metric = metric.as_str().unwrap();
            let (own, other) = (numbers(&found[metric]), numbers(&wanted[metric]));
            assert_eq!(own.len(), other.len(), "{place}, {metric}");
            own.iter().zip(&other).for_each(|(own, other)| close(*own, *other, metric));
        }
        if name == "generate_until" {
            assert_eq!(found["resps"], wanted["resps"], "{place}");
        }
    }
}

#[test]
fn samples_of_every_form_are_those_of_the_harness() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/harness");
    let mut forms = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let golden: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        check(path.file_stem().unwrap().to_str().unwrap(), &golden);
        forms += 1;
    }
    assert_eq!(forms, FORMS);
}
