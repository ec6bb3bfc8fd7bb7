//! `molecule train`: potentials on energies and forces.

use crate::interruption::stop_at;
use crate::workshop::{Workshop, names};
use serde_json::{Value, json};
use std::fmt::Write;

/// A small network, so that steps take milliseconds.
pub(crate) const SMALL: &str = "molecule train --data a.xyz --architecture \
                     channels=16,layers=1,radial=8,cutoff=3 --rate 0.005 --training batch=4";

/// Water molecules whose bonds are springs.
pub(crate) fn waters(count: usize) -> String {
    let mut text = String::new();
    // A fixed sequence without a pattern.
    let mut state = 7_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.12 * (f64::from(state >> 8) / f64::from(1 << 24) - 0.5)
    };
    for _ in 0..count {
        let mut places = [[0.0, 0.0, 0.1], [0.0, 0.8, -0.5], [0.0, -0.8, -0.5]];
        places.iter_mut().flatten().for_each(|x| *x += noise());
        let (mut energy, mut forces) = (-100.0, [[0.0; 3]; 3]);
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let v: [f64; 3] = std::array::from_fn(|k| places[a][k] - places[b][k]);
            let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let stretch = length - if a == 0 { 1.0 } else { 1.6 };
            energy += 2.0 * stretch * stretch;
            for (k, v) in v.into_iter().enumerate() {
                forces[a][k] -= 4.0 * stretch * v / length;
                forces[b][k] += 4.0 * stretch * v / length;
            }
        }
        writeln!(text, "3\nProperties=species:S:1:pos:R:3:forces:R:3 energy={energy}").unwrap();
        for ((symbol, place), force) in ["O", "H", "H"].iter().zip(places).zip(forces) {
            let [x, y, z] = place;
            let [a, b, c] = force;
            writeln!(text, "{symbol} {x} {y} {z} {a} {b} {c}").unwrap();
        }
    }
    text
}

pub(crate) fn workshop() -> Workshop {
    let w = Workshop::new();
    w.write("a.xyz", waters(40));
    w.write("test.xyz", waters(60).lines().skip(5 * 40).collect::<Vec<_>>().join("\n") + "\n");
    let atoms = "1\nProperties=species:S:1:pos:R:3 energy=-60\nO 0 0 0\n\
                 1\nProperties=species:S:1:pos:R:3 energy=-19\nH 0 0 0\n";
    w.write("atoms.xyz", atoms);
    w
}

fn number(value: &Value, keys: [&str; 2]) -> f64 {
    value[keys[0]][keys[1]].as_f64().unwrap_or_else(|| panic!("{keys:?} in {value}"))
}

#[test]
fn a_potential_is_trained_tested_and_opened_by_the_other_commands() {
    let w = workshop();
    let command = format!(
        "{SMALL},validate_every=20,average=0.9,patience=1000,clip=10,warmup=5,weight_decay=0.0001,\
         schedule=plateau --validation 8 --test test.xyz --epochs 60 --seed 3 \
         --loss huber:delta=0.5,energy_weight=0.5,energy_ema=0.1,force_weight=1,force_ema=1 \
         --references least-squares --units eV,A \
         --keys energy=energy,forces=forces -o p"
    );
    let said = w.ok_json(&command);
    let found = w.json("p/results.json");
    assert_eq!(found["structures"], json!({"training": 32, "validation": 8, "test": 20}));
    assert_eq!((&found["elements"], &found["steps"]), (&json!(["H", "O"]), &json!(480)));
    assert_eq!(found["weights"], json!({"energy": 0.05, "force": 1.0}));
    assert!(said["seconds"].as_f64().unwrap() > 0.0 && found["seconds"] == json!(null));
    // Least squares of one composition: the mean.
    let atoms = &found["references"]["atoms"];
    let mean = atoms["O"].as_f64().unwrap() + 2.0 * atoms["H"].as_f64().unwrap();
    assert!((-100.0..-99.0).contains(&mean), "{mean}");
    assert!(number(&found, ["test", "force_mae"]) < 0.15, "{found}");
    assert_eq!(found["test"]["units"]["force"], "eV/A");
    let split = w.json("p/split.json");
    assert_eq!(split["train"].as_array().unwrap().len(), 32);
    let curve = w.text("p/curves.jsonl");
    assert_eq!(curve.lines().count(), 25, "{curve}");
    let files = names(&w.path("p"));
    for file in ["README.md", "SHA256SUMS", "measured.json", "recipe.yaml", "report.html"] {
        assert!(files.iter().any(|name| name == file), "{file} in {files:?}");
    }
    assert!(w.text("p/report.md").contains("force MAE, eV/A"));
    let again = w.ok("reproduce p -o again");
    assert!(again.contains("have the same bytes"), "{again}");

    let told = w.ok_json("molecule info p");
    assert_eq!(told["species"], json!(["H", "O"]));
    let scores = w.ok_json("molecule eval p test.xyz");
    for key in ["energy_mae", "force_mae"] {
        let (own, other) = (scores[key].as_f64().unwrap(), number(&found, ["test", key]));
        assert!((own - other).abs() < 1e-9, "{key}: {own} {other}");
    }
    w.ok("molecule convert p -o p.safetensors");

    // Trained on, it starts where it ended: better than random weights after one step.
    let on = w.ok_json(
        "molecule train --data a.xyz --init p --steps 1 --rate 1e-6 --validation test.xyz -o on",
    );
    let first = w.text("on/curves.jsonl");
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert!(first["validation"].as_f64().unwrap() < 0.1, "{first}");
    assert_eq!(on["structures"]["training"], 40, "a file is held out, so nothing else is");
    assert!(!w.path("on/split.json").exists());
}

