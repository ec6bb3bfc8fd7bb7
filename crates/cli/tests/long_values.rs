//! Values of 100 KB with what a terminal takes for commands, in files and flags: a message names
//! the place, shows the start, and stays readable.

use crate::compare_runs::RECIPE;
use crate::serve::Server;
use crate::workshop::{Outcome, Workshop};
use serde_json::{Value, json};
use std::process::Command;

/// Colours, a bell, a line of its own, a turn of the direction of writing, and no end.
fn hostile() -> String {
    format!("\u{1b}[31mred\u{7}\nnext\u{9b}\u{202e}{}", "x".repeat(100_000))
}

/// Whether a text is short and steers no terminal.
#[track_caller]
fn check_readable(what: &str, text: &str) {
    let start: String = text.chars().take(600).collect();
    assert!(text.len() < 4096, "{what}: {} bytes: {start}", text.len());
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(steers), "{what}: {start:?}");
    assert!(!text.contains("\nnext"), "{what}: no value has lines of its own: {start}");
}

/// Runs a command that must fail; its message must be readable and name all `words`.
#[track_caller]
fn refused(w: &Workshop, args: &str, words: &[&str]) {
    check_refused(args, w.command(args), words);
}

#[track_caller]
fn check_refused(args: &str, command: Command, words: &[&str]) {
    let outcome = Outcome::of(command);
    check_readable(args, &outcome.stderr);
    assert!(outcome.code.is_some_and(|code| code != 0), "{args}: {}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{args}: no {word:?} in {}", outcome.stderr);
    }
}

/// The same with a flag's value, in plain text and as JSON.
#[track_caller]
fn refused_value(w: &Workshop, args: &str, value: &str, words: &[&str]) {
    for more in [None, Some("--json")] {
        let mut command = match args.rsplit_once(' ') {
            // Flag and value in one word.
            Some((args, flag)) if flag.ends_with('=') => {
                let mut command = w.command(args);
                command.arg(format!("{flag}{value}"));
                command
            }
            _ => {
                let mut command = w.command(args);
                command.arg(value);
                command
            }
        };
        command.args(more);
        check_refused(args, command, words);
    }
}

#[test]
fn flags_are_shown_in_part() {
    let w = Workshop::new();
    let value = hostile();
    for (args, words) in [
        ("eval model --tasks", "no task is called"),
        ("compress model --keep 0.5 --calibration calibration.jsonl -o out --method", "--method"),
        ("compress model --calibration calibration.jsonl -o out --keep 0.5 --layers", "--layers"),
        ("select model --rank 2 --sites", "linear layers is called"),
        ("laser model --lname q_proj --rate 5 --text text.jsonl --lnum", "--lnum"),
        ("eval model --text text.jsonl --max-memory", "--max-memory"),
        ("eval model --text text.jsonl --window=", "--window"),
        ("eval model --text", "[31mred"),
        ("inspect model --dtype", "--dtype"),
        ("inspect model --no-such-flag=", "--no-such-flag"),
        ("inspect", "[31mred"),
    ] {
        refused_value(&w, args, &value, &[words]);
    }
    refused_value(&w, "", &value, &["unrecognized subcommand"]);
}

#[test]
fn values_of_models_are_shown_in_part() {
    let value = hostile();
    let config = "model/config.json";
    for field in ["model_type", "hidden_act", "hidden_size", "rope_scaling", "torch_dtype"] {
        let w = Workshop::new();
        let mut fields = w.json(config);
        fields[field] = json!(value);
        w.write(config, fields.to_string());
        let outcome = w.run("eval model --text text.jsonl --window 64 --quiet");
        check_readable(field, &outcome.stderr);
        // The type of the stored numbers says nothing that the weights do not say.
        if field != "torch_dtype" {
            assert_eq!(outcome.code, Some(3), "{field}: {}", outcome.stderr);
            assert!(outcome.stderr.contains(field), "{field}: {}", outcome.stderr);
        }
    }

    let weights = "model/model.safetensors";
    let tensor =
        |dtype: &str, shape: Value| json!({"dtype": dtype, "shape": shape, "data_offsets": [0, 4]});
    for header in [
        json!({ &value: tensor("F32", json!([1])) }),
        json!({ &value: tensor("F32", json!([2])) }),
        json!({ "a": tensor(&value, json!([1])) }),
        json!({ "a": tensor("F32", json!([1])), &value: tensor("F32", json!([1])) }),
        json!({ "a": tensor("F32", json!(value)) }),
        json!({ "a": { &value: 1 } }),
    ] {
        let w = Workshop::new();
        let header = header.to_string();
        let length = (header.len() as u64).to_le_bytes();
        w.write(weights, [&length, header.as_bytes(), &[0; 4]].concat());
        refused(&w, "eval model --text text.jsonl --window 64 --quiet", &["model"]);
    }

    let tokenizer = "model/tokenizer.json";
    for change in [
        |fields: &mut Value, value: &str| fields["model"]["type"] = json!(value),
        |fields: &mut Value, value: &str| fields["decoder"] = json!({ "type": value }),
        |fields: &mut Value, value: &str| fields["model"]["merges"] = json!([value]),
        |fields: &mut Value, value: &str| fields["model"]["vocab"] = json!({ value: 100_000 }),
    ] {
        let w = Workshop::new();
        let mut fields = w.json(tokenizer);
        change(&mut fields, &value);
        w.write(tokenizer, fields.to_string());
        let words = ["tokenizer.json"];
        refused(&w, "eval model --text text.jsonl --window 64 --quiet", &words);
    }
}

