//! `molecule`: potentials of torchmd-net on structures.

use crate::workshop::Workshop;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const TWO_WATERS: &str = "3
Properties=species:S:1:pos:R:3:REF_forces:R:3 REF_energy=-1.5 energy=2 pbc=\"F F F\"
O 0 0 0.1 0 0 0
H 0 0.8 -0.5 0 0 0.5
H 0 -0.8 -0.5 0 0 -0.5
3
Properties=species:S:1:pos:R:3:REF_forces:R:3 REF_energy=-1.5 energy=3 pbc=\"F F F\"
O 0 0 0.2 0 0 0
H 0 0.8 -0.5 0 0 0.5
H 0 -0.8 -0.5 0 0 -0.5
";

/// A checkpoint of torchmd-net, and structures.
pub(crate) fn potential(w: &Workshop) {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet/a_lightning.ckpt");
    w.write("potential.ckpt", std::fs::read(file).unwrap());
    w.write("a.xyz", TWO_WATERS);
}

fn number(result: &Value, key: &str) -> f64 {
    result[key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"))
}

#[test]
fn a_potential_is_told_converted_and_evaluated() {
    let w = Workshop::new();
    potential(&w);
    let told = w.ok_json("molecule info potential.ckpt");
    assert_eq!(told["architecture"]["embedding_dimension"], 16);
    assert_eq!(told["units"]["length"], "A");
    assert!(w.ok("molecule info potential.ckpt").contains("cutoff"));

    w.ok("molecule convert potential.ckpt -o p.safetensors --species H,O --units eV,A");
    let converted = w.ok_json("molecule info p.safetensors");
    assert_eq!(converted["species"], serde_json::json!(["H", "O"]));
    assert_eq!(converted["parameters"], told["parameters"]);

    let first = w.ok_json("molecule eval potential.ckpt a.xyz --exact -o out.xyz");
    assert_eq!((&first["structures"], &first["atoms"]), (&2.into(), &6.into()));
    assert_eq!(first["units"]["force_mae"], "eV/A");
    let fast = w.ok_json("molecule eval p.safetensors a.xyz");
    for key in ["energy_mae", "energy_rmse", "force_mae", "force_rmse"] {
        let (a, b) = (number(&first, key), number(&fast, key));
        assert!((a - b).abs() < 1e-5 && a > 0.0, "{key}: {a} {b}");
    }
    // Against its own predictions there are no errors.
    let again = w.ok_json("molecule eval potential.ckpt out.xyz --exact --limit 1");
    assert_eq!(again["structures"], 1);
    assert!(number(&again, "energy_mae") < 1e-12 && number(&again, "force_rmse") < 1e-12);
    // Force: one of them, since a file that is there is not replaced.
    w.fails("molecule eval potential.ckpt a.xyz -o out.xyz", 2, &["out.xyz", "--force"]);
    w.ok("molecule eval potential.ckpt a.xyz -o out.xyz --force");
}

#[test]
fn names_and_units_of_labels_are_chosen() {
    let w = Workshop::new();
    potential(&w);
    let eval =
        |more: &str| w.ok_json(&format!("molecule eval potential.ckpt a.xyz --exact {more}"));
    let (reference, own) = (eval(""), eval("--energy-key energy --forces-key REF_forces"));
    assert_eq!(number(&reference, "force_mae"), number(&own, "force_mae"));
    let away =
        number(&reference, "energy_mae_per_structure") - number(&own, "energy_mae_per_structure");
    assert!(away.abs() > 0.1, "{away}");
    let other = eval("--units kcal/mol,A");
    assert_eq!(other["units"]["energy_mae"], "kcal/mol/atom");
    // 23 kcal/mol are one eV, and the labels are small.
    assert!(number(&other, "energy_mae") > 5.0 * number(&own, "energy_mae"));
    // Keys that no frame has: errors of nothing are null.
    let none = eval("--energy-key E --forces-key F");
    assert!(none["energy_mae"].is_null() && none["force_mae"].is_null());
}

#[test]
fn bad_structures_and_potentials_are_refused_by_name() {
    let w = Workshop::new();
    potential(&w);
    w.write("short.xyz", "3\n\nO 0 0 0\n");
    w.fails("molecule eval potential.ckpt short.xyz", 1, &["short.xyz", "line"]);
    w.write("same.xyz", "2\n\nO 0 0 0\nH 0 0 0\n");
    w.fails("molecule eval potential.ckpt same.xyz", 1, &["structure 0"]);
    w.write("gold.xyz", "1\n\nAu 0 0 0\n");
    w.fails("molecule eval potential.ckpt gold.xyz --exact", 1, &["Au"]);
    w.ok("molecule convert potential.ckpt -o water.safetensors --species H,O");
    w.write("methane.xyz", "2\n\nC 0 0 0\nH 0 0 1.1\n");
    w.fails("molecule eval water.safetensors methane.xyz", 1, &["structure 0", "C", "trained"]);
    w.write("none.xyz", "");
    w.fails("molecule eval potential.ckpt none.xyz", 1, &["no structures"]);
    w.fails("molecule eval potential.ckpt missing.xyz", 1, &["missing.xyz"]);
    w.fails("molecule eval potential.ckpt a.xyz --units furlong,A", 2, &["furlong"]);
    w.fails("molecule info model", 1, &["hyper-parameters"]);
    w.fails("molecule convert potential.ckpt -o p.safetensors --species Xx", 2, &["Xx"]);
}

/// Water molecules of different shapes, with forces; `waters.xyz` beside a potential.
fn waters(w: &Workshop) {
    potential(w);
    let mut text = String::new();
    for k in 0..12 {
        let by = f64::from(k % 5) * 0.03 + f64::from(k) * 0.004;
        let _ = write!(
            text,
            "3\nProperties=species:S:1:pos:R:3:forces:R:3 energy={} pbc=\"F F F\"\n\
             O 0 0 {} 0.1 0 {by}\nH 0 {} -0.5 0 0 0.5\nH {by} -0.8 {} 0 0 -0.5\n",
            -1.5 + by,
            0.1 + by,
            0.8 - by,
            by - 0.5
        );
    }
    w.write("waters.xyz", text);
}

#[test]
fn a_potential_is_compressed_saved_and_judged_by_the_errors_of_its_forces() {
    let w = Workshop::new();
    waters(&w);
    let command = "molecule compress potential.ckpt --keep 0.5 --data waters.xyz --eval waters.xyz \
                   --num-structures 8 --seed 3 --targets mixing --units eV,A --forces-key forces \
                   --energy-key energy";
    let done = w.ok_json(&format!("{command} -o half"));
    let parameters = &done["parameters"];
    assert_eq!(
        (&parameters["targeted_dense"], &parameters["targeted"]),
        (&1536.into(), &768.into())
    );
    assert_eq!(done["sites"].as_array().map(Vec::len), Some(6));
    assert_eq!(
        (&done["calibration"]["structures"], &done["eval"]["structures"]),
        (&8.into(), &12.into())
    );
    let note = done["notes"][0].as_str().unwrap();
    assert!(note.contains("12 of 12 scored structures"), "{note}");

    // What is saved is what was judged.
    let dense = w.ok_json("molecule eval potential.ckpt waters.xyz --exact");
    let half = w.ok_json("molecule eval half waters.xyz --exact");
    let fast = w.ok_json("molecule eval half waters.xyz");
    for key in ["force_mae", "force_rmse", "energy_mae", "energy_rmse"] {
        for (found, of) in [(&dense, "dense"), (&half, "results"), (&fast, "results")] {
            let (a, b) = (number(found, key), number(&done[of], key));
            assert!((a - b).abs() < 1e-5, "{key} of {of}: {a} {b}");
        }
    }
    assert_ne!(number(&done["dense"], "force_mae"), number(&done["results"], "force_mae"));
    let told = w.ok_json("molecule info half");
    let operators = told["operators"].as_object().unwrap();
    assert_eq!(operators.len(), 6);
    assert_eq!(operators["representation_model.layers.0.linears_tensor.3"], "low_rank");
    let whole = w.ok_json("molecule info potential.ckpt")["parameters"].as_u64().unwrap();
    assert_eq!(told["parameters"].as_u64(), Some(whole - 768));
    let beside = json!([
        ".linwright",
        "README.md",
        "SHA256SUMS",
        "measured.json",
        "model.safetensors",
        "recipe.yaml",
        "reproduce.json",
        "results.json"
    ]);
    assert_eq!(json!(crate::workshop::names(&w.path("half"))), beside);

    // The same again, with the same bits; another seed draws other structures.
    let other = command.replace("--seed 3", "--seed 4");
    w.ok(&format!("{command} -o again"));
    w.ok(&format!("{other} -o other"));
    let bytes = |dir: &str| fs::read(w.path(dir).join("model.safetensors")).unwrap();
    assert!(bytes("half") == bytes("again") && bytes("half") != bytes("other"));
    w.fails(&format!("{command} -o half"), 2, &["half", "--force"]);
    w.ok(&format!("{command} -o half --force"));
    w.ok("reproduce half -o once-more");
    // An edited potential can be edited again, and written as one file.
    w.ok("molecule compress half --method svd --rank 2 --layers 0 --targets filter -o less");
    w.ok("molecule convert less -o less.safetensors");
    assert_eq!(w.ok_json("molecule info less.safetensors")["operators"], {
        w.ok_json("molecule info less")["operators"].clone()
    });
}

#[test]
fn every_kind_of_method_fits_a_potential() {
    let w = Workshop::new();
    waters(&w);
    for (index, method) in [
        "--method svd --keep 0.5",
        "--method whitened_svd --keep 0.5",
        "--method low_rank --rank 3 --trained --epochs 1",
        "--method structured --operator rotor --epochs 1 --sites *.linears_tensor.4",
        "--method block_hadamard --epochs 1 --ignore *.linears_scalar.*",
        "--method diagonal_low_rank --keep 0.5 --targets mixing",
        "--method circulant_diagonal --epochs 1 --targets mixing",
        "--method random --keep 0.5",
    ]
    .iter()
    .enumerate()
    {
        let command = format!("molecule compress potential.ckpt --data waters.xyz {method}");
        let done = w.ok_json(&format!("{command} --eval waters.xyz -o out{index}"));
        let saved = w.ok_json(&format!("molecule eval out{index} waters.xyz --exact"));
        let (a, b) = (number(&saved, "force_mae"), number(&done["results"], "force_mae"));
        assert!((a - b).abs() < 1e-4, "{method}: {a} {b}");
    }
}

#[test]
fn a_compression_that_cannot_be_is_refused_before_the_work() {
    let w = Workshop::new();
    waters(&w);
    let refused = |more: &str, code: i32, told: &[&str]| {
        w.fails(&format!("molecule compress potential.ckpt {more} -o out"), code, told);
        assert!(!w.path("out").exists(), "{more}");
    };
    refused("--keep 0.5", 2, &["low_rank", "structures", "--data"]);
    refused("--data waters.xyz", 2, &["needs a size", "--keep"]);
    refused("--keep 0.5 --data waters.xyz --layers 1", 2, &["layer 1"]);
    refused("--keep 0.5 --data waters.xyz --targets query", 2, &["query", "filter, mixing"]);
    refused("--method llm_pruner --keep 0.5 --data waters.xyz", 2, &["llm_pruner"]);
    refused("--operator rotor_network --data waters.xyz", 2, &["not linear"]);
    refused("--method rotor --data waters.xyz", 2, &["not linear", "--operator rotor"]);
    refused("--keep 0.5 --data missing.xyz", 1, &["--data", "missing.xyz"]);
    refused("--keep 0.5 --data waters.xyz --units furlong,A", 2, &["--units", "furlong"]);
    w.write("bare.xyz", "1\nProperties=species:S:1:pos:R:3\nO 0 0 0\n");
    refused("--keep 0.5 --data waters.xyz --eval bare.xyz", 1, &["structure 0", "forces"]);
    refused("--keep 0.5 --data bare.xyz", 2, &["1 structures", "at least 2"]);
    let plan =
        w.ok("molecule compress potential.ckpt --keep 0.5 --data waters.xyz -o out --dry-run");
    assert!(plan.contains("asked") && !w.path("out").exists(), "{plan}");
}

#[test]
fn slots_and_tensors_of_a_potential_are_listed() {
    let w = Workshop::new();
    potential(&w);
    let slots = w.ok_json("inspect potential.ckpt --slots");
    assert_eq!((&slots["family"], &slots["layers"]), (&"tensornet".into(), &1.into()));
    let sites = slots["sites"].as_array().unwrap();
    let names: Vec<&str> = sites.iter().map(|site| site["site"].as_str().unwrap()).collect();
    assert!(names.contains(&"representation_model.layers.0.linears_tensor.5"), "{names:?}");
    assert_eq!(slots["parameters"], w.ok_json("molecule info potential.ckpt")["parameters"]);
    w.ok("molecule convert potential.ckpt -o p.safetensors");
    let tensors = w.ok_json("inspect p.safetensors --spectra --no-cache");
    assert!(tensors["totals"]["parameters"].as_u64().unwrap() > 1000, "{tensors}");
}

#[test]
fn a_recipe_studies_a_potential_on_molecules() {
    let w = Workshop::new();
    waters(&w);
    let recipe = "
version: 1
title: Channel mixing
model: potential.ckpt
seeds: [0, 1]
calibration: {structures: waters.xyz, examples: 0-7, sample: 6, batch: 3}
eval: {structures: waters.xyz, examples: 8-11}
tables:
  - title: Channel mixing
    layers: [[0]]
    targets: [mixing]
    methods:
      - {fit: {method: low_rank}, size: {keep: 0.5}}
      - {fit: {method: svd}, size: {keep: 0.5}}
";
    w.write("molecules.yaml", recipe);
    assert!(w.ok("run -r molecules.yaml --dry-run").contains("seconds"));
    let report = w.ok("run -r molecules.yaml -o run");
    assert!(report.contains("Force MAE") && report.contains("force error"), "{report}");
    let kept: Value =
        serde_json::from_slice(&fs::read(w.path("run/report.json")).unwrap()).unwrap();
    assert_eq!(kept["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        (&kept["model"]["family"], &kept["model"]["layers"]),
        (&"tensornet".into(), &1.into())
    );
    assert_eq!(kept["baseline"][0]["metrics"][0]["name"], "force_mae");
    w.write("common.yaml", recipe.replace("8-11", "7-11"));
    w.fails("run -r common.yaml -o common", 3, &["share 1 structures", "examples"]);
}
