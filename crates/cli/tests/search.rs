//! `search`: a rank for each linear layer, by questions and by a text.

use crate::workshop::Workshop;
use serde_json::{Value, json};

/// A workshop with this number of questions.
fn workshop(count: usize) -> Workshop {
    let w = Workshop::new();
    let line = |i: usize| {
        let question = json!({"question": format!("Who saw boat {i}?"), "choices": ["Tom", "Mira", "the key"], "answer": i % 3});
        format!("{question}\n")
    };
    w.write("q.jsonl", (0..count).map(line).collect::<String>());
    w
}

const CALIBRATION: &str = "--calibration calibration.jsonl:num_tokens=2000,seq_len=64";

/// Decisions of a result, without checks.
fn decided(result: &Value) -> Vec<(String, Value)> {
    let decisions = result["search"]["decisions"].as_array().unwrap();
    decisions.iter().map(|own| (own["site"].to_string(), own["rank"].clone())).collect()
}

#[test]
fn roles_and_patterns_choose_what_a_search_visits() {
    let w = workshop(30);
    let args = format!(
        "search model --tasks questions --data questions=q.jsonl --delta 0.1 --ranks 2 {CALIBRATION}"
    );
    for (chosen, expected) in [
        ("--roles gate,key --layers 1", vec!["mlp.gate_proj", "self_attn.k_proj"]),
        ("--sites *.mlp.* --roles down --layers 1", vec!["mlp.down_proj"]),
        ("--sites re:[qo]_proj --layers 1", vec!["self_attn.o_proj", "self_attn.q_proj"]),
    ] {
        let found = w.ok_json(&format!("{args} {chosen} -o out --force"));
        let sites: Vec<String> = decided(&found).into_iter().map(|(site, _)| site).collect();
        let expected: Vec<String> =
            expected.iter().map(|name| format!("\"model.layers.1.{name}\"")).collect();
        assert_eq!(sites, expected, "{chosen}");
    }
    let none = w.fails(&format!("{args} --roles query_key_value -o none"), 2, &[]);
    assert!(none.contains("no layer has a slot of role query_key_value"), "{none}");
}

