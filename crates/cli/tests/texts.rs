//! `--text-field`: texts whose column is not called `text`, in every command and option that takes
//! texts.

use crate::flags::verbs;
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Every command that takes texts, and options that name all the texts it can take.
pub(crate) const CASES: [(&str, &str); 16] = [
    (
        "compress",
        "model --rank 1 --roles output --layers 0 --calibration rows.csv:num_tokens=300,seq_len=16 \
         --text rows.jsonl --limit 1 --evaluation window=16 -o out",
    ),
    (
        "laser",
        "model --no-cache --roles mlp --layers 0 --rank 1 --text rows.tsv --limit 1 --evaluation window=16",
    ),
    (
        "sweep",
        "model --no-cache --roles fc_out --layers 0 --rank 1 --text rows.jsonl --limit 1 --evaluation window=16 -o out",
    ),
    (
        "compose",
        "model --no-cache --roles fc_out --layers 0 --rank 1 --text rows.csv --limit 1 --evaluation window=16 -o out",
    ),
    (
        "search",
        "model --roles fc_out --layers 0 --ranks 1 --text rows.jsonl --calibration rows.csv:num_tokens=300,seq_len=16 --evaluation window=4 -o out",
    ),
    (
        "compare",
        "model --keep 0.5 --methods svd --no-controls --text rows.jsonl --calibration rows.csv:num_tokens=300,seq_len=16 --evaluation window=4 -o out",
    ),
    (
        "prune",
        "model --keep 0.7 --calibration rows.csv:num_tokens=300,seq_len=16 --text rows.jsonl --limit 1 --evaluation window=4 -o out",
    ),
    ("eval", "model --text rows.jsonl --overlap-with rows.csv rows.tsv --limit 1 --window 16"),
    ("eval", "model --tasks rotor_paper --data rotor_paper=rows.csv --limit 1"),
    (
        "collapse lm",
        "model --text rows.jsonl --layers 0 --num-tokens 200 --window 16 --resamples 0 --no-baselines",
    ),
    (
        "train-lm",
        "--text rows.csv --held-out rows.jsonl --vocab 300 --architecture hidden=16,layers=1 --steps 1 -o out",
    ),
    (
        "attribute cache",
        "model --train rows.csv --reading max_length=16 --compress factgrass:16 -o out",
    ),
    ("attribute score", "store --query rows.jsonl --top 1"),
    ("attribute best", "store --query rows.jsonl --methods bm25 --count 1 -o lists"),
    ("attribute show", "store --query rows.tsv --top 1"),
    ("attribute recall", "store --query asked.jsonl --methods bm25 --at 1"),
];

const RECIPE: &str = "
version: 1
title: One row
model: model
calibration: {dataset: rows.csv, num_tokens: 300, seq_len: 16}
text: rows.jsonl
text_field: content
limit: 1
evaluation: {window: 16}
keep: []
no_controls: true
jobs:
  - compare: {layers: 0, roles: output, methods: [{method: low_rank, size: rank=1, label: LR1}]}
";

/// A workshop with its texts in the column `content` of files of several forms.
pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    let texts: Vec<String> = w
        .text("text.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["text"].as_str().unwrap().into())
        .collect();
    w.write("rows.jsonl", w.text("text.jsonl").replace("\"text\"", "\"content\""));
    w.ok("attribute cache model --train text.jsonl --reading max_length=16 --compress mask:16 -o store");
    let asked = |text: &String| json!({"content": text, "relevant": [0]}).to_string() + "\n";
    w.write("asked.jsonl", texts.iter().map(asked).collect::<String>());
    for (name, comma) in [("rows.csv", ','), ("rows.tsv", '\t')] {
        let lines: Vec<String> =
            texts.iter().map(|text| format!("here{comma}\"{text}\"\n")).collect();
        w.write(name, format!("place{comma}content\n{}", lines.concat()));
    }
    w
}

#[test]
fn every_command_that_takes_texts_takes_them_from_any_field() {
    let w = workshop();
    let tried: BTreeSet<String> = CASES.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    let takes_texts = |verb: &String| {
        let help = w.ok(&format!("{verb} --help"));
        let is_option = |option: &str| help.contains(&format!("{option} <"));
        let texts = ["--text", "--overlap-with", "--train", "--query"];
        // Potentials are fitted to structures, in a `FILE`.
        let is_fitted = help.contains("--calibration <CALIBRATION>");
        let any = is_fitted || texts.iter().any(|option| is_option(option));
        assert_eq!(any, is_option("--text-field"), "{verb}: {help}");
        any
    };
    let all: BTreeSet<String> = verbs(&w, "").into_iter().filter(takes_texts).collect();
    assert_eq!(all, tried);
    for (verb, options) in CASES {
        let command = format!("{verb} {options}");
        for (field, missing) in [("", "text"), (" --text-field contnet", "contnet")] {
            let missing = format!("field `{missing}` is missing; the fields are [");
            let words = [&missing, "for `content` give --text-field (in a recipe text_field)"];
            w.fails(&format!("{command}{field}"), 1, &words);
        }
        w.ok(&format!("{command} --text-field content"));
        if w.path("out").exists() {
            fs::remove_dir_all(w.path("out")).unwrap();
        }
    }
    assert!(!names(&w.path("")).iter().any(|name| name.starts_with(".out")), "{:?}", w.names());
}

#[test]
fn figures_do_not_depend_on_the_name_of_the_field() {
    let w = workshop();
    let figures = |text: &str| {
        let args = format!("eval model --window 32 --text {text}");
        w.ok_json(&args)["results"].clone()
    };
    let want = figures("text.jsonl");
    for file in ["rows.jsonl", "rows.csv", "rows.tsv"] {
        assert_eq!(figures(&format!("{file} --text-field content")), want, "{file}");
    }
}

#[test]
fn recipes_name_the_field_of_each_text() {
    let w = workshop();
    w.write("own.yaml", RECIPE);
    w.ok("run -r own.yaml -o out");
    assert_eq!(
        w.json("out/reproduce.json")["recipe"]["jobs"][0]["compare"]["text_field"],
        "content"
    );
    w.write("own.yaml", RECIPE.replacen("text_field: content\n", "", 1));
    w.fails("run -r own.yaml -o other", 1, &["rows.csv, line 2: field `text`", "`content`"]);
    w.write("own.yaml", RECIPE.replace("text_field", "textfield"));
    w.fails("run -r own.yaml -o other", 3, &["textfield", "nearest are text_field"]);
    w.write("sweep.yaml", "{version: 1, title: S, model: model, jobs: [{sweep: {roles: fc_out, layers: 0, \
                            rank: 1, no-cache: true, text: rows.csv, text-field: content, limit: 1, evaluation: {window: 16}}}]}");
    w.ok("run -r sweep.yaml -o swept");
}

#[test]
fn a_field_of_texts_without_any_is_refused() {
    let w = workshop();
    w.write("plain.txt", "Tom saw a boat by the lake.");
    for args in [
        "eval model --text plain.txt --text-field content",
        "eval model --tasks questions --data questions=questions.jsonl --text-field content",
        "compress pocket --calibration pocket --text-field content -o out",
    ] {
        w.fails(args, 2, &["--text-field content: no text of this command has fields", ".csv"]);
    }
    // What is built in and plain texts may stand beside rows.
    w.ok("eval model --text rows.jsonl --overlap-with plain.txt --text-field content --limit 1 --window 16");
}
