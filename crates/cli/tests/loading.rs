//! Models as neighbours write them: what is not needed stops nothing, what decides is read, and
//! what cannot be known later is said at the start.

use crate::workshop::{Outcome, Workshop};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Changes fields of a JSON file.
fn change(w: &Workshop, name: &str, fields: &Value) {
    let mut object = match w.path(name).exists() {
        true => w.json(name),
        false => json!({}),
    };
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    w.write(name, object.to_string());
}

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

#[test]
fn token_ids_that_are_none_are_left_out_with_a_note() {
    let w = Workshop::new();
    let eval = "eval model --text text.jsonl --window 64 --bos never";
    let expected = w.ok_json(eval);
    let config = w.text("model/config.json");
    for ids in [json!(300), json!(-1), json!([1, 99_999]), json!("2"), json!(1.5), json!([null])] {
        for field in ["eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id"] {
            change(&w, "model/config.json", &json!({ field: ids }));
            let run = w.run(&format!("{eval} --json"));
            assert_eq!(run.code, Some(0), "{field} {ids}: {}", run.stderr);
            let found: Value = serde_json::from_str(&run.stdout).unwrap();
            assert_eq!(found["results"], expected["results"], "{field} {ids}");
            assert!(
                run.stderr.contains(&format!("{field} {ids}")),
                "{field} {ids}: {}",
                run.stderr
            );
            w.write("model/config.json", &config);
        }
    }
    change(&w, "model/config.json", &json!({"pad_token_id": null, "suppress_tokens": "x"}));
    assert!(!w.run(eval).stderr.contains("left out"));
    // In what only generation reads.
    w.write(
        "model/generation_config.json",
        r#"{"eos_token_id": [1, 500], "temperature": "hot", "do_sample": true}"#,
    );
    w.ok(eval);
    let run = w.run("generate model -p Tom -n 2");
    assert!(run.stderr.contains("temperature is \"hot\""), "{}", run.stderr);
    run.succeeded("a field that cannot be read");
    for text in [
        "{",
        "",
        "\u{feff}{}",
        "{\"top_p\": NaN, \"do_sample\": true}",
        "[]",
        "{\"do_sample\": true, \"top_k\": -1, \"top_p\": 1.5}",
    ] {
        w.write("model/generation_config.json", text);
        let run = w.run("generate model -p Tom -n 2");
        assert!(run.stderr.contains("it is ignored"), "{text}: {}", run.stderr);
        run.succeeded(text);
    }
    w.write(
        "model/generation_config.json",
        r#"{"eos_token_id": [1, 500], "temperature": "hot", "do_sample": true}"#,
    );
    let run = w.run("generate model -p Tom -n 2 --temperature 0");
    assert!(run.stderr.contains("generation_config.json: eos_token_id [1,500]"), "{}", run.stderr);
    run.succeeded("an option in place of the field");
    // A vocabulary with one more added token than the model knows, and a damaged template.
    let mut tokenizer = w.json("model/tokenizer.json");
    let pad = json!({"id": 300, "content": "<pad>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    tokenizer["added_tokens"].as_array_mut().unwrap().push(pad);
    w.write("model/tokenizer.json", tokenizer.to_string());
    change(&w, "model/tokenizer_config.json", &json!({"pad_token": "<pad>", "chat_template": 5}));
    let run = w.run(&format!("{eval} --json"));
    assert!(run.stderr.contains("the added token \"<pad>\" has id 300"), "{}", run.stderr);
    let found: Value = serde_json::from_str(&run.succeeded(eval)).unwrap();
    assert_eq!(found["results"], expected["results"]);
    w.write("pad.txt", "Tom saw a <pad> boat");
    w.fails("eval model --text pad.txt", 1, &["token 300", "outside the vocabulary of 300"]);
    w.write("model/generation_config.json", "{}");
    chat(&w, &[]).failed("chat model", 1, &["chat_template", "found 5"]);
}

#[test]
fn the_post_processor_decides_about_the_first_token_and_says_so() {
    let w = Workshop::new();
    let says = "tokenizer_config.json says add_bos_token";
    let eval = |w: &Workshop| {
        let run = w.run("eval model --text text.jsonl --window 64 --json");
        let noted = run.stderr.contains(says);
        let found: Value = serde_json::from_str(&run.succeeded("eval")).unwrap();
        (found["results"]["text"].clone(), noted)
    };
    let (first, noted) = eval(&w);
    assert!(!noted);
    change(&w, "model/tokenizer_config.json", &json!({"add_bos_token": false}));
    assert_eq!(eval(&w), (first.clone(), true), "the post-processor adds one");
    let mut tokenizer = w.json("model/tokenizer.json");
    tokenizer["post_processor"] = Value::Null;
    w.write("model/tokenizer.json", tokenizer.to_string());
    let (none, noted) = eval(&w);
    assert!(!noted && none != first, "none is added");
    change(&w, "model/tokenizer_config.json", &json!({"add_bos_token": true}));
    assert_eq!(eval(&w), (none, true));
}

const DATED: &str = "{{- \"Today is \" + strftime_now(\"%d %B %Y\") + \"\\n\" }}\
    {%- for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
    {%- if thinking is defined %}{{ thinking }}{% endif %}\
    {%- if documents %}{{ documents[0].title }}{% endif %}assistant: ";

/// What a chat answers to one line, and what it notes.
fn chat(w: &Workshop, args: &[&str]) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_linwright"))
        .current_dir(w.path(""))
        .args(["chat", "model", "--max-new-tokens", "5"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"Where?\n").unwrap();
    let out = child.wait_with_output().unwrap();
    Outcome {
        code: out.status.code(),
        stdout: String::from_utf8(out.stdout).unwrap(),
        stderr: String::from_utf8(out.stderr).unwrap(),
    }
}

#[test]
fn a_template_gets_the_date_and_what_else_it_asks_for() {
    let w = Workshop::new();
    w.write("model/chat_template.jinja", DATED);
    w.write("prompt.txt", "Today is 29 February 2024\nuser: Where?\nassistant: ");
    let expected = w.ok("generate model --prompt-file prompt.txt -n 5 --bos never --quiet");
    let dated = chat(&w, &["--date", "2024-02-29"]);
    assert_eq!(dated.stdout.trim_end(), expected.trim_end(), "{}", dated.stderr);
    assert!(!dated.stderr.contains("asks for the date"), "{}", dated.stderr);
    let today = chat(&w, &[]);
    assert_eq!(today.code, Some(0), "{}", today.stderr);
    assert!(
        today.stderr.contains("note: the chat template asks for the date and gets 2"),
        "{}",
        today.stderr
    );
    // The time of day is the clock's, or the one that is given.
    let clock = "{{ strftime_now('%H:%M:%S') }}user: Where?\nassistant: ";
    w.write("model/chat_template.jinja", clock);
    w.write("prompt.txt", "14:05:00user: Where?\nassistant: ");
    let expected = w.ok("generate model --prompt-file prompt.txt -n 5 --bos never --quiet");
    let timed = chat(&w, &["--date", "2024-02-29T14:05"]);
    assert_eq!(timed.stdout.trim_end(), expected.trim_end(), "{}", timed.stderr);
    assert!(!timed.stderr.contains("note: the chat template"), "{}", timed.stderr);
    let midnight = chat(&w, &["--date", "2024-02-29"]);
    assert!(
        midnight.stderr.contains("prints the time of day and gets 00:00"),
        "{}",
        midnight.stderr
    );
    w.write("model/chat_template.jinja", DATED);
    let args = r#"{"thinking": "Hm. ", "documents": [{"title": "Map "}]}"#;
    w.write("prompt.txt", "Today is 29 February 2024\nuser: Where?\nHm. Map assistant: ");
    let expected = w.ok("generate model --prompt-file prompt.txt -n 5 --bos never --quiet");
    let given = chat(&w, &["--date", "2024-02-29", "--chat-template-args", args]);
    assert_eq!(given.stdout.trim_end(), expected.trim_end(), "{}", given.stderr);
    for (args, said) in [
        (&["--date", "2023-02-29"], "--date is \"2023-02-29\": expected a date as YYYY-MM-DD"),
        (&["--date", "today"], "expected a date as YYYY-MM-DD"),
        (&["--chat-template-args", "[]"], "expected a JSON object of variables"),
        (&["--chat-template-args", "{\"messages\": []}"], "messages is set by the chat"),
    ] {
        let refused = chat(&w, args);
        assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{args:?}: {}", refused.stderr);
    }
}

/// Whether a command says that its template prints midnight.
fn today_says_midnight(w: &Workshop, command: &str) -> bool {
    let out = w.run(command);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    out.stderr.contains("the chat template prints the time of day and gets 00:00; --date 2")
}

#[test]
fn an_evaluation_records_the_date_that_its_prompts_have() {
    let w = Workshop::new();
    w.write("model/chat_template.jinja", DATED);
    w.write(
        "task.yaml",
        "task: where\ndataset_path: json\ntest_split: test\ndoc_to_text: '{{question}}'\n\
        doc_to_target: '{{choices[answer]}}'\noutput_type: loglikelihood\nmetric_list:\n  - metric: perplexity\n",
    );
    let eval = "eval model --tasks task.yaml --data where=questions.jsonl --apply-chat-template";
    let fixed = w.ok_json(&format!("{eval} --date 2024-02-29"));
    assert_eq!(fixed["chat_template_date"], "2024-02-29");
    assert_eq!(w.ok_json(&format!("{eval} --date 2024-02-29"))["results"], fixed["results"]);
    assert_ne!(w.ok_json(&format!("{eval} --date 1999-12-31"))["results"], fixed["results"]);
    let today = w.run(&format!("{eval} --json"));
    assert!(
        today.stderr.contains("the chat template asks for the date and gets 2"),
        "{}",
        today.stderr
    );
    let today: Value = serde_json::from_str(&today.succeeded("eval")).unwrap();
    let date = today["chat_template_date"].as_str().unwrap();
    let again = w.ok_json(&format!("{eval} --date {date}"));
    assert_eq!(again["results"], today["results"]);
    // A time of day is midnight, which a note says, unless one is given.
    assert!(!today_says_midnight(&w, eval));
    w.write("model/chat_template.jinja", DATED.replace("%d %B %Y", "%d %B %Y %H:%M"));
    assert!(today_says_midnight(&w, eval));
    assert!(!today_says_midnight(&w, &format!("{eval} --date 2024-02-29T14:05")));
    let midnight = w.ok_json(&format!("{eval} --date 2024-02-29"));
    let timed = w.ok_json(&format!("{eval} --date 2024-02-29T14:05"));
    assert_eq!(timed["chat_template_date"], "2024-02-29T14:05");
    assert_ne!(timed["results"], midnight["results"]);
    // A template that asks for none gets none, and says none.
    w.write("model/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    assert_eq!(w.ok_json(eval)["chat_template_date"], Value::Null);
    w.fails(
        "eval model --text text.jsonl --date 2024-02-29",
        2,
        &["--date goes with --apply-chat-template"],
    );
    // What a template lacks is named, beside what there is.
    w.write("model/chat_template.jinja", "{{ messages[0].content }}{{ persona.name }}");
    w.fails(
        eval,
        1,
        &["undefined", "field `persona` is missing; the fields are [", "\"messages\""],
    );
    w.write("task.yaml", w.text("task.yaml").replace("{{question}}", "{{qestion}}"));
    let plain = eval.replace(" --apply-chat-template", "");
    w.fails(&plain, 1, &["field `qestion` is missing; the fields are [\"question\", \"choices\""]);
}

#[test]
fn task_files_are_judged_as_the_harness_does() {
    let w = Workshop::new();
    w.write(
        "rows.jsonl",
        "{\"premise\": \"It rains.\", \"hypothesis\": \"It is wet.\", \"label\": 0}\n",
    );
    let task = "task: first\ntask: entail\ninclude:\n  - one.yaml\n  - more/two.yaml\ndataset_path: json\n\
        test_split: test\ndoc_to_text: \"\"\n\
        doc_to_choice: '{{[premise+\" So \"+hypothesis,premise+\" But\n\"+hypothesis]}}'\ndoc_to_target: label\n";
    w.write("task.yaml", task);
    w.write("one.yaml", "output_type: generate_until\nmetric_list:\n  - metric: acc\n");
    fs::create_dir(w.path("more")).unwrap();
    w.write("more/two.yaml", "include: three.yaml\n");
    w.write("more/three.yaml", "output_type: multiple_choice\n");
    let shown = w.ok("validate --tasks task.yaml --data entail=rows.jsonl");
    assert!(shown.contains("entail"), "{shown}");
    let found = w.ok_json("eval model --tasks task.yaml --data entail=rows.jsonl");
    assert_eq!(
        found["configs"]["entail"]["doc_to_choice"],
        "{{[premise+\" So \"+hypothesis,premise+\" But \"+hypothesis]}}"
    );
}

#[test]
fn a_split_gguf_is_read_from_any_of_its_parts() {
    let w = Workshop::new();
    fs::create_dir(w.path("parts")).unwrap();
    for entry in fs::read_dir(testdata("gguf/split")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, w.path("parts").join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(testdata("gguf/models/mistral.gguf"), w.path("whole.gguf")).unwrap();
    let slots = w.ok("inspect whole.gguf --slots").replace("whole.gguf", "");
    let tensors = w.ok_json("inspect whole.gguf --spectra");
    for given in ["parts", "parts/mistral-00001-of-00003.gguf", "parts/mistral-00003-of-00003.gguf"]
    {
        assert_eq!(w.ok(&format!("inspect {given} --slots")).replace(given, ""), slots);
        let own = w.ok_json(&format!("inspect {given} --spectra"));
        assert_eq!(own["totals"], tensors["totals"], "{given}");
        assert_eq!(own["files"].as_array().unwrap().len(), 3);
    }
    assert!(w.ok("inspect whole.gguf --dtype q4_0").contains("Q4_0"));
    assert!(w.ok("inspect parts --dtype q4_0").contains("Q4_0"));
    fs::remove_file(w.path("parts/mistral-00002-of-00003.gguf")).unwrap();
    for given in ["parts", "parts/mistral-00003-of-00003.gguf"] {
        for command in ["inspect", "inspect --slots", "export -o out"] {
            let words = ["mistral-00002-of-00003.gguf: part 2 of 3", "is missing"];
            w.fails(&format!("{command} {given}"), 1, &words);
        }
    }
    assert!(!w.path("out").exists());
}

#[test]
fn what_is_no_model_of_ours_leads_on() {
    let w = Workshop::new();
    fs::create_dir(w.path("adapter")).unwrap();
    w.write(
        "adapter/adapter_config.json",
        r#"{"peft_type": "LORA", "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "meta-llama/Llama-2-7b-hf", "r": 8}"#,
    );
    for command in [
        "eval adapter --text text.jsonl",
        "inspect adapter --slots",
        "generate adapter -p x",
        "compress adapter --rank 1 --calibration calibration.jsonl -o out",
    ] {
        let words = [
            "an adapter of LORA for meta-llama/Llama-2-7b-hf",
            "export meta-llama/Llama-2-7b-hf --adapter adapter -o merged",
        ];
        w.fails(command, 2, &words);
    }
    w.write("adapter/config.json", w.text("model/config.json"));
    w.fails("eval adapter --text text.jsonl", 2, &["--adapter adapter -o", "move adapter_config"]);
    fs::remove_file(w.path("adapter/config.json")).unwrap();
    change(&w, "adapter/adapter_config.json", &json!({"peft_type": "IA3"}));
    w.fails("eval adapter --text text.jsonl", 2, &["an adapter of IA3", "merge_and_unload"]);
    change(&w, "model/config.json", &json!({"model_type": "mamba"}));
    let words = [
        "model_type is \"mamba\"",
        "linwright inspect MODEL --spectra",
        "linwright fit",
        "linwright.torch",
    ];
    w.fails("eval model --text text.jsonl", 3, &words);
    w.ok("inspect model --spectra");
}

#[test]
fn what_a_short_model_cannot_do_is_said_before_any_work() {
    let w = Workshop::new();
    change(&w, "model/config.json", &json!({"max_position_embeddings": 32}));
    w.write("tiny.yaml", "version: 1\ntitle: One row\nmodel: model\n\
        calibration: {dataset: calibration.jsonl, num_tokens: 300, seq_len: 16}\ntext: text.jsonl\n\
        limit: 1\nkeep: []\nno_controls: true\njobs:\n\
        \u{20} - compare: {layers: 0, roles: output, methods: [{method: low_rank, size: rank=1, label: LR1}]}\n");
    w.write("long.jsonl", json!({"question": "Who?", "choices": [" Tom", format!(" {}", "Mira saw ".repeat(40))], "answer": 0}).to_string());
    let calibrated = "--calibration calibration.jsonl:num_tokens=300,seq_len=16";
    let text = "--text text.jsonl";
    for command in [
        format!("compress model --rank 1 {calibrated} {text} -o out"),
        format!(
            "compress model --rank 1 {calibrated} --tasks questions --data questions=long.jsonl -o out"
        ),
        format!(
            "compress model --rank 1 --calibration calibration.jsonl {text} --evaluation window=16 -o out"
        ),
        format!("compare model --keep 0.7 --methods svd {calibrated} {text} -o out"),
        format!("prune model --keep 0.8 {calibrated} {text} -o out"),
        format!("laser model --no-cache --lname mlp --lnum 0 --rank 1 {text} -o out"),
        format!("sweep model --no-cache --roles mlp --layers 0 --rank 1 {text} -o out"),
        format!("compose model --no-cache --roles mlp --layers 0 --rank 1 {text} -o out"),
        format!("search model --roles mlp --layers 0 --ranks 1 {text} {calibrated} -o out"),
        format!("eval model --tasks questions --data questions=questions.jsonl {text} -o out"),
        format!(
            "eval pocket --tasks questions --data questions=questions.jsonl {text} --baseline model -o out"
        ),
        format!("eval pocket {text} --baseline nowhere -o out"),
        "run -r tiny.yaml -o out".to_owned(),
    ] {
        let run = w.run(&format!("{command} --no-progress"));
        assert!(matches!(run.code, Some(1..=3)), "{command}: {run:?}");
        let is_step = |line: &&str| {
            !["note:", "error:", "hint:", "compare-1 of"].iter().any(|word| line.starts_with(word))
        };
        let steps: Vec<&str> = run.stderr.lines().filter(is_step).collect();
        assert!(steps.iter().all(|step| step.starts_with("loading ")), "{command}: {steps:?}");
        let reasons = ["32 positions", "expected 1 to 32", "nowhere"];
        let is_said = reasons.iter().any(|reason| run.stderr.contains(reason));
        assert!(is_said, "{command}: {}", run.stderr);
        assert!(!w.path("out").exists() && w.unfinished().is_empty(), "{command}");
    }
}

#[test]
fn every_window_of_a_text_begins_with_the_first_token_where_the_model_has_it() {
    let w = Workshop::new();
    // One document of several windows, which begin with the token that the tokenizer adds.
    let text = |with: &str| {
        let run = format!("eval model --text text.jsonl --window 32 --join space {with}");
        let found = w.ok_json(&run);
        let protocol = found["linwright"]["protocols"]["text"].as_str().unwrap().to_owned();
        let nll = found["results"]["text"]["nll_nats_per_token,none"].as_f64();
        (nll.or(found["results"]["text"]["nll_nats_per_token"].as_f64()).unwrap(), protocol)
    };
    let (each, protocol) = text("--stride 32");
    assert_eq!(protocol, "text_ppl_w32_s32_bos-auto-each-window_joined-space");
    let (never, protocol) = text("--stride 32 --bos never");
    assert_eq!(protocol, "text_ppl_w32_s32_bos-never_joined-space");
    assert_ne!(each, never);
    // Without the post-processor there is none to begin with.
    let mut tokenizer = w.json("model/tokenizer.json");
    tokenizer["post_processor"] = Value::Null;
    w.write("model/tokenizer.json", tokenizer.to_string());
    assert_eq!(text("--stride 32").0, never);
    assert_eq!(text("--stride 32 --bos always").0, each);
}
