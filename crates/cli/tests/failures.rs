//! Messages of commands that fail, and output to a closed pipe.

use crate::workshop::{Outcome, Workshop};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Stdio};

/// Gives every number of a weight the largest value there is, so that its products overflow.
pub(crate) fn overflow(w: &Workshop, weight: &str) {
    change(w, weight, |_| 3.4e38);
}

/// Changes every number of a weight of the model.
fn change(w: &Workshop, weight: &str, to: impl Fn(f32) -> f32) {
    let mut bytes = w.weights("model");
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let fields: Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let tensor = &fields[weight];
    assert_eq!(tensor["dtype"], "F32");
    let at = |index: usize| header + tensor["data_offsets"][index].as_u64().unwrap() as usize;
    for value in bytes[at(0)..at(1)].chunks_mut(4) {
        let new = to(f32::from_le_bytes(value.try_into().unwrap()));
        value.copy_from_slice(&new.to_le_bytes());
    }
    w.write("model/model.safetensors", bytes);
}

#[test]
fn every_command_names_site_and_stage_of_an_overflow() {
    let w = Workshop::new();
    overflow(&w, "model.layers.1.mlp.up_proj.weight");
    let words = ["non-finite number in output of model.layers.1.mlp.up_proj"];
    let compress = "compress model --keep 0.5 --calibration calibration.jsonl";
    for command in [
        "generate model -p hello",
        "eval model --text text.jsonl --window 64",
        "laser model --lname q_proj --lnum 0 --rate 5 --text text.jsonl --evaluation window=64",
        &format!("{compress} -o all"),
        &format!("{compress} --layers 0 -o first"),
    ] {
        w.fails(&format!("{command} --quiet"), 1, &words);
    }
}

const RECIPE: &str = "\
version: 1
title: A sum that overflows
model: model
calibration: {dataset: calibration.jsonl, num_tokens: 600, seq_len: 32}
text: text.jsonl
evaluation: {window: 64}
jobs:
  - compare: {keep: [], no_controls: true, layers: 0, methods: [{method: low_rank, size: rank=2, label: LR2}]}
";

#[test]
fn a_perplexity_that_overflows_is_an_error_with_task_and_metric() {
    let w = Workshop::new();
    change(&w, "lm_head.weight", |number| 1e6 * number);
    let words = ["text", "token_perplexity", "is inf", "overflows"];
    let text = "--text text.jsonl --evaluation window=64";
    for command in [
        "eval model --text text.jsonl --window 64 -o out".to_owned(),
        format!("laser model --lname q_proj --lnum 0 --rate 5 {text}"),
    ] {
        w.fails(&format!("{command} --quiet"), 1, &words);
        let told = w.run(&format!("{command} --quiet --json"));
        assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{told:?}");
        assert!(told.stderr.contains("token_perplexity is inf"), "{told:?}");
    }
    assert!(!w.path("out").exists());
    let calibration = "--calibration calibration.jsonl:num_tokens=600,seq_len=32";
    w.write("recipe.yaml", RECIPE);
    let sweep = "--roles q_proj --layers 0 --size rate=5";
    for (command, kept) in [
        ("eval model --text text.jsonl --window 64 -o out.json".to_owned(), false),
        (format!("compress model --rank 2 {calibration} {text} -o out"), false),
        (format!("sweep model {sweep} {text} -o out"), false),
        (format!("compose model {sweep} {text} -o out"), false),
        (format!("compare model --keep 0.6 --methods low_rank {calibration} {text} -o out"), false),
        ("run --recipe recipe.yaml --output out".to_owned(), false),
    ] {
        let told = w.run(&format!("{command} --quiet"));
        let stderr = told.failed(&command, 1, &["token_perplexity is inf", "overflows"]);
        assert!(!stderr.contains("to resume"), "{command}: {stderr}");
        assert_eq!(w.path("out").exists(), kept, "{command}");
    }
    assert!(w.unfinished().is_empty());
    // One word of many tokens has a perplexity beyond any number in a sound model, too.
    let w = Workshop::new();
    w.write("one.txt", "xqzvwkjy".repeat(30));
    let found = w.ok_json("eval model --text one.txt --window 128");
    assert!(found["results"]["text"]["word_perplexity,none"].is_null(), "{found}");
    assert!(found["results"]["text"]["token_perplexity,none"].is_number(), "{found}");
}

