//! `eval`: figures, protocols, options and the gate.

use crate::workshop::{DOCUMENTS, QUESTIONS, Workshop};
use serde_json::Value;

fn perplexity(result: &Value) -> f64 {
    result["results"]["text"]["token_perplexity,none"].as_f64().unwrap()
}

fn counted(result: &Value) -> u64 {
    result["linwright"]["tokens_counted"].as_u64().unwrap()
}

#[test]
fn figures_stand_where_the_harness_has_them() {
    let w = Workshop::new();
    let args = "eval model --text text.jsonl --tasks questions --data questions=questions.jsonl --window 128";
    let result = w.ok_json(&format!("{args} --output result.json"));
    assert!((2.0..1e6).contains(&perplexity(&result)), "{result}");
    let questions = &result["results"]["multiple_choice"];
    assert!((0.0..=1.0).contains(&questions["acc,none"].as_f64().unwrap()));
    assert!(questions["acc_norm,none"].is_number());
    assert_eq!(result["n-samples"]["text"]["effective"], DOCUMENTS);
    assert_eq!(result["n-samples"]["multiple_choice"]["effective"], QUESTIONS);
    assert!(counted(&result) > 300);
    assert_eq!(w.json("result.json"), result, "the file holds what was printed");
    let shown = w.ok(args);
    let figure = format!("{:.4}", perplexity(&result));
    assert!(shown.contains(&figure) && shown.contains("acc_norm"), "{shown}");
}

#[test]
fn completions_are_asked_where_the_questions_have_them() {
    let w = Workshop::new();
    let bare = r#"{"question":"Who?","choices":["a","b"],"answer":0}"#;
    let full =
        r#"{"question":"Who?","choices":["a","b"],"answer":0,"prompt":"Tom","completion":" saw"}"#;
    w.write("bare.jsonl", bare);
    w.write("mixed.jsonl", format!("{bare}\n{full}\n"));
    let plain = w.ok_json("eval model --tasks questions --data questions=bare.jsonl");
    assert!(plain["results"].get("completion").is_none(), "{plain}");
    let mixed = w.ok_json("eval model --tasks questions --data questions=mixed.jsonl");
    assert_eq!(mixed["n-samples"]["completion"]["effective"], 1, "{mixed}");
    assert_eq!(mixed["n-samples"]["multiple_choice"]["effective"], 2);
    let limited = w.ok_json("eval model --tasks questions --data questions=mixed.jsonl --limit 1");
    assert!(limited["results"].get("completion").is_none(), "{limited}");
}

#[test]
fn tasks_of_one_data_file_have_names_like_others() {
    let w = Workshop::new();
    let given = w.ok_json("eval model --text text.jsonl --window 64");
    let data = "--data text=text.jsonl --data multiple_choice=questions.jsonl";
    let args = format!("eval model --tasks text,multiple_choice {data} --window 64");
    let named = w.ok_json(&args);
    assert_eq!(perplexity(&named), perplexity(&given));
    assert!(named["results"]["multiple_choice"]["acc,none"].is_number(), "{named}");
    w.ok_json(&format!("{args} --text-field text"));
    w.fails("eval model --tasks completion", 2, &["--data completion=FILE"]);
    // Sweeps divide them as those of --text and questions.
    let cut = "sweep model --no-cache --roles fc_in --layers 0 --size rate=9";
    w.ok(&format!("{cut} --tasks text --data text=text.jsonl --evaluation window=64 -o texts"));
    // A fifth of the questions is one or more.
    let rows = std::fs::read_to_string(w.path("questions.jsonl")).unwrap();
    w.write("twice.jsonl", format!("{}\n{rows}", rows.trim_end()));
    let data = "--data multiple_choice=twice.jsonl";
    let named = w.ok_json(&format!("{cut} --tasks multiple_choice {data} -o named"));
    let own = w.ok_json(&format!("{cut} --tasks questions --data questions=twice.jsonl -o own"));
    let cells = |found: &Value| found["sweep"]["cells"].clone();
    assert!(cells(&named).as_array().is_some_and(|cells| !cells.is_empty()), "{named}");
    assert_eq!(cells(&named), cells(&own));
    // An option that none of the tasks reads.
    let unread = "eval model --tasks questions --data questions=questions.jsonl --window 64";
    w.fails(unread, 2, &["--window applies to none of the tasks", "--text"]);
}

