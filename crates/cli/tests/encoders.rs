//! Encoders are compressed, cut, swept and composed as decoders are, and judged by how their
//! vectors rank pairs of sentences.

use crate::families::{Tiny, pairs};
use crate::workshop::Workshop;
use serde_json::Value;

const JUDGED: &str = "-t stsb --data stsb=pairs.tsv";

/// A workshop with an encoder without a head in `bert-headless`.
pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    let tiny = Tiny::all().into_iter().find(|tiny| tiny.name == "bert-headless").unwrap();
    tiny.write(&w);
    w.write("pairs.tsv", pairs(60));
    w
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Spearman's correlation in a list of results.
fn spearman(results: &Value) -> f64 {
    let metrics = results[0]["metrics"].as_array().unwrap();
    number(&metrics.iter().find(|m| m["name"] == "cosine_spearman").unwrap()["value"])
}

/// The same of a saved model, by `eval`.
fn evaluated(w: &Workshop, model: &str) -> f64 {
    let result = w.ok_json(&format!("eval {model} {JUDGED}"));
    number(&result["results"]["stsb"]["cosine_spearman,none"])
}

#[test]
fn an_encoder_is_compressed_and_judged_by_spearman_before_and_after() {
    let w = workshop();
    let plan =
        "compress bert-headless --rank 2 --dataset calibration.jsonl --num-tokens 600 --seq-len 32";
    let json = w.ok_json(&format!("{plan} {JUDGED} -o out"));
    assert_eq!(spearman(&json["dense"]), evaluated(&w, "bert-headless"));
    assert!((spearman(&json["results"]) - evaluated(&w, "out")).abs() < 1e-6, "{json}");
    let compared = &json["comparisons"][1];
    assert_eq!(compared["metric"], "cosine_spearman");
    let difference = spearman(&json["results"]) - spearman(&json["dense"]);
    assert!((number(&compared["difference"]) - difference).abs() < 1e-9, "{compared}");
    for speed in ["tokens_per_second_before", "tokens_per_second"] {
        assert!(number(&json["summary"][speed]) > 0.0, "{json}");
    }
    let shown = w.ok(&format!("{plan} {JUDGED} -o again"));
    assert!(shown.contains("cosine_spearman") && shown.contains("95 % interval"), "{shown}");
    // Without a task nothing is judged, and nothing is said of it.
    let json = w.ok_json(&format!("{plan} -o third"));
    assert_eq!(json["results"].as_array().unwrap().len(), 0);
}

#[test]
fn an_encoder_is_cut_swept_and_composed_by_spearman() {
    let w = workshop();
    let cut = w.ok_json(&format!(
        "laser bert-headless --no-cache --lname mlp --lnum 1 --rank 2 {JUDGED} -o cut"
    ));
    assert_eq!(spearman(&cut["dense"]), evaluated(&w, "bert-headless"));
    assert!((spearman(&cut["results"]) - evaluated(&w, "cut")).abs() < 1e-6, "{cut}");
    let grid = "bert-headless --no-cache --lname fc_in,fc_out --rank 1,8";
    let swept = w.ok_json(&format!("sweep {grid} {JUDGED} --shuffle 1 -o run"));
    let sweep = &swept["sweep"];
    assert_eq!(sweep["objective"]["metric"], "cosine_spearman");
    let items = |part: &Value| number(&part["counts"]["items"]);
    assert_eq!((items(&sweep["dense"]), items(&sweep["test"]["dense"])), (12.0, 48.0));
    assert_eq!(sweep["cells"].as_array().unwrap().len(), 8);
    let again = w.ok_json(&format!("sweep {grid} {JUDGED} --shuffle 1 -o run"));
    assert_eq!(again["sweep"], swept["sweep"]);
    let alone = w.ok_json(&format!("sweep {grid} {JUDGED} --shuffle 1 -o alone --no-share"));
    assert_eq!(alone["sweep"]["best"], sweep["best"]);
    let composed = w.ok_json(&format!("compose {grid} {JUDGED} --shuffle 1 -o composed"));
    assert_eq!(composed["compose"]["steps"].as_array().unwrap().len(), 4);
    let few = format!("sweep {grid} {JUDGED} --limit 12 -o few");
    w.fails(&few, 1, &["stsb", "four pairs"]);
}
