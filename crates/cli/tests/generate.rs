//! `generate` and `chat`.

use crate::workshop::Workshop;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn texts_are_continued_as_the_options_say() {
    let w = Workshop::new();
    let greedy = w.ok_json("generate model -p hello -p worlds --max-new-tokens 12 --quiet");
    let results = greedy["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["tokens"].as_array().unwrap().len(), 12);
        assert_eq!(result["finish"], "length");
    }
    // Alone it is the same, and printed as it comes.
    let first = results[0]["text"].as_str().unwrap();
    let shown = w.ok("generate model --prompt hello -n 12 --bos auto --quiet");
    assert_eq!(shown.trim_end_matches('\n'), first);
    let drawn = "generate model -p hello -n 12 --temperature 2 --top-k 50 --top-p 0.99 --min-p 0.001 \
                 --repetition-penalty 1.1 --seed";
    let [a, b, c] = [7, 7, 8].map(|seed| w.ok_json(&format!("{drawn} {seed}")));
    assert_eq!(a, b);
    assert_ne!(a["results"], c["results"]);
    assert_eq!(a["protocol"]["top_k"], 50);
    assert_eq!(a["seed"], 7);
}

#[test]
fn a_stop_string_ends_a_text_before_it() {
    let w = Workshop::new();
    fs::write(w.path("prompt.txt"), "hello").unwrap();
    let whole = w.ok_json("generate model --prompt-file prompt.txt -n 20");
    let text = whole["results"][0]["text"].as_str().unwrap().to_owned();
    let stop: String = text.chars().skip(3).take(2).collect();
    let command = ["generate", "model", "--prompt-file", "prompt.txt", "-n", "20", "--json"];
    let out = Command::new(env!("CARGO_BIN_EXE_linwright"))
        .current_dir(w.path(""))
        .args(command)
        .args(["--stop", &stop])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let result = &json["results"][0];
    let expected = text.split(&stop).next().unwrap();
    assert_eq!(result["text"].as_str().unwrap(), expected);
    assert_eq!(result["finish"], "stop");
    assert_eq!(result["stop"].as_str().unwrap(), stop);
}

#[test]
fn options_without_sense_are_refused() {
    let w = Workshop::new();
    w.fails("generate model", 2, &["--prompt"]);
    w.fails("generate model -p x --temperature -1", 2, &["temperature"]);
    w.fails("generate model -p x --top-p 1.5", 2, &["--top-p", "from 0 to 1"]);
    w.fails("generate model -p x --temperature 0 --top-k 3", 2, &["greedy decoding"]);
    w.fails("generate model -p x --repetition-penalty 0", 2, &["above 0"]);
    w.fails("generate model --prompt-file nowhere", 1, &["nowhere"]);
    w.fails("generate nowhere -p x", 1, &["nowhere"]);
    w.fails("chat model", 1, &["no chat template", "linwright generate"]);
}

/// What a chat writes to standard output, given what was typed.
fn chat(w: &Workshop, args: &[&str], typed: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_linwright"))
        .current_dir(w.path(""))
        .args(["chat", "model", "--max-new-tokens", "6", "--quiet"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn a_chat_answers_each_line_and_remembers() {
    let w = Workshop::new();
    let template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}\
                    {% if add_generation_prompt %}[assistant]{% endif %}";
    fs::write(w.path("model/chat_template.jinja"), template).unwrap();
    let one = chat(&w, &[], "hello\n");
    assert!(!one.trim().is_empty(), "{one:?}");
    let expected = w.ok("generate model -p [user]hello[assistant] -n 6 --bos never --quiet");
    assert_eq!(one, expected);
    let two = chat(&w, &[], "hello\n\nhello\n/quit\nnever\n");
    assert!(two.starts_with(&one), "{two:?}");
    let anew = chat(&w, &[], "hello\n/reset\nhello\n");
    assert_eq!(anew, format!("{one}{one}"));
    assert_ne!(chat(&w, &["--system", "be brief"], "hello\n"), one);
}