#[test]
fn a_smaller_stride_gives_context_and_counts_the_same_text() {
    let w = Workshop::new();
    let whole = w.ok_json("eval model --text text.jsonl --window 64");
    let explicit = w.ok_json("eval model --text text.jsonl --window 64 --stride 64");
    assert_eq!(perplexity(&whole), perplexity(&explicit));
    let sliding = w.ok_json("eval model --text text.jsonl --window 64 --stride 16");
    assert_ne!(perplexity(&whole), perplexity(&sliding));
    // Alone, each window loses its first token; sliding, only each document does.
    let windows_lost = counted(&sliding) - counted(&whole);
    assert!(windows_lost >= DOCUMENTS as u64, "{windows_lost}");
    let protocol = |result: &Value| result["linwright"]["protocols"]["text"].clone();
    assert_ne!(protocol(&whole), protocol(&sliding));
    w.fails("eval model --text text.jsonl --window 64 --stride 65", 2, &["stride 65"]);
    w.fails("eval model --text text.jsonl --stride 0", 2, &["stride 0"]);
}

#[test]
fn the_first_token_of_documents_counts_only_after_bos() {
    let w = Workshop::new();
    let with =
        |bos: &str| w.ok_json(&format!("eval model --text text.jsonl --window 256 --bos {bos}"));
    let (always, never, auto) = (with("always"), with("never"), with("auto"));
    assert_eq!(counted(&always) - counted(&never), DOCUMENTS as u64);
    assert_eq!(perplexity(&auto), perplexity(&always), "the tokenizer adds one by itself");
    w.fails("eval model --text text.jsonl --bos sometimes", 2, &["sometimes", "never"]);
}

#[test]
fn joined_documents_are_one_and_a_protocol_of_their_own() {
    let w = Workshop::new();
    let one =
        |join: &str| w.ok_json(&format!("eval model --text text.jsonl --window 64 --join {join}"));
    let (apart, joined) = (one("separate"), one("blank_line"));
    assert!(counted(&joined) > counted(&apart), "the first tokens of documents count");
    assert_eq!(joined["n-samples"]["text"]["effective"], 1);
    let protocol = joined["linwright"]["protocols"]["text"].as_str().unwrap();
    assert!(protocol.contains("joined-blank-line"), "{protocol}");
}

#[test]
fn a_text_file_is_one_document_and_limit_cuts() {
    let w = Workshop::new();
    w.write("one.txt", "Tom saw a boat by the lake. Mira lost the key at noon.");
    let one = w.ok_json("eval model --text one.txt --window 128");
    assert_eq!(one["n-samples"]["text"]["effective"], 1);
    let limited = w.ok_json("eval model --text text.jsonl --window 128 --limit 2");
    assert_eq!(limited["n-samples"]["text"]["effective"], 2);
}

#[test]
fn the_dense_baseline_is_measured_in_the_same_run() {
    let w = Workshop::new();
    w.ok("compress model --keep 0.4 --calibration calibration.jsonl -o small --quiet");
    let result = w.ok_json("eval small --baseline model --text text.jsonl --window 128");
    let alone = w.ok_json("eval model --text text.jsonl --window 128");
    let baseline = &result["linwright"]["baseline"]["text"]["token_perplexity,none"];
    assert_eq!(baseline.as_f64().unwrap(), perplexity(&alone));
    assert_ne!(perplexity(&result), perplexity(&alone));
    let params = &result["linwright"]["params"];
    assert!(params["stored"].as_u64() < params["dense"].as_u64(), "{params}");
}

