//! `molecule`: potentials of torchmd-net on structures.

use crate::workshop::Workshop;
use serde_json::Value;
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

#[test]
fn energies_and_forces_are_timed() {
    let w = Workshop::new();
    potential(&w);
    let timed = |more: &str| {
        w.ok_json(&format!("molecule bench potential.ckpt a.xyz --repeats 2 --limit 1 {more}"))
    };
    let fast = timed("--units eV,A");
    assert_eq!(fast["structures"].as_array().unwrap().len(), 1);
    let one = &fast["structures"][0];
    assert_eq!((&one["atoms"], &one["edges"]), (&3.into(), &6.into()));
    let [median, least] = [number(&one["milliseconds"], "median"), number(one, "least_milliseconds")];
    assert!(median > least && least > 0.0, "{median} {least}");
    assert!(number(one, "working_bytes") > 0.0 && number(&fast["rates"], "products") > 0.0);
    let exact = timed("--exact");
    assert!(exact["structures"][0]["least_milliseconds"].is_null() && exact["rates"].is_null());
    assert_eq!(timed("--threads 1")["threads"], 1);
    w.fails("molecule bench potential.ckpt a.xyz --repeats 0", 2, &["repeats"]);
}
