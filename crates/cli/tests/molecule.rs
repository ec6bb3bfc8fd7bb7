//! `molecule`: potentials of torchmd-net on structures.

use crate::workshop::Workshop;
use linwright::molecule::tensornet::{ChargeConfig, Family, Head, TensorNet, TensorNetConfig};
use linwright::molecule::{Checkpoint, Numbers, Weight};
use linwright::tensor::RngKey;
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

pub(crate) fn number(result: &Value, key: &str) -> f64 {
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
    // Back as a checkpoint of torchmd-net, with units and species.
    w.ok("molecule convert p.safetensors -o back.ckpt");
    let back = w.ok_json("molecule info back.ckpt");
    for key in ["architecture", "species", "units", "parameters"] {
        assert_eq!(back[key], converted[key], "{key}");
    }
    let same = w.ok_json("molecule eval back.ckpt a.xyz --exact");
    assert_eq!(same["force_rmse"], first["force_rmse"]);
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
    let (reference, own) = (eval(""), eval("--keys energy=energy,forces=REF_forces"));
    assert_eq!(number(&reference, "force_mae"), number(&own, "force_mae"));
    let away =
        number(&reference, "energy_mae_per_structure") - number(&own, "energy_mae_per_structure");
    assert!(away.abs() > 0.1, "{away}");
    let other = eval("--units kcal/mol,A");
    assert_eq!(other["units"]["energy_mae"], "kcal/mol/atom");
    // 23 kcal/mol are one eV, and the labels are small.
    assert!(number(&other, "energy_mae") > 5.0 * number(&own, "energy_mae"));
    // Keys that no frame has: errors of nothing are null.
    let none = eval("--keys energy=E,forces=F");
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
    let [median, least] =
        [number(&one["milliseconds"], "median"), number(one, "least_milliseconds")];
    assert!(median > least && least > 0.0, "{median} {least}");
    assert!(number(one, "working_bytes") > 0.0 && number(&fast["rates"], "products") > 0.0);
    let exact = timed("--exact");
    assert!(exact["structures"][0]["least_milliseconds"].is_null() && exact["rates"].is_null());
    assert_eq!(timed("--threads 1")["threads"], 1);
    w.fails("molecule bench potential.ckpt a.xyz --repeats 0", 2, &["repeats"]);
}

/// A random model of an architecture, in `NAME`.
pub(crate) fn random(w: &Workshop, name: &str, config: TensorNetConfig, seed: u64) {
    let config = TensorNetConfig { species: 10, ..config };
    let mut model = TensorNet::<f64>::random(config, RngKey::new(seed)).unwrap();
    model.set_offset_and_scale(0.0, 2.0);
    let hyper = serde_json::to_value(model.config()).unwrap();
    let tensors = model.to_tensors().into_iter();
    let weight = |shape, numbers| Weight { shape, numbers: Numbers::F64(numbers) };
    let checkpoint = Checkpoint {
        tensors: tensors.map(|(name, shape, numbers)| (name, weight(shape, numbers))).collect(),
        hyper: hyper.as_object().unwrap().clone(),
        ..Checkpoint::default()
    };
    checkpoint.save(&w.path(name)).unwrap();
}

pub(crate) fn small() -> TensorNetConfig {
    TensorNetConfig::new(16, 1, 8, 4.5)
}

#[test]
fn models_with_latent_charges_are_told_converted_and_evaluated() {
    let w = Workshop::new();
    potential(&w);
    let charges = ChargeConfig { q_dim: 2, q_weights: vec![1.0, 2.0], coulomb_cutoff: None };
    let config = TensorNetConfig {
        model: Family::Tensornet2,
        head: Head::WeightedCoulomb,
        charges: Some(charges),
        ..small()
    };
    random(&w, "charged.safetensors", config, 1);
    let told = w.ok_json("molecule info charged.safetensors");
    assert_eq!((&told["architecture"]["q_dim"], &told["predicts"]), (&2.into(), &"energy".into()));
    w.ok("molecule convert charged.safetensors -o again.safetensors");
    let eval = |more: &str| w.ok_json(&format!("molecule eval {more}"));
    let first = eval("charged.safetensors a.xyz --exact -o out.xyz");
    assert!(number(&first, "energy_mae") > 0.0);
    let again = eval("again.safetensors out.xyz --exact");
    assert!(number(&again, "energy_mae") < 1e-12 && number(&again, "force_mae") < 1e-12);
    w.fails("molecule eval charged.safetensors a.xyz", 2, &["tensornet2", "--exact"]);
    w.write(
        "box.xyz",
        "1\nLattice=\"9 0 0 0 9 0 0 0 9\" Properties=species:S:1:pos:R:3\nO 0 0 0\n",
    );
    let said = ["coulomb_cutoff", "periodic", "structure 0"];
    w.fails("molecule eval charged.safetensors box.xyz --exact", 1, &said);
}