#[test]
fn a_missed_gate_has_a_code_of_its_own_and_still_shows_the_figures() {
    let w = Workshop::new();
    w.ok("eval model --text text.jsonl --window 128 --max-ppl 1e9");
    let missed = w.run("eval model --text text.jsonl --window 128 --max-ppl 1.5 --json");
    assert_eq!(missed.code, Some(4), "{}", missed.stderr);
    assert!(missed.stderr.contains("above 1.5"), "{}", missed.stderr);
    let result: Value = serde_json::from_str(&missed.stdout).unwrap();
    assert!(perplexity(&result) > 1.5);
    w.fails(
        "eval model --tasks questions --data questions=questions.jsonl --max-ppl 5",
        2,
        &["--max-ppl", "--text"],
    );
    w.fails("eval model", 2, &["no task, text or questions to evaluate", "--tasks questions"]);
}

#[test]
fn weights_are_held_as_asked_and_the_result_says_so() {
    let w = Workshop::new();
    let args = "eval model --text text.jsonl --window 128";
    let [auto, wide, half] =
        ["auto", "f32", "bf16"].map(|dtype| w.ok_json(&format!("{args} --dtype {dtype}")));
    assert_eq!(perplexity(&auto), perplexity(&wide), "the model is stored in f32");
    let off = (perplexity(&half) / perplexity(&wide) - 1.0).abs();
    assert!(off > 0.0 && off < 0.02, "{off}");
    assert!(half.to_string().contains("f32, weights held in bf16"), "{half}");
    assert!(!auto.to_string().contains("held in"), "{auto}");
}