#[test]
fn a_search_by_questions_leaves_a_model_its_plan_and_its_decisions() {
    let w = workshop(60);
    let args = format!(
        "search model --tasks questions --data questions=q.jsonl --delta 0.1 --evaluation shuffle=42 {CALIBRATION}"
    );
    let found = w.ok_json(&format!("{args} -o out"));
    let decisions = found["search"]["decisions"].as_array().unwrap();
    let lines: Vec<Value> =
        w.text("out/decisions.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), decisions.len());
    for (line, own) in lines.iter().zip(decisions) {
        assert!(line.get("effort").is_none() && own["effort"]["passes"].as_u64().is_some());
        assert_eq!(line["site"], own["site"]);
    }
    let indices: Vec<u64> = decisions.iter().map(|own| own["index"].as_u64().unwrap()).collect();
    assert!(indices.is_sorted_by(|a, b| a > b) && indices.last() == Some(&0), "{indices:?}");
    // Figures on the documents that selected, and on the others.
    let task = &found["search"]["figures"]["task"];
    assert_eq!((&task["documents"], &task["found"]["counts"]["items"]), (&json!(12), &json!(48)));
    assert!(w.text("out/report.md").contains("12 search documents, which selected"));
    assert!(w.text("out/report.html").contains("Kept share of the parameters"));
    let shown = w.ok("report out/results.json --format markdown");
    assert!(shown.contains("Decisions, from the last layer down"), "{shown}");
    // The saved model has the reported number of parameters, and the plan fits the same ranks
    // again.
    let parameters = &found["search"]["parameters"][1];
    assert_eq!(&w.ok_json("inspect out --slots")["parameters"], parameters);
    let again = w.ok_json(&format!("compress model --plan out/plan.json {CALIBRATION} -o again"));
    assert_eq!(again["plan"], found["search"]["plan"]);
    // The published steps decide the same.
    let plain = w.ok_json(&format!("{args} --no-share -o plain"));
    assert_eq!(decided(&plain), decided(&found));
    let passes = |result: &Value| result["search"]["effort"]["passes"].as_u64().unwrap();
    assert!(2 * passes(&found) < passes(&plain));
    let told = w.ok(&format!("{args} --dry-run -o none"));
    assert!(told.contains("time of the evaluations"), "{told}");
}

#[test]
fn a_search_by_a_text_keeps_its_perplexity_below_the_bound() {
    let w = workshop(0);
    let args =
        format!("search model --text text.jsonl --evaluation window=8 --start 3 {CALIBRATION}");
    let found = w.ok_json(&format!("{args} --growth 1.01 -o out --title Ranks"));
    let figures = &found["search"]["figures"]["text"];
    let number = |value: &Value| value.as_f64().unwrap();
    let linears = found["search"]["linears"].as_u64().unwrap();
    assert_eq!(decided(&found).len() as u64, linears - 3);
    let [dense, own] = [0, 1].map(|index| number(&figures["search"][index]));
    assert!(own <= dense * 1.01f64.powi(linears as i32));
    assert!(number(&figures["windows"][0]) < number(&figures["windows"][1]));
    assert!(w.text("out/report.md").starts_with("# Ranks"));
    // No growth at all allows fewer ranks.
    let none = w.ok_json(&format!("{args} --growth 0.5 -o none"));
    assert!(decided(&none).iter().all(|(_, rank)| rank.is_null()));
    let published = args.replace("window=8", "window=8,compat");
    let one = w.ok_json(&format!("{published} --ranks 2 -o one"));
    let ranks = |own: &Value| own["ranks"].as_array().unwrap().len();
    assert!(one["search"]["decisions"].as_array().unwrap().iter().all(|own| ranks(own) == 2));
}

#[test]
fn bad_searches_are_refused_before_any_work() {
    let w = workshop(15);
    let c = CALIBRATION;
    for (args, words) in [
        (
            format!("--tasks questions --data questions=q.jsonl {c}"),
            vec!["15 documents, at least 16"],
        ),
        (
            format!("--text text.jsonl --tasks questions --data questions=q.jsonl {c}"),
            vec!["not by both"],
        ),
        (
            format!("--text text.jsonl --limit 4 --evaluation window=8 {c}"),
            vec!["4 rows, at least 5"],
        ),
        (format!("--text text.jsonl {c}"), vec!["512 tokens", "--evaluation window=256 or less"]),
        (format!("--text text.jsonl --evaluation window=200 {c}"), vec!["one window of 200"]),
        (
            format!("--text text.jsonl --evaluation window=8 --growth 0 {c}"),
            vec!["--growth 0", "above zero"],
        ),
        (format!("--text text.jsonl --evaluation window=8 --ranks 0 {c}"), vec!["--ranks 0"]),
        (
            format!("--text text.jsonl --evaluation window=8 --start 99 {c}"),
            vec!["at least 99", "--start"],
        ),
        (format!("--text text.jsonl --evaluation window=8 --delta nan {c}"), vec!["--delta"]),
        ("--text text.jsonl --evaluation window=8".to_owned(), vec!["no calibration text"]),
        (c.to_owned(), vec!["give one of --tasks NAME"]),
    ] {
        let before = w.names();
        w.fails(&format!("search model {args} -o out"), 2, &words);
        assert_eq!(w.names(), before, "{args}");
    }
    // The calibration text is the text that selects.
    let args =
        "search model --text text.jsonl --evaluation window=8 --roles fc_in --layers 0 --ranks 1";
    let told = w.run(&format!("{args} --calibration text.jsonl:seq_len=16 -o out"));
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stderr.contains("with the calibration text"), "{}", told.stderr);
    assert!(w.text("out/report.md").contains("ranks may be too small"));
}

#[test]
fn tasks_of_the_harness_and_of_laser_are_divided() {
    let w = workshop(0);
    let rows =
        |row: &dyn Fn(usize) -> Value| (0..30).map(|i| format!("{}\n", row(i))).collect::<String>();
    let claim = |i: usize| json!({"claim": format!("Tom saw boat {i}"), "label": (["SUPPORTS", "REFUTES"][i % 2])});
    let fact = |i: usize| json!({"question": format!("Who saw boat {i}?"), "answer": i % 2});
    w.write("claims.jsonl", rows(&claim));
    w.write("rows.jsonl", rows(&fact));
    let task = json!({
        "task": "boats", "test_split": "test", "output_type": "multiple_choice",
        "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "doc_to_text": "{{question}}", "doc_to_choice": ["Tom", "Mira"], "doc_to_target": "answer",
        "metric_list": [{"metric": "acc"}],
    });
    w.write("boats.yaml", task.to_string());
    for (task, metric) in [
        ("--tasks laser_fever --data laser_fever=claims.jsonl", "acc"),
        ("--tasks boats.yaml", "acc"),
    ] {
        let args = format!("search model --roles fc_out --delta 0.2 {task} {CALIBRATION} --force");
        let found = w.ok_json(&format!("{args} -o out"));
        let figures = &found["search"]["figures"]["task"];
        assert_eq!(figures["metric"], metric, "{figures}");
        assert_eq!(
            (&figures["documents"], &figures["found"]["counts"]["items"]),
            (&json!(6), &json!(24))
        );
        assert_eq!(decided(&w.ok_json(&format!("{args} --no-share -o plain"))), decided(&found));
    }
    let error = w.fails(
        &format!("search model --tasks questions --data questions=claims.jsonl {CALIBRATION} -o x"),
        1,
        &["claims.jsonl"],
    );
    assert!(!error.contains("decomposing"), "{error}");
}