#[test]
fn values_of_recipes_tasks_and_rows_are_shown_in_part() {
    let w = Workshop::new();
    let value = hostile();
    let quoted = json!(value).to_string();
    for (from, to) in [
        ("title: A tiny", format!("{quoted}: 1\ntitle: A tiny")),
        ("method: rotor", format!("method: {quoted}")),
        ("epochs: 2", format!("epochs: {quoted}")),
        ("label: untouched", format!("label: {quoted}, size: {quoted}")),
        ("against: [rotor]", format!("against: [{quoted}]")),
        ("version: 1", format!("version: {quoted}")),
        ("roles: [up, gate]", format!("roles: [{quoted}]")),
        ("name: nested", format!("name: {quoted}")),
    ] {
        let recipe = RECIPE.replacen(from, &to, 1);
        assert_ne!(recipe, RECIPE, "{from}");
        w.write("tiny.yaml", recipe);
        refused(&w, "run -r tiny.yaml -o out", &["tiny.yaml"]);
    }

    w.write("rows.jsonl", "{\"q\": \"a\", \"a\": 0}\n");
    let task = |more: &str| {
        format!(
            "task: mine\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: rows.jsonl}}}}\n\
             test_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{{{q}}}}'\n\
             doc_to_target: a\ndoc_to_choice: [a, b]\n{more}\n"
        )
    };
    for more in [
        format!("{quoted}: 1"),
        format!("filter_list: [{{name: f, filter: [{{function: {quoted}}}]}}]"),
        format!("repeats: {quoted}"),
        format!("process_docs: !function {quoted}"),
        format!("generation_kwargs: {{{quoted}: 1}}"),
        format!("include: [{quoted}]"),
        format!("process_results: {quoted}"),
        format!("metric_list: [{{metric: {quoted}}}]"),
    ] {
        w.write("mine.yaml", task(&more));
        refused(&w, "eval model --tasks mine.yaml --quiet", &["mine.yaml"]);
    }

    for row in [
        json!({ &value: 1 }).to_string(),
        json!({ "text": 1, &value: 1 }).to_string(),
        format!("{{{quoted}"),
        json!([value]).to_string(),
        format!("[{}", value.replace('\n', " ")),
    ] {
        w.write("rows.jsonl", row + "\n");
        refused(&w, "eval model --text rows.jsonl --quiet", &["rows.jsonl"]);
        refused(
            &w,
            "eval model --tasks questions --data questions=rows.jsonl --quiet",
            &["rows.jsonl"],
        );
    }
}

#[test]
fn the_server_answers_in_short() {
    let w = Workshop::new();
    let server = Server::start(&w, "model");
    let value = hostile();
    for request in [
        json!({ "prompt": "a", &value: 1 }),
        json!({ "prompt": "a", "model": value }),
        json!({ "prompt": "a", "temperature": value }),
        json!({ "prompt": "a", "response_format": { "type": value } }),
    ] {
        let reply = server.post("/v1/completions", &request.to_string());
        assert!(reply.status >= 400, "{reply:?}");
        let body = reply.json();
        let message = body["error"]["message"].as_str().unwrap();
        check_readable("a request", message);
        check_readable("a request", body["error"]["param"].as_str().unwrap_or_default());
    }
    server.stops();
}
