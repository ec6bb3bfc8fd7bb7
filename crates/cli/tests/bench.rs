//! `bench`: tables, figures and refusals.

use crate::workshop::Workshop;
use serde_json::Value;

/// Small enough for a test, with all that a bench has.
const SMALL: &str = "--rows 16 --rounds 2 --threads 2 --quiet";

fn labels(bench: &Value) -> Vec<&str> {
    let results = bench["results"].as_array().unwrap();
    results.iter().map(|entry| entry["label"].as_str().unwrap()).collect()
}

#[test]
fn operators_are_timed_beside_dense() {
    let w = Workshop::new();
    let bench =
        w.ok_json(&format!("bench operators rotor low_rank --dims 64,64x128 --seed 3 {SMALL}"));
    let once = ["rotor", "low_rank rank=64", "dense"];
    assert_eq!(labels(&bench), [once, once].concat());
    assert_eq!(
        (&bench["seed"], &bench["rounds"], &bench["dtype"]),
        (&3.into(), &2.into(), &"f32".into())
    );
    assert_eq!(bench["machine"]["threads"], 2);
    for entry in bench["results"].as_array().unwrap() {
        assert_eq!(entry["checked"]["oracle"], "dense_weight");
        let passes = entry["passes"].as_array().unwrap();
        let names: Vec<&Value> = passes.iter().map(|pass| &pass["pass"]).collect();
        let square = entry["shape"]["out"] == entry["shape"]["inp"];
        let undone = square && entry["label"] == "rotor";
        let more: &[&str] = if undone { &["inverse", "dense-inverse", "log-det"] } else { &[] };
        assert_eq!(names, [&["forward", "backward", "training"], more].concat());
        for pass in passes {
            assert_eq!(pass["rounds_milliseconds"].as_array().unwrap().len(), 2);
            assert!(pass["milliseconds"]["median"].as_f64().unwrap() > 0.0);
            // The dense operator has no inverse to compare with.
            let alone = ["inverse", "dense-inverse", "log-det"];
            let compared = !alone.contains(&pass["pass"].as_str().unwrap());
            assert_eq!(pass["times_dense"].as_f64().is_some_and(|times| times > 0.0), compared);
        }
        let peak = &entry["forward_peak_bytes"];
        assert_eq!(peak.is_u64(), cfg!(target_os = "linux"), "{peak}");
    }
    assert_eq!(bench["results"][3]["shape"], serde_json::json!({"out": 64, "inp": 128}));
}