#[test]
fn ensembles_predict_means_and_write_deviations() {
    let w = Workshop::new();
    potential(&w);
    std::fs::create_dir(w.path("ensemble")).unwrap();
    for seed in 1..4 {
        random(&w, &format!("ensemble/{seed}.safetensors"), small(), seed);
    }
    let told = w.ok_json("molecule info ensemble");
    assert_eq!(told["members"], 3);
    let found = w.ok_json("molecule eval ensemble a.xyz --exact -o out.xyz");
    assert_eq!((&found["members"], &found["units"]["force_std"]), (&3.into(), &"eV/A".into()));
    assert!(number(&found, "energy_std") > 0.0 && number(&found, "force_std") > 0.0);
    let text = String::from_utf8(w.read("out.xyz")).unwrap();
    assert!(text.contains("energy_std=") && text.contains("forces_std:R:3"), "{text}");
    let files = "ensemble/1.safetensors a.xyz --exact --members ensemble/2.safetensors \
        --members ensemble/3.safetensors";
    let other = w.ok_json(&format!("molecule eval {files}"));
    for key in ["energy_mae", "force_rmse", "energy_std", "force_std"] {
        assert_eq!(found[key], other[key], "{key}");
    }
    // Written for torchmd-net, and as a directory again.
    w.ok("molecule convert ensemble -o ensemble.zip --species H,O");
    w.ok("molecule convert ensemble.zip -o back");
    assert_eq!(w.ok_json("molecule info back")["species"], json!(["H", "O"]));
    let back = w.ok_json("molecule eval back a.xyz --exact");
    for key in ["energy_mae", "force_std"] {
        let (a, b) = (number(&found, key), number(&back, key));
        assert!((a - b).abs() < 1e-12, "{key}: {a} {b}");
    }
    let said = ["3 models", "one.ckpt", ".zip"];
    w.fails("molecule convert ensemble -o one.ckpt", 2, &said);
    w.fails("molecule convert ensemble -o back", 2, &["back", "--force"]);
    w.ok("molecule convert ensemble -o back --force");
    // One model has no deviation; its table has no such row.
    let one = w.ok_json("molecule eval ensemble/1.safetensors a.xyz --exact");
    assert!(one["energy_std"].is_null() && one["members"] == 1);
    assert!(w.ok("molecule eval ensemble a.xyz").contains("deviation of 3 models"));
    w.ok("molecule convert ensemble/1.safetensors -o other.safetensors --units kcal/mol,A");
    let said = ["units", "other.safetensors", "kcal/mol"];
    w.fails("molecule eval ensemble a.xyz --members other.safetensors", 1, &said);
}

#[test]
fn vectors_and_other_properties_are_written_and_compared() {
    let w = Workshop::new();
    potential(&w);
    let heads = [
        (Head::Vector, "vector", "3"),
        (Head::SymmetricTensor, "symmetric_tensor", "9"),
        (Head::DipoleMoment, "dipole_moment", "1"),
        (Head::ElectronicSpatialExtent, "spatial_extent", "1"),
    ];
    for (head, name, width) in heads {
        random(&w, "head.safetensors", TensorNetConfig { head, ..small() }, 1);
        assert_eq!(w.ok_json("molecule info head.safetensors")["predicts"], name);
        let found = w.ok_json("molecule eval head.safetensors a.xyz -o out.xyz --force");
        assert_eq!(found["property"], name);
        assert!(found["energy_mae"].is_null() && found["property_mae"].is_null());
        let text = String::from_utf8(w.read("out.xyz")).unwrap();
        assert!(text.contains(&format!("atom_{name}:R:{width}")), "{text}");
        assert!(text.contains(&format!(" {name}=")), "{text}");
        let again = w.ok_json("molecule eval head.safetensors out.xyz");
        assert_eq!(number(&again, "property_mae"), 0.0);
        w.write("bad.xyz", format!("1\nProperties=species:S:1:pos:R:3 {name}=much\nO 0 0 0\n"));
        w.fails("molecule eval head.safetensors bad.xyz", 1, &["structure 0", name, "much"]);
    }
}