#[test]
fn with_json_an_error_is_one_line_of_json() {
    let w = Workshop::new();
    for (command, code, words) in [
        ("inspect nowhere --slots", 1, "nowhere"),
        ("generate model -p x --top-p 1.5", 2, "invalid value '1.5' for '--top-p"),
        ("eval model --no-such-option", 2, "'--no-such-option'"),
        ("generate model", 2, "no prompt"),
        ("run -r nowhere.yaml", 3, "nowhere.yaml"),
    ] {
        let stderr = w.run(&format!("{command} --json --quiet"));
        assert_eq!((stderr.code, stderr.stdout.as_str()), (Some(code), ""), "{stderr:?}");
        let reported: Value = serde_json::from_str(&stderr.stderr)
            .unwrap_or_else(|error| panic!("{command}: {error}: {stderr:?}"));
        let error = reported["error"].as_object().unwrap();
        let keys: Vec<&String> = error.keys().collect();
        assert_eq!(keys, ["message", "hint", "exit_code"]);
        assert_eq!(error["exit_code"], code);
        assert!(error["message"].as_str().unwrap().contains(words), "{command}: {reported}");
        assert_eq!(stderr.stderr.lines().count(), 1);
    }
}

/// A file that takes nothing, as on a full disk.
#[cfg(target_os = "linux")]
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// How a command ends when one of its outputs is on a full disk.
#[cfg(target_os = "linux")]
fn on_a_full_disk(mut command: Command, change: impl FnOnce(&mut Command)) -> Outcome {
    change(&mut command);
    Outcome::of(command)
}

#[cfg(target_os = "linux")]
#[test]
fn notes_that_cannot_be_written_end_no_work() {
    let w = Workshop::new();
    for (command, code) in [
        ("inspect model --no-progress", 0),
        ("eval model --text text.jsonl --window 64 --limit 1 --no-progress", 0),
        ("generate model -p hello -n 4", 0),
        ("compress model --keep 0.5 --calibration calibration.jsonl -o out", 0),
        ("inspect nowhere", 1),
        ("inspect nowhere --json", 1),
        ("inspect --no-such-option", 2),
        ("inspect --no-such-option --json", 2),
    ] {
        let outcome = on_a_full_disk(w.command(command), |command| {
            command.stderr(full());
        });
        assert_eq!(outcome.code, Some(code), "{command}");
        assert_eq!(outcome.stdout.is_empty(), code != 0, "{command}: {outcome:?}");
    }
    assert!(w.path("out/model.safetensors").exists());
}

#[test]
fn a_reader_of_notes_that_goes_ends_no_work() {
    let w = Workshop::new();
    let command = "eval model --text text.jsonl --window 64 --limit 1 --no-progress";
    let mut child = w.command(command).spawn().unwrap();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("token_perplexity"));
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_are_lost_are_an_error() {
    let w = Workshop::new();
    w.write("model/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    w.write("typed", "hello\nhello\n");
    for command in [
        "generate model -p hello -n 9",
        "generate model -p hello -p worlds -n 2",
        "generate model -p hello -n 2 --json",
        "chat model -n 4",
        "inspect model",
        "ls operators",
        "serve model --port 0",
        "--help",
        "eval --help",
        "--version",
    ] {
        let outcome = on_a_full_disk(w.command(command), |command| {
            command.stdout(full()).stdin(File::open(w.path("typed")).unwrap());
        });
        assert_eq!(outcome.code, Some(5), "{command}: {outcome:?}");
        assert!(outcome.stderr.contains("standard output: No space left"), "{outcome:?}");
    }
    // Figures that took long still go where there is room.
    let eval = "eval model --text text.jsonl --window 64 --limit 1 --quiet --output figures.json";
    let outcome = on_a_full_disk(w.command(eval), |command| {
        command.stdout(full());
    });
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    assert!(w.json("figures.json")["results"]["text"].is_object());
}

#[test]
fn a_text_without_a_reader_ends_early_and_quietly() {
    let w = Workshop::new();
    for command in ["generate model -p hello -n 200 --quiet", "ls operators", "--help"] {
        let mut child = w.command(command).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{command}");
    }
}