#[test]
fn a_model_held_in_16_bits_is_the_one_exported_in_them() {
    let w = Workshop::new();
    // Norms whose numbers neither type has.
    let (text, mut bytes) = ("model/model.safetensors", w.read("model/model.safetensors"));
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let is_norm = |name: &str| name.contains("norm");
    let norms = header.as_object().unwrap().iter().filter(|(name, _)| is_norm(name));
    let mut changed = 0;
    for (_, tensor) in norms {
        let [from, to] = [0, 1].map(|end| tensor["data_offsets"][end].as_u64().unwrap() as usize);
        for (index, number) in bytes[start + from..start + to].chunks_exact_mut(4).enumerate() {
            number.copy_from_slice(&(1.003_456_7 + index as f32 * 0.001_234_5).to_le_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0);
    w.write(text, bytes);
    let args = "--text text.jsonl --window 128";
    for dtype in ["bf16", "f16"] {
        w.ok(&format!("export model --dtype {dtype} -o {dtype}"));
        let held = w.ok_json(&format!("eval model {args} --dtype {dtype}"));
        let exported = w.ok_json(&format!("eval {dtype} {args}"));
        assert_eq!(perplexity(&held), perplexity(&exported), "{dtype}");
    }
}

/// Metrics of the divergence of a model from its baseline.
const DIVERGENCES: [&str; 8] = [
    "kl_mean",
    "kl_median",
    "kl_p90",
    "kl_p99",
    "kl_p99_9",
    "delta_p_mean",
    "delta_p_rms",
    "same_top_token",
];

fn metric(result: &Value, task: &str, name: &str) -> f64 {
    let found = &result["results"][task][format!("{name},none")];
    found.as_f64().unwrap_or_else(|| panic!("{task} {name}: {found}"))
}

#[test]
fn a_model_is_compared_with_its_baseline_token_by_token() {
    let w = Workshop::new();
    w.ok("compress model --method svd --rank 2 --roles down --dtype f32 -o cut");
    w.write("more.txt", "Tom saw a boat. Mira lost the key by the lake and Tom saw it.");
    let args = "eval cut --text text.jsonl --more-texts more.txt --tasks questions \
                --data questions=questions.jsonl --window 64";
    let alone = w.ok_json(args);
    let both = w.ok_json(&format!("{args} --baseline model"));
    for task in ["text", "text:more"] {
        for name in DIVERGENCES {
            assert!(alone["results"][task].get(format!("{name},none")).is_none(), "{name}");
            assert!(metric(&both, task, name).is_finite());
        }
        assert!(metric(&both, task, "kl_mean") > 0.0);
        assert!(metric(&both, task, "kl_p99") >= metric(&both, task, "kl_median"));
        assert!((0.0..=1.0).contains(&metric(&both, task, "same_top_token")));
        let (one, two) = (&alone["results"][task], &both["results"][task]);
        assert_eq!(one["token_perplexity,none"], two["token_perplexity,none"]);
    }
    assert!(both["results"]["text"]["kl_mean_stderr,none"].as_f64().unwrap() > 0.0);
    assert_eq!(alone["results"]["multiple_choice"], both["results"]["multiple_choice"]);
    // The baseline has the figures that it has alone.
    let dense = w.ok_json(&args.replace("cut", "model"));
    let shown = w.ok(&format!("{args} --baseline model"));
    let perplexity = format!("{:.4}", perplexity(&dense));
    assert!(shown.contains(&perplexity) && shown.contains("kl_p99_9"), "{shown}");
    let same = w.ok_json("eval model --text text.jsonl --window 64 --baseline model");
    assert_eq!((metric(&same, "text", "kl_mean"), metric(&same, "text", "kl_p99_9")), (0.0, 0.0));
    assert_eq!(metric(&same, "text", "same_top_token"), 1.0);
}

#[test]
fn log_probabilities_in_a_file_stand_for_the_model_that_wrote_them() {
    let w = Workshop::new();
    w.ok("compress model --method svd --rank 2 --roles down --dtype f32 -o cut");
    let line = "Tom saw a boat. Mira lost the key by the lake and Tom saw it.\n";
    w.write("text.txt", line.repeat(40));
    let save = "eval model --text text.txt --window 32 --limit 5 --save-logits base.kld";
    let saved = w.ok_json(save);
    // Each window counts the tokens after its first half.
    assert_eq!(counted(&saved), 5 * (32 - 1 - 16));
    assert!(saved["linwright"]["protocols"]["text"].as_str().unwrap().contains("second-half"));
    w.fails(save, 2, &["base.kld"]);
    w.ok(&format!("{save} --force"));
    let halves = "eval cut --text text.txt --window 32 --limit 5 --second-half";
    let live = w.ok_json(&format!("{halves} --baseline model"));
    let stored = w.ok_json("eval cut --text text.txt --baseline base.kld");
    assert_eq!(perplexity(&live), perplexity(&stored));
    for name in DIVERGENCES {
        let (live, stored) = (metric(&live, "text", name), metric(&stored, "text", name));
        assert!((live - stored).abs() < 1e-3 * live.abs().max(0.01), "{name}: {live} {stored}");
    }
    // The model itself, against what it wrote.
    let own = w.ok_json("eval model --text text.txt --baseline base.kld");
    assert!(metric(&own, "text", "kl_mean").abs() < 1e-4);
    let fewer = w.ok_json("eval cut --text text.txt --baseline base.kld --limit 2");
    assert_eq!(counted(&fewer), 2 * 15);
    let planned = w.ok_json("eval cut --text text.txt --baseline base.kld --dry-run");
    assert_eq!(planned["tasks"][0]["models"], 1, "{planned}");
    w.ok("eval cut --text text.txt --baseline base.kld --max-memory 2GB");
    w.write("short.txt", "Tom saw a boat.");
    w.fails("eval cut --text short.txt --baseline base.kld", 1, &["no whole windows"]);
    let short = "eval cut --text short.txt --save-logits no.kld";
    w.fails(short, 1, &["no whole windows"]);
    assert!(!w.path("no.kld").exists());
    w.write("other.txt", line.repeat(40).replacen("boat", "lake", 1));
    w.fails("eval cut --text other.txt --baseline base.kld", 1, &["window 0", "other tokens"]);
    let tasks = "eval cut --baseline base.kld --tasks questions --data questions=questions.jsonl";
    w.fails(tasks, 2, &["needs one text"]);
    w.fails("eval cut --text text.jsonl --second-half", 2, &["one text", "join"]);
    w.fails("eval cut --text text.txt --second-half --stride 4", 2, &["--stride"]);
    let bytes = std::fs::read(w.path("base.kld")).unwrap();
    std::fs::write(w.path("short.kld"), &bytes[..bytes.len() - 9]).unwrap();
    w.fails("eval cut --text text.txt --baseline short.kld", 1, &["short.kld", "bytes, found"]);
}