#[test]
fn reference_energies_and_the_coulomb_energy_of_torchmd_net_are_chosen() {
    let w = Workshop::new();
    potential(&w);
    let with_prior = |named: Value, energies: &[f64]| {
        let mut checkpoint = Checkpoint::open(&w.path("potential.ckpt")).unwrap();
        checkpoint.hyper.insert("prior_model".into(), named);
        checkpoint.hyper.remove("prior_args");
        let numbers = Numbers::F64(energies.to_vec());
        let weight = Weight { shape: vec![energies.len(), 1], numbers };
        checkpoint.tensors.insert("prior_model.0.atomref.weight".into(), weight);
        checkpoint.save(&w.path("prior.safetensors")).unwrap();
    };
    let energy = |more: &str| {
        let command = "molecule eval prior.safetensors pair.xyz --exact -o out.xyz --force";
        w.ok(&format!("{command} {more}"));
        let text = String::from_utf8(w.read("out.xyz")).unwrap();
        let (_, after) = text.split_once("energy=").unwrap();
        after.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    w.write("pair.xyz", "2\nProperties=species:S:1:pos:R:3:charges:R:1\nH 0 0 0 1\nH 0 0 10 1\n");
    with_prior(json!([{ "Atomref": { "enable": false } }]), &[0.0, -13.5]);
    let added = energy("--reference-energies") - energy("");
    assert!((added + 27.0).abs() < 1e-9, "{added}");
    let switches = json!({ "lower_switch_distance": 0.1, "upper_switch_distance": 0.4 });
    with_prior(json!([{ "Coulomb": switches }]), &[0.0]);
    let added = energy("--compat") - energy("");
    // Nine tenths of the tenfold energy of two unit charges 10 A apart.
    assert!((added - 9.0 * 1.439_964_5).abs() < 1e-4, "{added}");
    w.fails("molecule eval potential.ckpt a.xyz --reference-energies", 1, &["Atomref"]);
}

/// Water molecules of different shapes, with forces; `waters.xyz` beside a potential.
pub(crate) fn waters(w: &Workshop) {
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
    let command = "molecule compress potential.ckpt --keep 0.5 --calibration waters.xyz --test waters.xyz \
                   --num-structures 8 --seed 3 --roles mixing --units eV,A \
                   --keys forces=forces,energy=energy";
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
    // Half of the parameters give other errors, by more than rounding.
    let [a, b] = ["dense", "results"].map(|of| number(&done[of], "force_mae"));
    assert!((a - b).abs() > 1e-6 * a, "{a} {b}");
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
    w.ok("molecule compress half --method svd --rank 2 --layers 0 --roles filter -o less");
    w.ok("molecule convert less -o less.safetensors");
    let dense = w.run("molecule convert less -o less.ckpt");
    assert!(dense.code == Some(0) && dense.stderr.contains("dense weights"), "{dense:?}");
    assert_eq!(w.ok_json("molecule info less.ckpt")["operators"], json!({}));
    let [a, b] = ["less", "less.ckpt"]
        .map(|name| number(&w.ok_json(&format!("molecule eval {name} waters.xyz")), "force_mae"));
    assert!((a - b).abs() < 1e-5, "{a} {b}");
    assert_eq!(w.ok_json("molecule info less.safetensors")["operators"], {
        w.ok_json("molecule info less")["operators"].clone()
    });
}

#[test]
fn a_compressed_potential_is_trained_as_a_whole() {
    let w = Workshop::new();
    waters(&w);
    let command =
        "molecule compress potential.ckpt --keep 0.25 --calibration waters.xyz --test waters.xyz";
    let without = w.ok_json(&format!("{command} -o without"));
    assert!(without["recovery"].is_null());
    let done = w.ok_json(&format!("{command} --recover 40:rate=0.002 -o trained"));
    assert_eq!(done["dense"], without["dense"]);
    // A recovery chooses its best step on a structure that fits leave out: eleven of twelve give
    // other errors, and near ones.
    let [own, all] = [&done["replaced"], &without["results"]].map(|of| number(of, "force_mae"));
    let share = (own / all - 1.0).abs();
    assert!((1e-6..0.3).contains(&share), "{own} {all}");
    let recovery = &done["recovery"];
    assert_eq!((&recovery["structures"], &recovery["held_out"]), (&11.into(), &1.into()));
    assert!(number(recovery, "loss_after") < 0.7 * number(recovery, "loss_before"), "{recovery}");
    let [before, after] = ["replaced", "results"].map(|of| number(&done[of], "force_mae"));
    assert!(after < before, "{before} {after}");
    // What is saved is what was judged, embedding and readout included.
    let saved = w.ok_json("molecule eval trained waters.xyz --exact");
    for key in ["force_mae", "energy_mae"] {
        let (a, b) = (number(&saved, key), number(&done["results"], key));
        assert!((a - b).abs() < 1e-5, "{key}: {a} {b}");
    }
    assert_eq!(w.ok_json("molecule info trained")["parameters"], {
        w.ok_json("molecule info without")["parameters"].clone()
    });
    let told = w.ok(&format!("{command} --recover 2 -o short"));
    assert!(told.contains("replaced") && told.contains("trained for 2 steps"), "{told}");
    w.write("bare.xyz", "1\nProperties=species:S:1:pos:R:3\nO 0 0 0\n".repeat(2));
    let bare =
        "molecule compress potential.ckpt --keep 0.5 --recover 2 --calibration bare.xyz -o no";
    w.fails(bare, 1, &["--recover", "structure 0", "no energy"]);
    let blind = "molecule compress potential.ckpt --method svd --keep 0.5 --recover 2 -o no";
    w.fails(blind, 2, &["--recover", "--calibration"]);
    w.fails(&format!("{command} --recover 2:rate=0 -o no"), 2, &["rate is 0"]);
    let unread = "molecule compress potential.ckpt --method svd --keep 0.5 --keys energy=E -o no";
    w.fails(unread, 2, &["--keys", "--test", "--recover"]);
    let other =
        "molecule compress potential.ckpt --keep 0.5 --recover 2 --calibration bare.xyz -o no";
    w.fails(&format!("{other} --keys energy=E"), 1, &["--recover", "structure 0", "no energy"]);
}

#[test]
fn every_kind_of_method_fits_a_potential() {
    let w = Workshop::new();
    waters(&w);
    for (index, method) in [
        "--method svd --keep 0.5",
        "--method whitened_svd --keep 0.5",
        "--method low_rank:fit=trained,epochs=1 --rank 3",
        "--method structured:operator=rotor --sites *.linears_tensor.4",
        "--method block_hadamard:epochs=1 --ignore *.linears_scalar.*",
        "--method diagonal_low_rank --keep 0.5 --roles mixing",
        "--method circulant_diagonal --roles mixing",
        "--method random --keep 0.5",
    ]
    .iter()
    .enumerate()
    {
        let command = format!("molecule compress potential.ckpt --calibration waters.xyz {method}");
        let done = w.ok_json(&format!("{command} --test waters.xyz -o out{index}"));
        let saved = w.ok_json(&format!("molecule eval out{index} waters.xyz --exact"));
        let (a, b) = (number(&saved, "force_mae"), number(&done["results"], "force_mae"));
        // Factors of a circulant fit differ by e^20 in size, and are applied in single precision.
        let tolerance = if method.contains("circulant") { 2e-3 * b } else { 1e-4 };
        assert!((a - b).abs() < tolerance, "{method}: {a} {b}");
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
    refused("--keep 0.5", 2, &["low_rank", "structures", "--calibration"]);
    refused("--calibration waters.xyz", 2, &["needs a size", "--keep"]);
    refused("--keep 0.5 --calibration waters.xyz --layers 1", 2, &["layer 1"]);
    refused("--keep 0.5 --calibration waters.xyz --roles query", 2, &["query", "filter, mixing"]);
    refused("--method llm_pruner --keep 0.5 --calibration waters.xyz", 2, &["llm_pruner"]);
    refused(
        "--method structured:operator=rotor_network --calibration waters.xyz",
        2,
        &["not linear"],
    );
    refused("--method rotor --calibration waters.xyz", 2, &["not linear", "monarch"]);
    refused("--keep 0.5 --calibration missing.xyz", 1, &["--calibration", "missing.xyz"]);
    refused("--keep 0.5 --calibration waters.xyz --units furlong,A", 2, &["--units", "furlong"]);
    w.write("bare.xyz", "1\nProperties=species:S:1:pos:R:3\nO 0 0 0\n");
    refused("--keep 0.5 --calibration waters.xyz --test bare.xyz", 1, &["structure 0", "forces"]);
    refused("--keep 0.5 --calibration bare.xyz", 2, &["1 structures", "at least 2"]);
    let plan = w.ok(
        "molecule compress potential.ckpt --keep 0.5 --calibration waters.xyz -o out --dry-run",
    );
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
fn a_recipe_compares_methods_on_a_potential() {
    let w = Workshop::new();
    waters(&w);
    let recipe = "
version: 1
title: Channel mixing
potential: potential.ckpt
seed: [0, 1]
calibration: {structures: waters.xyz, examples: 0-7, batch: 3}
num_structures: 6
test: {structures: waters.xyz, examples: 8-11}
jobs:
  - molecule_compare: {keep: 0.5, no_controls: true, layers: 0, roles: mixing, methods: [low_rank, svd]}
";
    w.write("molecules.yaml", recipe);
    assert!(w.ok("run -r molecules.yaml --dry-run").contains("fits of all seeds"));
    let report = w.ok("run -r molecules.yaml -o run");
    assert!(report.contains("Force MAE") && report.contains("low_rank"), "{report}");
    let kept = &w.json("run/molecule-compare-1/result.json")["compare"];
    assert_eq!(kept["cells"].as_array().map(Vec::len), Some(4));
    assert_eq!(kept["dense"]["results"][0]["metrics"][0]["name"], "force_mae");
    w.write("common.yaml", recipe.replace("8-11", "7-11"));
    w.fails("run -r common.yaml -o common", 2, &["share 1 structures"]);
}