#[test]
fn settings_of_torchmd_net_are_honoured() {
    let w = workshop();
    let conf = "model: tensornet\nembedding_dimension: 16\nnum_layers: 1\nnum_rbf: 8\n\
                cutoff_upper: 3.0\nbatch_size: 4\nnum_epochs: 2\nlr: 0.002\nlr_warmup_steps: 3\n\
                lr_patience: 1\nlr_factor: 0.5\nlr_min: 1.0e-5\nearly_stopping_patience: 50\n\
                standardize: true\nderivative: true\ny_weight: 0.5\nneg_dy_weight: 0.5\n\
                ema_alpha_y: 0.01\ntrain_size: 30\nval_size: 5\ntest_size: 0.1\nseed: 5\n\
                gradient_clipping: 40\nprecision: 32\ndataset: MD17\nodd_key: 1\n";
    w.write("conf.yaml", conf);
    let said = w.run("molecule train --data a.xyz --config conf.yaml -o p");
    assert_eq!(said.code, Some(0), "{said:?}");
    for note in ["odd_key", "dataset"] {
        assert!(said.stderr.contains(note), "{note} in {}", said.stderr);
    }
    let found = w.json("p/results.json");
    assert_eq!(found["structures"], json!({"training": 30, "validation": 5, "test": 4}));
    assert_eq!((&found["weights"]["energy"], &found["steps"]), (&json!(0.005), &json!(16)));
    let mean = number(&found, ["references", "mean"]);
    assert!((-100.0..-99.0).contains(&mean), "{mean}");
    for (from, to, words) in [
        ("precision: 32", "precision: 64", &["precision", "64"][..]),
        ("seed: 5", "prior_model: ZBL", &["prior_model", "ZBL"]),
        ("seed: 5", "load_weights: a.ckpt", &["load_weights", "--init"]),
        ("seed: 5", "splits: splits.npz", &["splits", "--split"]),
        ("seed: 5", "train_loss: cubic", &["cubic"]),
        ("seed: 5", "output_model: DipoleMoment", &["DipoleMoment", "Scalar"]),
        ("model: tensornet", "model: tensornet2", &["q_dim"]),
    ] {
        w.write("odd.yaml", conf.replace(from, to));
        w.fails("molecule train --data a.xyz --config odd.yaml -o no", 2, words);
    }
}

