//! `eval --tasks`: tasks of files and those that come along.

use crate::workshop::Workshop;
use serde_json::{Value, json};

const TASK: &str = "task: boats\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\n\
                    test_split: test\noutput_type: multiple_choice\ndoc_to_text: \"{{question}} A:\"\n\
                    doc_to_target: gold\ndoc_to_choice: choices\nmetadata: {version: 2.0}\n";

/// A workshop with a task of six questions.
fn workshop() -> Workshop {
    let w = Workshop::new();
    let row = |i: usize| json!({"question": format!("Who saw boat {i}?"), "choices": ["Tom", "Mira did"], "gold": i % 2});
    let rows: Vec<String> = (0..6).map(|i| row(i).to_string()).collect();
    w.write("rows.jsonl", rows.join("\n"));
    w.write("boats.yaml", TASK);
    w
}

#[test]
fn a_task_file_gives_the_results_of_the_harness() {
    let w = workshop();
    let result = w.ok_json(
        "eval model --tasks boats.yaml --log-samples samples --bootstrap-iters 100 --max-length 64 \
         --batch-size 1",
    );
    let figures = &result["results"]["boats"];
    assert!((0.0..=1.0).contains(&figures["acc,none"].as_f64().unwrap()), "{result}");
    assert!(figures["acc_norm_stderr,none"].is_number());
    assert_eq!((&figures["name"], &figures["sample_len"]), (&json!("boats"), &json!(6)));
    assert_eq!(
        (&result["versions"]["boats"], &result["n-shot"]["boats"]),
        (&json!(2.0), &json!(0))
    );
    assert_eq!(result["configs"]["boats"]["doc_to_target"], "gold");
    assert_eq!(result["linwright"]["protocols"]["boats"], "lm-eval_0-shot_bos-auto");
    let samples = w.text("samples/samples_boats.jsonl");
    let first: Value = serde_json::from_str(samples.lines().next().unwrap()).unwrap();
    assert_eq!(samples.lines().count(), 6);
    assert_eq!(first["arguments"]["gen_args_1"]["arg_1"], " Mira did");
    let shown = w.ok("eval model --tasks boats.yaml --limit 3");
    assert!(shown.contains("boats") && shown.contains("acc_norm"), "{shown}");
}

#[test]
fn the_standard_tasks_take_their_rows_from_files() {
    let w = workshop();
    w.write("sst2.tsv", "sentence\tlabel\nTom saw a boat\t1\nMira lost the key\t0\n");
    let args = "eval model --tasks sst2 --data sst2=sst2.tsv --data sst2:train=sst2.tsv";
    let plain = w.ok_json(args);
    assert_eq!(plain["n-samples"]["sst2"], json!({"original": 2, "effective": 2}));
    let shots = w.ok_json(&format!("{args} --num-fewshot 1 --fewshot-seed 5 --limit 1"));
    assert_eq!(shots["n-shot"]["sst2"], 1);
    assert_eq!(shots["n-samples"]["sst2"], json!({"original": 2, "effective": 1}));
    w.fails("eval model --tasks sst2", 1, &["--data sst2:validation=FILE"]);
    w.fails("eval model --tasks nothing_like_any", 2, &["arc_easy", ".yaml"]);
    w.fails("eval model --tasks sst", 2, &["nearest are sst2"]);
    w.fails("eval model --tasks boats.yaml --data sst2=x.tsv", 2, &["sst2, which is no task here"]);
    w.fails("eval model --tasks boats.yaml --data sst2", 2, &["TASK=FILE"]);
    w.fails("eval model --tasks boats.yaml,boats.yaml", 2, &["two tasks of the name boats"]);
    w.fails("eval model --tasks boats.yaml --batch-size 0", 2, &["thousands of tokens"]);
}

#[test]
fn what_an_interrupted_evaluation_kept_is_used_and_another_is_refused() {
    let w = workshop();
    let args = "eval model --tasks boats.yaml --output result.json";
    let whole = w.ok_json(args);
    let partial = w.path("result.json.partial");
    assert!(!partial.exists(), "journals go once the result is written");
    std::fs::create_dir(w.path("folder")).unwrap();
    w.fails("eval model --tasks boats.yaml --output folder", 2, &["folder", "is a directory"]);
    std::fs::create_dir(&partial).unwrap();
    let journal = partial.join(format!("boats-{}.jsonl", hash(&whole)));
    std::fs::write(&journal, "{\"evaluation\":{\"version\":\"0\"}}\n").unwrap();
    w.fails(args, 6, &["another evaluation", "version"]);
    std::fs::remove_dir_all(&partial).unwrap();
    assert_eq!(w.ok_json(args)["results"], whole["results"]);
}

/// The first letters of the hash of the model.
fn hash(result: &Value) -> String {
    result["linwright"]["model_sha256"].as_str().unwrap()[..12].to_owned()
}

#[test]
fn two_models_are_compared_item_by_item() {
    let w = workshop();
    w.ok("compress model --keep 0.4 --dataset calibration.jsonl -o small --quiet");
    let result = w.ok_json("eval small --baseline model --tasks boats.yaml");
    let compared = result["linwright"]["comparisons"].as_array().unwrap();
    assert_eq!(compared.len(), 2, "{result}");
    assert_eq!((&compared[0]["metric"], &compared[0]["items"]), (&json!("acc"), &json!(6)));
    assert!(compared[0]["mcnemar_p"].as_f64().unwrap() <= 1.0);
    let shown = w.ok("eval small --baseline model --tasks boats.yaml");
    assert!(shown.contains("McNemar"), "{shown}");
}

#[test]
fn the_protocols_of_papers_are_tasks() {
    let w = workshop();
    let args =
        "eval model --tasks wikitext2_token_ppl_128 --data wikitext2_token_ppl_128=text.jsonl";
    let result = w.ok_json(args);
    assert_eq!(
        result["linwright"]["protocols"]["wikitext2_token_ppl_128"],
        "wikitext2_token_ppl_128"
    );
    let counted = result["linwright"]["tokens_counted"].as_u64().unwrap();
    assert!(counted > 0 && counted.is_multiple_of(127), "{counted}");
    w.fails("eval model --tasks rotor_paper", 2, &["--data rotor_paper=FILE"]);
}

#[test]
fn broken_rows_are_named_by_line() {
    let w = workshop();
    for (rows, said) in [
        ("{\"question\": \"Q\", \"choices\": [\"a\"], \"gold\": 0}\n{", "rows.jsonl, line 2"),
        ("{\"question\": \"Q\", \"choices\": [], \"gold\": 0}", "doc_to_choice of task boats"),
        ("{\"choices\": [\"a\"], \"gold\": 0}", "doc_to_text of task boats"),
        ("[1]", "expected an object"),
    ] {
        w.write("rows.jsonl", rows);
        w.fails("eval model --tasks boats.yaml", 1, &[said]);
    }
    w.write("boats.yaml", "task: boats\nprocess_docs: !function os.system\ntest_split: test\n");
    w.fails("eval model --tasks boats.yaml", 1, &["boats.yaml", "never executed"]);
}
