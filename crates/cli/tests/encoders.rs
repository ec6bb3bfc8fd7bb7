//! Encoders are compressed, cut, swept and composed as decoders are, and judged by how their
//! vectors rank pairs of sentences.

use crate::families::{Tiny, pairs};
use crate::workshop::Workshop;
use serde_json::Value;
use std::fs;

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
        "compress bert-headless --rank 2 --calibration calibration.jsonl:num_tokens=600,seq_len=32";
    let json = w.ok_json(&format!("{plan} {JUDGED} -o out"));
    assert_eq!(spearman(&json["dense"]), evaluated(&w, "bert-headless"));
    assert!((spearman(&json["results"]) - evaluated(&w, "out")).abs() < 1e-6, "{json}");
    let compared = &json["comparisons"][1];
    assert_eq!(compared["metric"], "cosine_spearman");
    let difference = spearman(&json["results"]) - spearman(&json["dense"]);
    assert!((number(&compared["difference"]) - difference).abs() < 1e-9, "{compared}");
    for speed in ["tokens_per_second_before", "tokens_per_second"] {
        assert!(number(&json[speed]) > 0.0, "{json}");
    }
    let shown = w.ok(&format!("{plan} {JUDGED} -o again"));
    assert!(shown.contains("cosine_spearman") && shown.contains("95 % interval"), "{shown}");
    // Without a task nothing is judged, and nothing is said of it.
    let json = w.ok_json(&format!("{plan} -o third"));
    assert_eq!(json["results"].as_array().unwrap().len(), 0);
}

#[test]
fn the_transformer_of_an_encoder_may_have_a_folder() {
    let w = workshop();
    let module = |index: usize, path: &str, kind: &str| {
        let class = format!("sentence_transformers.models.{kind}");
        serde_json::json!({"idx": index, "name": index.to_string(), "path": path, "type": class})
    };
    let pooling = module(1, "1_Pooling", "Pooling");
    let list = |path: &str| Value::Array(vec![module(0, path, "Transformer"), pooling.clone()]);
    let folder = |name: &str, inner: &str, path: &str| {
        fs::create_dir_all(w.path(&format!("{name}/1_Pooling"))).unwrap();
        fs::create_dir_all(w.path(&format!("{name}/{inner}"))).unwrap();
        for entry in fs::read_dir(w.path("bert-headless")).unwrap() {
            let from = entry.unwrap().path();
            let file = from.file_name().unwrap().to_str().unwrap();
            fs::copy(&from, w.path(&format!("{name}/{inner}")).join(file)).unwrap();
        }
        w.write(&format!("{name}/modules.json"), list(path).to_string());
        w.write(&format!("{name}/1_Pooling/config.json"), r#"{"pooling_mode": "cls"}"#);
        w.write(&format!("{name}/{inner}/sentence_bert_config.json"), r#"{"max_seq_length": 12}"#);
    };
    folder("flat", ".", "");
    folder("old", "0_Transformer", "0_Transformer");
    let whole = |model: &str| w.ok_json(&format!("eval {model} {JUDGED}"))["results"].clone();
    assert_eq!(whole("old"), whole("flat"));
    assert_ne!(whole("old"), whole("bert-headless"), "pooling and length");
    assert_eq!(
        w.ok_json("inspect old --spectra")["totals"],
        w.ok_json("inspect flat --spectra")["totals"]
    );
    let plan = "--rank 2 --calibration calibration.jsonl:num_tokens=600,seq_len=32";
    for model in ["old", "flat"] {
        for form in ["native", "dense"] {
            w.ok(&format!("compress {model} {plan} --form {form} -o {model}-{form}"));
        }
        w.ok(&format!("export {model}-native --form factored --shard-size 20KB -o {model}-out"));
    }
    for made in ["native", "dense", "out"] {
        let [old, flat] = ["old", "flat"].map(|model| format!("{model}-{made}"));
        assert_eq!(whole(&old), whole(&flat), "{made}");
        let names = w.names();
        let own = ["0_Transformer/config.json", "0_Transformer/tokenizer.json", "modules.json"];
        for name in own.into_iter().chain(["1_Pooling/config.json", "README.md"]) {
            let name = format!("{old}/{name}");
            assert!(w.path(&name).is_file(), "{name}: {names:?}");
        }
        for name in
            ["config.json", "tokenizer.json", "sentence_bert_config.json", "model.safetensors"]
        {
            assert!(!w.path(&format!("{old}/{name}")).exists(), "{old}/{name}");
        }
    }
    // A change in the folder is a change of the model.
    fs::remove_file(w.path("old/0_Transformer/model.safetensors")).unwrap();
    w.fails(&format!("eval old {JUDGED}"), 1, &["old/0_Transformer"]);
}

#[test]
fn an_encoder_is_cut_swept_and_composed_by_spearman() {
    let w = workshop();
    let cut = w.ok_json(&format!(
        "laser bert-headless --no-cache --lname mlp --lnum 1 --rank 2 {JUDGED} -o cut"
    ));
    assert_eq!(spearman(&cut["dense"]), evaluated(&w, "bert-headless"));
    assert!((spearman(&cut["results"]) - evaluated(&w, "cut")).abs() < 1e-6, "{cut}");
    let grid = "bert-headless --no-cache --roles fc_in,fc_out --rank 1,8";
    let swept = w.ok_json(&format!("sweep {grid} {JUDGED} --evaluation shuffle=1 -o run"));
    let sweep = &swept["sweep"];
    assert_eq!(sweep["objective"]["metric"], "cosine_spearman");
    let items = |part: &Value| number(&part["counts"]["items"]);
    assert_eq!((items(&sweep["dense"]), items(&sweep["test"]["dense"])), (12.0, 48.0));
    assert_eq!(sweep["cells"].as_array().unwrap().len(), 8);
    let again = w.ok_json(&format!("sweep {grid} {JUDGED} --evaluation shuffle=1 -o run"));
    assert_eq!(again["sweep"], swept["sweep"]);
    let alone =
        w.ok_json(&format!("sweep {grid} {JUDGED} --evaluation shuffle=1 -o alone --no-share"));
    assert_eq!(alone["sweep"]["best"], sweep["best"]);
    let composed =
        w.ok_json(&format!("compose {grid} {JUDGED} --evaluation shuffle=1 -o composed"));
    assert_eq!(composed["compose"]["steps"].as_array().unwrap().len(), 4);
    let few = format!("sweep {grid} {JUDGED} --limit 12 -o few");
    w.fails(&few, 1, &["stsb", "four pairs"]);
}
