//! `train-lm --text`: models on any text and on parts of it.

use crate::interruption::stop_at;
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};
use std::fmt::Write;

/// A tiny model on the 30 documents of `calibration.jsonl`, each shorter than its context.
const TINY: &str = "train-lm --text calibration.jsonl --vocab 300 --architecture hidden=16,layers=1 \
                    --rate 0.01 --training batch_tokens=512";

fn result(w: &Workshop, model: &str) -> Value {
    w.json(&format!("{model}/results.json"))
}

#[test]
fn a_model_on_a_text_has_the_perplexity_that_eval_finds_on_the_held_out_documents() {
    let w = Workshop::new();
    let said = w.ok_json(&format!("{TINY} --epochs 8 --held-out-share 0.1 --seed 5 -o lm"));
    let found = result(&w, "lm");
    assert_eq!(said["perplexity"], found["perplexity"]);
    assert!(said["tokens_per_second"].as_f64().unwrap() > 0.0 && found["seconds"] == json!(null));
    let held_out = found["held_out"]["documents"].as_str().unwrap();
    assert_eq!((held_out.split(',').count(), &found["held_out"]["document_count"]), (3, &json!(3)));
    assert_eq!(found["training"]["document_count"], 27);

    let text = w.text("calibration.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    let held_out: Vec<&str> =
        held_out.split(',').map(|index| lines[index.parse::<usize>().unwrap()]).collect();
    w.write("held.jsonl", held_out.join("\n"));
    let scores = w.ok_json("eval ./lm --text held.jsonl --window 256");
    let perplexity = scores["results"]["text"]["token_perplexity,none"].as_f64().unwrap();
    let own = found["perplexity"].as_f64().unwrap();
    assert!((perplexity / own - 1.0).abs() < 1e-4, "{perplexity} and {own}");
    assert!(own < 200.0, "{own}: better than guessing among 300 tokens");
    let bits = found["bits_per_byte"].as_f64().unwrap();
    let bytes = found["held_out"]["bytes"].as_f64().unwrap();
    let tokens = found["held_out"]["tokens"].as_f64().unwrap();
    assert!((bits * bytes - own.log2() * tokens).abs() < 1e-6 * bits * bytes, "{found}");

    let curve = w.text("lm/curves.jsonl");
    let first: Value = serde_json::from_str(curve.lines().next().unwrap()).unwrap();
    let last: Value = serde_json::from_str(curve.lines().last().unwrap()).unwrap();
    assert_eq!((&first["step"], &last["step"]), (&json!(0), &found["training"]["steps"]));
    assert!(last["validation"].as_f64() < first["validation"].as_f64(), "{curve}");
    let files = names(&w.path("lm"));
    for file in ["tokenizer.json", "generation_config.json", "README.md", "recipe.yaml"] {
        assert!(files.iter().any(|name| name == file), "{file} in {files:?}");
    }
    let again = w.ok("reproduce lm -o again");
    assert!(again.contains("have the same bytes"), "{again}");
}

#[test]
fn stopped_and_killed_the_same_command_ends_with_the_same_bytes() {
    let command = format!("{TINY},validate_every=20 --steps 300 -o lm");
    let undisturbed = Workshop::new();
    undisturbed.ok(&command);
    let w = Workshop::new();
    for (name, code) in [("-INT", Some(75)), ("-KILL", None), ("-TERM", Some(75))] {
        let (status, said) = stop_at(&w, &command, "training on", name);
        assert_eq!(status.code(), code, "{name}: {said}");
        assert!(!w.path("lm").exists(), "{name}");
        assert_eq!(w.unfinished()[0]["what"], "train-lm to lm");
    }
    w.ok(&command);
    for file in ["model.safetensors", "results.json", "curves.jsonl", "tokenizer.json"] {
        let file = format!("lm/{file}");
        assert!(w.read(&file) == undisturbed.read(&file), "{file}");
    }
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    // With a checkpoint of one's own, which stays.
    let own = format!("{TINY} --steps 2 --checkpoint lm.ckpt -o own");
    w.ok(&own);
    assert!(w.path("lm.ckpt").is_file());
    w.fails(&format!("{own} --force").replace("=512", "=512,warmup=2"), 6, &["lm.ckpt"]);
}

#[test]
fn parts_of_a_text_keep_its_held_out_documents_and_its_tokenizer() {
    let w = Workshop::new();
    let tiny = format!("{TINY} --steps 4");
    w.ok(&format!("{tiny} -o whole"));
    let part = tiny.replace("--vocab 300", "--tokenizer whole");
    w.write("list.txt", "10-19\n\n20-29, 9\n");
    w.ok(&format!("{part} --without 0-8 -o without"));
    let chosen = w.run(&format!("{part} --documents list.txt -o chosen"));
    assert!(chosen.stderr.contains("of the chosen documents are held out"), "{}", chosen.stderr);
    chosen.succeeded("chosen");
    let [whole, without, chosen] = ["whole", "without", "chosen"].map(|model| result(&w, model));
    for part in [&without, &chosen] {
        assert_eq!(part["held_out"], whole["held_out"]);
        assert_eq!(part["tokenizer"], whole["tokenizer"]);
        assert_eq!(part["training"]["documents"], without["training"]["documents"]);
    }
    let documents = without["training"]["documents"].as_str().unwrap();
    assert!(documents.starts_with("9") || documents.starts_with("1"), "{documents}");
    assert!(w.weights("without") == w.weights("chosen"));
    assert!(w.weights("without") != w.weights("whole"));
    assert!(w.read("without/tokenizer.json") == w.read("whole/tokenizer.json"));
    w.ok(&format!("{tiny} --without 0-8 -o own"));
    assert!(w.read("own/tokenizer.json") != w.read("whole/tokenizer.json"), "its own text");
    // The record names the list and the tokenizer.
    let record = w.json("chosen/reproduce.json")["data"].to_string();
    assert!(record.contains("list.txt") && record.contains("whole/tokenizer.json"), "{record}");
}

#[test]
fn a_plain_text_is_cut_into_documents_and_long_ones_into_windows() {
    let w = Workshop::new();
    let (mut plain, mut separated) = (String::new(), String::new());
    for line in w.text("calibration.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = record["text"].as_str().unwrap();
        write!(plain, "{text}\n\n").unwrap();
        write!(separated, "{text}\n<|endoftext|>\n").unwrap();
    }
    w.write("plain.txt", &plain);
    w.write("separated.txt", &separated);
    let rest = "--vocab 300 --architecture hidden=16,layers=1,heads=2,kv_heads=1,intermediate=24,context=32 \
                --steps 2 --training batch_tokens=64 --dtype bf16";
    w.ok(&format!("train-lm --text plain.txt {rest} -o plain"));
    let found = result(&w, "plain");
    let documents = found["text"]["documents"].as_u64().unwrap();
    assert!((5..30).contains(&documents), "paragraphs are gathered: {found}");
    assert_eq!(w.json("plain/config.json")["num_key_value_heads"], 1);
    assert_eq!(w.json("plain/config.json")["torch_dtype"], "bfloat16");

    let separator = "--separator <|endoftext|>";
    w.ok(&format!("train-lm --text separated.txt {separator} {rest} -o separated"));
    let found = result(&w, "separated");
    assert_eq!(found["text"]["documents"], 30);
    // As the rows of the same documents.
    w.ok(&format!("train-lm --text calibration.jsonl {rest} -o rows"));
    assert!(w.weights("rows") == w.weights("separated"));

    w.write("rows.csv", "id,story\n1,The grey cat saw a boat.\n2,Tom lost the key at noon.\n");
    let other = "--held-out rows.csv --text-field story";
    w.ok(&format!("train-lm --text plain.txt {other} {rest} -o other"));
    let found = result(&w, "other");
    assert_eq!(found["held_out"]["document_count"], 2);
    assert_eq!(found["training"]["document_count"], documents);
}

#[test]
fn a_dry_run_writes_nothing_and_tells_size_time_and_memory() {
    let w = Workshop::new();
    let before = w.names();
    let plan = w.ok_json(&format!("{TINY} --epochs 3 -o lm --dry-run"));
    assert_eq!((w.names(), w.unfinished().len()), (before, 0));
    assert_eq!(
        (&plan["training"]["epochs"], &plan["training"]["document_count"]),
        (&json!(3.0), &json!(28))
    );
    assert!(plan["parameters"].as_u64().unwrap() > 300 * 16);
    for key in ["seconds_per_step", "seconds", "tokens_per_second", "memory_bytes"] {
        assert!(plan["estimate"][key].as_f64().unwrap() > 0.0, "{key}: {plan}");
    }
    let shown = w.ok(&format!("{TINY} --steps 9 -o lm --dry-run"));
    assert!(shown.contains("9 steps") && shown.contains("tokens/s"), "{shown}");
}

#[test]
fn what_cannot_be_trained_is_told_before_any_work() {
    let w = Workshop::new();
    w.write("empty.txt", " \n");
    w.write("bytes.txt", b"one\n\xff\n");
    w.write("short.txt", "one line");
    w.write("list.txt", "3\nfour\n");
    for (options, code, words) in [
        ("--architecture hidden=32", 2, &["--text"][..]),
        ("--documents 3", 2, &["--text"]),
        ("--held-out text.jsonl", 2, &["--text"]),
        ("--steps 0 --text text.jsonl", 2, &["--steps", "0"]),
        ("--architecture layers=0 --text text.jsonl", 2, &["layers is 0"]),
        ("--vocab 257 --text text.jsonl", 2, &["--vocab", "258"]),
        ("--steps 3 --epochs 1 --text text.jsonl", 2, &["--steps", "--epochs"]),
        ("--vocab 300 --tokenizer model --text text.jsonl", 2, &["--vocab", "--tokenizer"]),
        ("--architecture hidden=33 --text text.jsonl", 2, &["hidden=33"]),
        ("--architecture heads=3,hidden=32 --text text.jsonl", 2, &["32", "3 heads"]),
        ("--rate 0 --text text.jsonl", 2, &["--rate 0"]),
        ("--held-out-share 1 --text text.jsonl", 2, &["--held-out-share 1"]),
        ("--separator x --text text.jsonl", 2, &["--separator", "row"]),
        ("--text-field x --text short.txt", 2, &["--text-field"]),
        ("--text empty.txt", 1, &["empty.txt", "empty"]),
        ("--text bytes.txt", 1, &["bytes.txt, line 2", "not UTF-8"]),
        ("--text none.txt", 1, &["none.txt"]),
        ("--text short.txt", 2, &["one document", "--separator", "--held-out"]),
        ("--text short.txt --separator <|end|>", 2, &["short.txt", "<|end|>"]),
        ("--text text.jsonl --documents 0-9", 2, &["--documents 0-9", "no document 9", "6"]),
        ("--text text.jsonl --without list.txt", 2, &["list.txt, line 2", "four"]),
        ("--text text.jsonl --without 0-5", 2, &["no document is left"]),
        ("--text text.jsonl --documents no.txt", 1, &["--documents no.txt"]),
        ("--text text.jsonl --vocab 9000", 2, &["--vocab 9000", "at most"]),
        ("--text text.jsonl --vocab 1200", 2, &["--vocab 1200", "the texts yield"]),
        ("--text text.jsonl --tokenizer home", 1, &["home"]),
        (
            "--text text.jsonl --tokenizer model --architecture hidden=262144,layers=2000",
            5,
            &["of memory", "--architecture"],
        ),
        ("--text text.jsonl --tokenizer model --force -o model", 2, &["model"]),
    ] {
        let output = if options.contains("-o model") { "" } else { "-o lm" };
        w.fails(&format!("train-lm {options} {output}"), code, words);
        assert!(!w.path("lm").exists(), "{options}");
        assert_eq!(w.unfinished(), [Value::Null; 0], "{options}");
    }
    w.write("lm", "work of years");
    w.fails("train-lm --text text.jsonl -o lm --force", 2, &["lm"]);
}

#[test]
fn a_training_that_diverges_ends_with_advice_and_leaves_nothing() {
    let w = Workshop::new();
    let wild = TINY.replace("--rate 0.01", "--rate 100");
    w.fails(&format!("{wild},warmup=0 --steps 40 -o lm"), 1, &["model", "--rate"]);
    assert!(!w.path("lm").exists());
    assert_eq!(w.unfinished(), [Value::Null; 0]);
}

#[test]
fn the_recipe_trains_with_and_without_documents() {
    let w = Workshop::new();
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/train-text.yaml");
    let small = "--set text=calibration.jsonl --set whole.vocab=300 \
                 --set architecture.hidden=16 --set architecture.layers=1 --set epochs=1";
    w.ok(&format!("run -r {recipe} {small} -o out"));
    let [whole, without] = ["out/whole", "out/without"].map(|model| result(&w, model));
    assert_eq!(whole["held_out"], without["held_out"]);
    assert_eq!(whole["tokenizer"], without["tokenizer"]);
    let fewer = |found: &Value| found["training"]["document_count"].as_u64().unwrap();
    assert!(fewer(&without) < fewer(&whole));
    let said = w.ok("reproduce out -o again");
    assert!(said.contains("have the same bytes"), "{said}");
}
