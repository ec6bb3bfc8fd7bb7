//! `compress --recover`: training of what was replaced, on the loss of the next token.

use crate::families::Tiny;
use crate::interruption::stop_at;
use crate::workshop::Workshop;
use serde_json::Value;

const PLAN: &str = "compress model --rank 2 --roles up,down --calibration calibration.jsonl:num_tokens=1500,seq_len=64";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn recovery_lowers_the_held_out_loss_and_stands_in_the_results() {
    let w = Workshop::new();
    let json = w.ok_json(&format!("{PLAN} --recover 40:rate=0.01 -o out"));
    let recovery = &json["recovery"];
    assert_eq!((&recovery["steps"], &recovery["rate"]), (&40.into(), &0.01.into()));
    assert_eq!(recovery["kept"], true, "{recovery}");
    assert!(number(&recovery["loss_after"]) < number(&recovery["loss_before"]), "{recovery}");
    assert!(number(&recovery["seconds"]) > 0.0);
    assert_eq!(recovery["parameters"], json["summary"]["targeted"], "slots without biases");

    let saved = &w.json("out/results.json")["recovery"];
    assert_eq!(saved["loss_after"], recovery["loss_after"]);
    assert!(saved.get("seconds").is_none(), "times have a file of their own: {saved}");
    assert!(number(&w.json("out/measured.json")["measured"]["recovery"]["seconds"]) > 0.0);
    let curve = w.text("out/curves.jsonl");
    let points: Vec<Value> =
        curve.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points.len(), 11, "before, and after each tenth of the steps: {curve}");
    assert!(points.iter().all(|point| point["stage"] == "recovery"), "{curve}");
    assert_eq!(points[0]["point"]["validation"], recovery["loss_before"]);

    let shown = w.ok(&format!("{PLAN} --recover 40:rate=0.01 -o again"));
    for said in ["held-out loss", "at step", "judge the result on other text"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    assert!(w.weights("again") == w.weights("out"));
    w.ok(&format!("{PLAN} -o without"));
    assert!(w.weights("without") != w.weights("out"));
}

#[test]
fn a_recovery_that_only_harms_is_thrown_away_and_told() {
    let w = Workshop::new();
    // Of a trained model: steps of any size may help one of random weights.
    let plan = "compress pocket --keep 0.5 --roles up --layers 1 --calibration pocket:num_tokens=1500,seq_len=64";
    let shown = w.ok(&format!("{plan} --recover 3:rate=30 -o out"));
    assert!(
        shown.contains("thrown away") && shown.contains("--recover STEPS:rate=RATE"),
        "{shown}"
    );
    assert_eq!(w.json("out/results.json")["recovery"]["kept"], false);
    // Windows that choose the step are held out of the fits, whatever becomes of the training.
    w.ok(&format!("{plan} --recover 2:rate=60 -o other"));
    assert!(w.weights("out") == w.weights("other"));
    w.ok(&format!("{plan} -o without"));
    assert!(w.weights("out") != w.weights("without"));
}

#[test]
fn recovery_goes_with_plans_divided_budgets_and_methods_that_need_no_text() {
    let w = Workshop::new();
    let data = "--calibration calibration.jsonl:num_tokens=1500,seq_len=64";
    let edits = "edits:\n  - {sites: {roles: [up]}, method: {method: svd}, size: {rank: 2}}\n";
    w.write("plan.yaml", edits);
    for how in [
        "--plan plan.yaml",
        "--method svd --allocate spectrum --keep 0.5",
        "--method auto --keep 0.5 --layers 0",
        "--method laser --size rho=0.25",
    ] {
        let args = format!("compress model {how} {data} --recover 5 --force -o out");
        let json = w.ok_json(&args);
        let recovery = &json["recovery"];
        assert!(number(&recovery["loss_after"]) <= number(&recovery["loss_before"]), "{how}");
    }
    w.fails(
        "compress model --method svd --rank 2 --recover 5 -o none",
        2,
        &["no calibration text", "--calibration"],
    );
}

#[test]
fn stopped_and_killed_it_resumes_to_the_same_bytes() {
    let whole = Workshop::new();
    let command = format!("{PLAN} --recover 60 -o out");
    whole.ok(&command);
    let w = Workshop::new();
    for name in ["-KILL", "-INT", "-KILL"] {
        let (status, said) = stop_at(&w, &command, "recovery training", name);
        assert_eq!(status.code(), (name == "-INT").then_some(75), "{name}: {said}");
        assert!(!w.path("out").exists());
    }
    let (status, said) = stop_at(&w, &command, "timing both models", "-KILL");
    assert_eq!(status.code(), None, "{said}");
    let last = w.run(&command);
    last.succeeded("the last");
    for file in ["model.safetensors", "results.json", "curves.jsonl"] {
        let file = format!("out/{file}");
        assert!(w.read(&file) == whole.read(&file), "{file}");
    }
    assert_eq!(w.unfinished().len(), 0);
}

#[test]
fn the_threads_change_no_bit() {
    let w = Workshop::new();
    for threads in [1, 2] {
        w.ok(&format!("{PLAN} --recover 10 --threads {threads} -o out{threads}"));
    }
    assert!(w.weights("out1") == w.weights("out2"));
}

#[test]
fn a_dry_run_estimates_recovery_and_writes_nothing() {
    let w = Workshop::new();
    let before = w.names();
    let dry = w.ok_json(&format!("{PLAN} --recover 50 -o out --dry-run"));
    let parameters = dry["estimate"]["targeted"].as_u64().unwrap();
    assert_eq!(dry["recovery"]["memory_bytes"], 32 * parameters);
    // The whole command's memory has it as well.
    let recovery = dry["memory"]["recovery"].as_u64().unwrap();
    assert!(recovery > 32 * parameters && recovery < 32 * parameters + (1 << 30), "{dry}");
    assert!(number(&dry["recovery"]["seconds"]) > 0.0);
    let shown = w.ok(&format!("{PLAN} --recover 50 -o out --dry-run"));
    assert!(shown.contains("recovery: then about"), "{shown}");
    assert_eq!(w.names(), before);
}

#[test]
fn what_cannot_recover_is_refused_before_any_work() {
    let w = Workshop::new();
    let tiny = Tiny::all().into_iter().find(|tiny| tiny.name == "bert-headless").unwrap();
    tiny.write(&w);
    let before = w.names();
    for (args, words) in [
        ("--recover 0", &["--recover"][..]),
        ("--recover 5:rate=0", &["rate is 0", "positive"]),
        ("--recover rate=0.1", &["steps is rate=0.1"]),
        ("--recover 5 --offload", &["--recover", "--offload"]),
    ] {
        let said = w.fails(&format!("{PLAN} {args} -o out"), 2, words);
        assert!(!said.contains("fitting"), "{said}");
    }
    let encoder = PLAN.replace("model", "bert-headless");
    let said = w.fails(&format!("{encoder} --recover 5 -o out"), 2, &["encoder", "next token"]);
    assert!(said.contains("leave out --recover") && !said.contains("fitting"), "{said}");
    assert_eq!(w.names(), before);
    let huge = format!("{PLAN} --recover 5:rate=1e38 -o out");
    w.fails(&huge, 1, &["recovery training"]);
    assert_eq!(w.unfinished().len(), 0, "the same steps would fail again");
}