#[test]
fn a_division_is_taken_from_another_training() {
    let w = workshop();
    w.ok(&format!("{SMALL} --steps 2 --validation 8 --seed 3 -o first"));
    let same = w.ok_json(&format!("{SMALL} --steps 2 --split first/split.json --seed 4 -o second"));
    assert_eq!(same["structures"], json!({"training": 32, "validation": 8, "test": 0}));
    assert_eq!(w.json("second/split.json"), w.json("first/split.json"));
    w.write("own.json", r#"{"train": [0, 1, 2], "validation": [3], "test": [39, 38]}"#);
    let own = w.ok_json(&format!("{SMALL} --steps 2 --split own.json -o third"));
    assert_eq!(own["structures"], json!({"training": 3, "validation": 1, "test": 2}));
    assert!(own["test"]["force_mae"].as_f64().is_some(), "{own}");
    w.write("far.json", r#"{"train": [0, 40], "validation": [3], "test": []}"#);
    let said = ["far.json", "structure 40", "40 structures"];
    w.fails(&format!("{SMALL} --steps 2 --split far.json -o no"), 1, &said);
    w.fails(&format!("{SMALL} --steps 2 --split own.json --validation 4 -o no"), 2, &["--split"]);
}

#[test]
fn stopped_and_killed_the_same_command_ends_with_the_same_bytes() {
    let command = format!("{SMALL},validate_every=50,average=0.99 --steps 1500 -o p");
    let undisturbed = workshop();
    undisturbed.ok(&command);
    let w = workshop();
    for (name, code) in [("-INT", Some(75)), ("-KILL", None)] {
        let (status, said) = stop_at(&w, &command, "training on", name);
        assert_eq!(status.code(), code, "{name}: {said}");
        assert!(!w.path("p").exists(), "{name}");
    }
    w.ok(&format!("{command} --threads 1"));
    for file in ["model.safetensors", "results.json", "curves.jsonl"] {
        let file = format!("p/{file}");
        assert!(w.read(&file) == undisturbed.read(&file), "{file}");
    }
    assert_eq!(w.unfinished(), [Value::Null; 0]);
    // With a checkpoint of one's own, which stays and belongs to one training.
    let own = format!("{SMALL},last --steps 2 --checkpoint own.ckpt -o own");
    w.ok(&own);
    assert!(w.path("own.ckpt").is_file());
    w.fails(&format!("{own} --force").replace(",last", ",last,warmup=2"), 6, &["own.ckpt"]);
}

#[test]
fn what_cannot_be_trained_is_refused_before_anything_is_written() {
    let w = workshop();
    let good = waters(4);
    w.write("nan.xyz", good.replacen("energy=", "energy=nan other=", 1));
    w.write("bare.xyz", good.replacen(":forces:R:3", ":odd:R:3", 1));
    w.write("molecules.xyz", &good);
    w.write("half.xyz", atoms_without_hydrogen());
    let before = w.names();
    for (more, code, words) in [
        ("--validation 40", 2, &["40 structures", "--validation"][..]),
        ("--validation 0", 2, &["--validation 0"]),
        ("--validation 1.5", 2, &["--validation 1.5"]),
        ("--validation absent.xyz", 1, &["absent.xyz"]),
        ("--test absent.xyz", 1, &["absent.xyz"]),
        ("--isolated half.xyz", 2, &["no energy of H"]),
        ("--isolated molecules.xyz", 2, &["3 atoms"]),
        ("--units furlong,A", 2, &["furlong"]),
        ("--rate 0", 2, &["--rate 0"]),
        ("--training average=1", 2, &["--training average=1"]),
        ("--loss mse:energy_ema=0", 2, &["--loss energy_ema=0"]),
        ("--loss l1:energy_weight=0,force_weight=0", 2, &["both zero"]),
        ("--loss huber:delta=0", 2, &["--loss delta=0"]),
        ("--loss mse:delta=1", 2, &["mse has no option delta"]),
        ("--training clip=-1", 2, &["clip is -1", "from 0 to"]),
    ] {
        let base = match more.contains("--rate") {
            true => SMALL.replace("--rate 0.005", ""),
            false => SMALL.to_owned(),
        };
        let base = match more.contains("--training") {
            true => base.replace("--training batch=4", ""),
            false => base,
        };
        w.fails(&format!("{base} --steps 2 {more} -o out"), code, words);
        assert_eq!(w.names(), before, "{more}");
    }
    for (file, words) in [
        ("nan.xyz", &["nan.xyz", "finite"][..]),
        ("bare.xyz", &["bare.xyz, structure 0", "no forces", "force_weight=0"]),
        ("absent.xyz", &["absent.xyz"]),
    ] {
        let command = format!("{SMALL} --steps 2 -o out").replace("a.xyz", file);
        w.fails(&command, 1, words);
        assert_eq!(w.names(), before, "{file}");
    }
    w.ok(&format!("{SMALL} --steps 1 --loss mse:force_weight=0 -o energies")
        .replace("a.xyz", "bare.xyz"));
    std::fs::remove_dir_all(w.path("energies")).unwrap();
    let planned = w.ok_json(&format!("{SMALL} --epochs 3 --isolated atoms.xyz --dry-run -o out"));
    assert_eq!(
        (&planned["planned_steps"], &planned["structures"]["training"]),
        (&json!(30), &json!(38))
    );
    assert_eq!(w.names(), before);
    w.fails(&format!("{SMALL} --steps 2 -o a.xyz --force"), 2, &["a.xyz"]);
    let wild = SMALL.replace("0.005", "1e9");
    w.fails(&format!("{wild},clip=0 --steps 200 -o out"), 1, &["rate"]);
    assert!(!w.path("out").exists());
}

fn atoms_without_hydrogen() -> String {
    "1\nProperties=species:S:1:pos:R:3 energy=-60\nO 0 0 0\n".to_owned()
}
