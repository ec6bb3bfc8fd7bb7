//! `eval --tasks laser_...`: the data sets of LASER.

use crate::workshop::Workshop;
use serde_json::{Value, json};

/// A workshop with claims, facts and questions.
fn workshop() -> Workshop {
    let w = Workshop::new();
    let claim = |i: usize| json!({"claim": format!("Tom saw boat {i}"), "label": (["SUPPORTS", "REFUTES"][i % 2])});
    let lines = |rows: Vec<Value>| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    w.write("dev.jsonl", lines((0..6).map(claim).collect()));
    w.write("test.jsonl", lines((4..10).map(claim).collect()));
    let fact = |i: usize| json!({"prompt": format!("Tom {i} lives in"), "rephrase_prompt": "Tom is from", "ground_truth": "Rome"});
    w.write("facts.json", json!((0..3).map(fact).collect::<Vec<_>>()).to_string());
    w
}

fn samples(w: &Workshop, name: &str) -> Vec<Value> {
    let text = w.text(&format!("samples/samples_{name}.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn files_are_read_in_order_and_split() {
    let w = workshop();
    let args = "eval model --tasks laser_fever --data laser_fever=dev.jsonl \
                --data laser_fever=test.jsonl --log-samples samples --force";
    let all = w.ok_json(args);
    // Two of the claims come again.
    assert_eq!(all["n-samples"]["laser_fever"], json!({"original": 10, "effective": 10}));
    let config = &all["configs"]["laser_fever"];
    assert_eq!(config["left_out"]["duplicate claims"], 2);
    assert_eq!((&config["scoring"], &config["files"]), (&json!("correct"), &json!(2)));
    let protocol = "laser-correct_split-all_bos-auto";
    assert_eq!(all["linwright"]["protocols"]["laser_fever"], protocol);
    let records = samples(&w, "laser_fever");
    assert_eq!(records.len(), 10);
    assert_eq!(records[9]["question"], "Tom saw boat 9");
    assert_eq!(records[0]["top_10_tokens"].as_array().unwrap().len(), 10);
    let (total, parts) = (&records[0]["total_logprob"], ["question_logprob", "answer_logprob"]);
    let sum: f64 = parts.iter().map(|part| records[0][part].as_f64().unwrap()).sum();
    assert!((total.as_f64().unwrap() - sum).abs() < 1e-9, "{total} {sum}");
    let right = records.iter().filter(|record| record["correct"] == true).count();
    assert_eq!(all["results"]["laser_fever"]["acc,none"], right as f64 / 10.0);
    // The parts of the split are the whole.
    let of = |split: &str| {
        let part = w.ok_json(&format!("{args} --laser-split {split} --laser-scoring compat"));
        let count = part["n-samples"]["laser_fever"]["effective"].as_f64().unwrap();
        (count, count * part["results"]["laser_fever"]["log_loss,none"].as_f64().unwrap())
    };
    let (first, rest) = (of("validation"), of("test"));
    assert_eq!((first.0, rest.0), (2.0, 8.0));
    let whole = all["results"]["laser_fever"]["log_loss,none"].as_f64().unwrap();
    assert!((first.1 + rest.1 - 10.0 * whole).abs() < 1e-4, "{first:?} {rest:?} {whole}");
}

#[test]
fn answers_are_written_or_compared_with_the_likeliest_token() {
    let w = workshop();
    let args = "eval model --tasks laser_counterfact --data laser_counterfact=facts.json";
    let written = w.ok_json(&format!("{args} --log-samples samples"));
    let results = &written["results"];
    assert!(results["laser_counterfact"]["f1,none"].is_number(), "{results}");
    assert!(results["laser_counterfact_paraphrase"]["acc,none"].is_number(), "{results}");
    let protocols = &written["linwright"]["protocols"]["laser_counterfact"];
    assert_eq!(protocols, "laser-correct_new-10_split-all_bos-auto");
    assert_eq!(samples(&w, "laser_counterfact").len(), 6);
    let next = w.ok_json(&format!("{args} --laser-new-tokens 1"));
    let losses = [&written, &next]
        .map(|result| result["results"]["laser_counterfact"]["log_loss,none"].as_f64().unwrap());
    assert!((losses[0] - losses[1]).abs() < 1e-6, "{losses:?}");
    let shown = w.ok(&format!("{args} --limit 2 --baseline model"));
    assert!(shown.contains("top10") && shown.contains("log_loss"), "{shown}");
}

#[test]
fn what_is_wrong_is_said() {
    let w = workshop();
    let fever = "eval model --tasks laser_fever";
    let data = "--data laser_fever=dev.jsonl";
    w.fails(fever, 1, &["give --data laser_fever=FILE"]);
    w.fails(
        &format!("{fever} --data laser_fever:dev=dev.jsonl"),
        2,
        &["choose with --laser-split"],
    );
    w.fails(&format!("{fever} --data laser_fever=facts.json"), 1, &["facts.json, line 1", "claim"]);
    w.fails(&format!("{fever} {data} --laser-split dev"), 2, &["validation"]);
    w.fails(&format!("{fever} {data} --laser-scoring paper"), 2, &["compat"]);
    w.fails(&format!("{fever} {data} --laser-new-tokens 3"), 2, &["applies to none of the tasks"]);
    w.fails(
        "eval model --text text.jsonl --laser-split test",
        2,
        &["--laser-split applies to none of the tasks"],
    );
    w.fails("eval model --tasks laser_fevr", 2, &["nearest are laser_fever"]);
    let listed = w.ok("ls tasks");
    assert_eq!(listed.lines().filter(|line| line.starts_with("laser_")).count(), 10, "{listed}");
    w.write("empty.jsonl", "");
    w.fails(&format!("{fever} --data laser_fever=empty.jsonl"), 1, &["empty.jsonl"]);
}