#[test]
fn a_bench_without_names_has_every_kind() {
    let w = Workshop::new();
    let plan = "bench operators --dims 256 --rows 4 --rounds 1 --passes forward --no-memory -q";
    let bench = w.ok_json(plan);
    let listed = w.ok_json("ls operators");
    let timed = bench["results"].as_array().unwrap();
    let skipped = bench["skipped"].as_array().unwrap();
    assert_eq!(timed.len() + skipped.len(), listed.as_array().unwrap().len());
    assert!(timed.iter().all(|entry| entry["forward_peak_bytes"].is_null()));
    let shown = w.ok(plan);
    for said in ["operator", "ms (min..max)", "x dense", "keep", "not measured", "seed 0", "cores"]
    {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
}

#[test]
fn double_precision_has_all_but_training() {
    let w = Workshop::new();
    let bench =
        w.ok_json(&format!("bench operators circulant_diagonal --dims 12 --dtype f64 {SMALL}"));
    assert_eq!(bench["dtype"], "f64");
    let entry = &bench["results"][0];
    let passes = entry["passes"].as_array().unwrap();
    let names: Vec<&Value> = passes.iter().map(|pass| &pass["pass"]).collect();
    assert_eq!(names, ["forward", "backward", "inverse", "dense-inverse", "log-det"]);
    assert!(entry["checked"]["largest_error"].as_f64().unwrap() < 1e-10);
    assert_eq!(entry["forward_peak_bytes"].is_u64(), cfg!(target_os = "linux"));
}

#[test]
fn specifications_are_those_of_recipes() {
    let w = Workshop::new();
    for spec in ["{\"kind\":\"block_hadamard\",\"depth\":3}", "{kind:block_hadamard,depth:3}"] {
        let spec = spec.replace(':', ": ");
        let mut command = w.command("bench operators --dims 64 --rows 2 --rounds 1 --no-memory");
        command.args(["--passes", "forward", "--dtype", "f32", "--json", &spec]);
        let stdout = crate::workshop::Outcome::of(command).succeeded(&spec);
        let bench: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(labels(&bench), ["block_hadamard depth=3", "dense"]);
    }
}

#[test]
fn what_a_shape_cannot_have_is_told() {
    let w = Workshop::new();
    let plan = "bench operators low_rank rotor --dims 8,64 --rows 2 --rounds 1 --no-memory -q";
    let bench = w.ok_json(plan);
    assert_eq!(bench["skipped"][0]["label"], "low_rank rank=64");
    assert!(bench["skipped"][0]["reason"].as_str().unwrap().contains("rank 64"));
    assert!(w.ok(plan).contains("skipped: low_rank rank=64 8 x 8"));
    w.fails("bench operators low_rank --dims 8", 2, &["nothing was timed", "8 x 8", "rank 64"]);
}

#[test]
fn growth_writes_figure_table_and_data() {
    let w = Workshop::new();
    let plan =
        "bench operators rotor --growth --dims 64,128,256 --rows 8 --rounds 1 -q --out plots";
    assert!(w.ok(plan).contains("wrote operator-growth.* to plots"));
    let svg = w.text("plots/operator-growth.svg");
    assert!(svg.starts_with("<svg ") && svg.contains("rotor") && svg.contains("\n256\n"), "{svg}");
    let csv = w.text("plots/operator-growth.csv");
    assert_eq!(csv.lines().count(), 1 + 3 * 2, "{csv}");
    let json = w.json("plots/operator-growth.json");
    assert_eq!(json["crossovers"][0]["label"], "rotor");
    assert_eq!(json["bench"]["results"].as_array().unwrap().len(), 6);
    let again = w.ok("report plots/operator-growth.json");
    assert!(again.contains("Speed of operators") && again.contains("256 x 256"), "{again}");
    let page = w.ok("report plots/operator-growth.json --format html");
    assert!(page.contains(svg.trim_end()), "{page}");
}

#[test]
fn impossible_benches_are_refused() {
    let w = Workshop::new();
    for (args, words) in [
        ("rotr", &["rotr", "low_rank", "did you mean `rotor`?"][..]),
        ("{kind:rotor,chunks:8}", &["missing field `kind`"]),
        ("--rows 0", &["--rows", "from 1 to"]),
        ("--rounds 0", &["--rounds", "from 1 to"]),
        ("--dims 0", &["at least 1"]),
        ("--dims 8y8", &["8y8", "512x2048"]),
        ("--dims 64x", &["is not a shape"]),
        ("--dims 4294967296 --rows 1000000", &["4294967296", "at most 1048576"]),
        ("--dtype bf16", &["bf16", "f32", "f64"]),
        ("--dtype f64 --passes training", &["training in f64", "Adam"]),
        ("--passes sideways", &["sideways", "forward"]),
        ("--growth", &["--out"]),
        ("--out plots", &["--growth"]),
    ] {
        w.fails(&format!("bench operators {args}"), 2, words);
    }
    w.fails("bench speed", 2, &["speed"]);
    assert!(!w.path("plots").exists());
}

#[test]
fn a_model_is_timed_as_it_is_held() {
    let w = Workshop::new();
    let args = "bench model model --tokens 20 --new-tokens 3 --rounds 2 --threads 2 --quiet";
    let bench = w.ok_json(&format!("{args} --dtype bf16"));
    assert_eq!(bench["held"], "bf16");
    assert!(bench["load_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(bench["peak_resident_bytes"].is_u64(), cfg!(target_os = "linux"));
    for rounds in ["forward_rounds", "decode_rounds", "generate_rounds"] {
        let rounds = bench["timed"][rounds].as_array().unwrap();
        assert!(rounds.len() == 2 && rounds.iter().all(|v| v.as_f64().unwrap() > 0.0), "{bench}");
    }
    let shown = w.ok(args);
    for said in ["forward", "decode", "tokens/s", "loading", "held in f32", "peak resident set"] {
        assert!(shown.contains(said), "{said:?} in {shown}");
    }
    let loading = w.ok_json("bench model model --rounds 0 --quiet");
    assert!(loading["timed"].is_null(), "{loading}");
    w.fails("bench model model --tokens 0", 2, &["--tokens"]);
    w.fails("bench model model --tokens 5000", 2, &["5000 tokens", "at most 256"]);
    w.fails("bench model model --tokens 256 --new-tokens 2", 2, &["256 tokens and 2 new ones"]);
    // The requested number is not so large that none would be decoded.
    let bench = w.ok_json("bench model model --new-tokens 250 --rounds 1 --quiet");
    assert_eq!(
        (&bench["timed"]["tokens"], &bench["timed"]["new_tokens"]),
        (&7.into(), &250.into())
    );
    let fastest = bench["timed"]["decode_rounds"][0].as_f64().unwrap();
    assert!(fastest < 1e6, "{fastest} tokens a second are none that were computed");
    w.fails("bench model model --new-tokens 999", 2, &["1 tokens and 999 new ones"]);
    w.fails("bench model model --dtype f8", 2, &["auto", "bf16"]);
}
