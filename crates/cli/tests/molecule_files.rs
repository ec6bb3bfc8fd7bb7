//! What files of molecules say beside positions: columns, keys, units, constraints, masses.

use crate::molecule::{number, potential};
use crate::workshop::Workshop;
use serde_json::Value;
use std::path::Path;

/// Water with heavy hydrogen, as ASE writes it.
const HEAVY: &str = "3
Properties=species:S:1:pos:R:3:masses:R:1:momenta:R:3:tags:I:1:initial_magmoms:R:1 \
deep=\"_JSON {\\\"a\\\": [1, 2]}\" virial=\"_JSON [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\" pbc=\"F F F\"
O 0 0 0.1 15.999 0.1 0.2 0.3 1 0.5
H 0 0.8 -0.5 2.014 -0.4 0.5 -0.6 2 0.25
H 0 -0.8 -0.5 2.014 0.7 -0.8 0.9 2 0.125
";

fn data(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet");
    std::fs::read(folder.join(name)).unwrap()
}

/// Words of a column of a frame, atom by atom.
fn column(text: &str, frame: usize, name: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().skip(5 * frame).take(5).collect();
    let declared = lines[1].split("Properties=").nth(1).unwrap();
    let declared = declared.split_whitespace().next().unwrap().trim_matches('"');
    let (triples, _) = declared.split(':').collect::<Vec<_>>().as_chunks::<3>().0.iter().fold(
        (Vec::new(), 0),
        |(mut all, at), [name, _, width]| {
            let width: usize = width.parse().unwrap();
            all.push((name.to_string(), at, width));
            (all, at + width)
        },
    );
    let (_, at, width) = triples.iter().find(|(own, ..)| own == name).unwrap_or_else(|| {
        panic!("{name} in {declared}");
    });
    let words = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[*at..at + width].join(" ")
    };
    lines[2..].iter().map(words).collect()
}

#[test]
fn masses_are_those_of_the_file_and_columns_and_keys_go_on() {
    let w = Workshop::new();
    potential(&w);
    w.write("heavy.xyz", HEAVY);
    let said = w.run("molecule md potential.ckpt heavy.xyz --steps 4 --every 2 -o md");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("masses are those of the structure"), "{}", said.stderr);
    // p² / 2m in the units of ASE.
    let kinetic = 0.14 / (2.0 * 15.999) + (0.77 + 1.94) / (2.0 * 2.014);
    let first: Value =
        serde_json::from_str(w.text("md/log.jsonl").lines().next().unwrap()).unwrap();
    let found = number(&first, "kinetic_energy_ev");
    assert!((found - kinetic).abs() < 1e-9 * kinetic, "{found} {kinetic}");
    let kelvin = 2.0 * kinetic / (9.0 * 8.617_333_262e-5);
    assert!((number(&first, "temperature_k") - kelvin).abs() < 1e-6 * kelvin);
    w.ok("molecule eval potential.ckpt heavy.xyz -o eval.xyz");
    w.ok("molecule relax potential.ckpt heavy.xyz --steps 2000 -o relax.xyz");
    for (file, frame) in
        [("md/trajectory.xyz", 2), ("md/final.xyz", 0), ("eval.xyz", 0), ("relax.xyz", 0)]
    {
        let text = w.text(file);
        assert_eq!(column(&text, frame, "masses"), ["15.999", "2.014", "2.014"], "{file}");
        assert_eq!(column(&text, frame, "tags"), ["1", "2", "2"], "{file}");
        assert_eq!(column(&text, frame, "initial_magmoms"), ["0.5", "0.25", "0.125"], "{file}");
        assert!(text.contains("deep=\"_JSON {\\\"a\\\": [1, 2]}\""), "{file}: {text}");
    }
    // The virial of an open molecule is kept where positions are the same.
    assert!(w.text("eval.xyz").contains("input_virial="));
    assert!(!w.text("relax.xyz").contains("virial"));
    let note = w.run("molecule eval potential.ckpt heavy.xyz").stderr;
    assert!(note.contains("1 structures have a stress or virial, but no cell"), "{note}");
}

#[test]
fn constraints_hold_atoms_and_coordinates() {
    let w = Workshop::new();
    potential(&w);
    let held = |columns: &str, [a, b, c]: [&str; 3]| {
        format!(
            "3\nProperties=species:S:1:pos:R:3:{columns}\nO 0 0 0.1 {a}\nH 0 0.8 -0.5 {b}\n\
             H 0 -0.8 -0.5 {c}\n"
        )
    };
    w.write("held.xyz", held("move_mask:L:1", ["F", "T", "T"]));
    let said = w.run("molecule md potential.ckpt held.xyz --steps 20 --temperature 300 -o md");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("move_mask holds 3 of 9 coordinates"), "{}", said.stderr);
    let last = w.text("md/final.xyz");
    assert_eq!(column(&last, 0, "pos")[0], "0.0 0.0 0.1");
    assert_ne!(column(&last, 0, "pos")[1], "0.0 0.8 -0.5");
    assert_eq!(column(&last, 0, "move_mask"), ["F", "T", "T"]);
    assert_eq!(column(&last, 0, "momenta")[0], "0.0 0.0 0.0");
    let log = w.text("md/log.jsonl");
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let kelvin = 2.0 * number(&first, "kinetic_energy_ev") / (6.0 * 8.617_333_262e-5);
    assert!((number(&first, "temperature_k") - kelvin).abs() < 1e-6 * kelvin, "{first}");

    w.write("axes.xyz", held("move_mask:L:3", ["F T T", "T T F", "F F F"]));
    w.ok("molecule relax potential.ckpt axes.xyz --fmax 0.01 --steps 3000 --exact -o relax.xyz");
    let text = w.text("relax.xyz");
    assert_eq!(column(&text, 0, "pos")[2], "0.0 -0.8 -0.5");
    assert!(column(&text, 0, "pos")[1].ends_with(" -0.5"), "{text}");
    assert_eq!(column(&text, 0, "move_mask"), ["F T T", "T T F", "F F F"]);

    let crystal =
        w.text("held.xyz").replace("Properties", "Lattice=\"6 0 0 0 6 0 0 0 6\" Properties");
    w.write("crystal.xyz", crystal);
    let relax = "molecule relax potential.ckpt crystal.xyz --cell -o out.xyz";
    w.fails(relax, 2, &["structure 0", "move_mask", "positions alone"]);
    w.write("all.xyz", held("move_mask:L:1", ["F"; 3]));
    w.fails("molecule md potential.ckpt all.xyz --steps 2 -o out", 2, &["held by move_mask"]);
}

#[test]
fn names_that_are_not_read_are_refused_where_atoms_move() {
    let w = Workshop::new();
    potential(&w);
    let with = |column: &str, word: &str| {
        format!("1\nProperties=species:S:1:pos:R:3:{column}\nO 0 0 0 {word}\n")
    };
    for (column, word, expected, relaxes) in [
        ("mass:R:1", "18", "masses:R:1", true),
        ("velocities:R:3", "1 2 3", "momenta:R:3", true),
        ("fixed:L:1", "T", "move_mask:L:1", false),
        ("Constraints:S:1", "x", "move_mask:L:1", false),
    ] {
        w.write("odd.xyz", with(column, word));
        let name = column.split(':').next().unwrap();
        let words = ["structure 0", name, expected];
        w.fails("molecule md potential.ckpt odd.xyz --steps 1 -o out", 2, &words);
        let relax = "molecule relax potential.ckpt odd.xyz -o out.xyz --force";
        match relaxes {
            true => w.ok(relax),
            false => w.fails(relax, 2, &words),
        };
        // Elsewhere it is no matter, and stays.
        w.ok("molecule eval potential.ckpt odd.xyz -o kept.xyz --force");
        assert!(w.text("kept.xyz").contains(&format!(":{column} ")), "{column}");
    }
    // Velocities that are drawn anyway.
    w.write("odd.xyz", with("velo:R:3", "1 2 3"));
    w.ok("molecule md potential.ckpt odd.xyz --steps 1 --temperature 10 -o drawn");
    assert!(!w.text("drawn/final.xyz").contains("velo"));
}

#[test]
fn labels_of_the_file_are_kept_beside_predictions() {
    let w = Workshop::new();
    potential(&w);
    w.ok("molecule eval potential.ckpt a.xyz --exact -o out.xyz");
    let text = w.text("out.xyz");
    assert!(text.contains("input_REF_energy=-1.5") && text.contains("input_energy=2"), "{text}");
    assert_eq!(column(&text, 0, "input_REF_forces"), ["0 0 0", "0 0 0.5", "0 0 -0.5"]);
    // Another evaluation is one of the predictions, and keeps the first labels.
    let again = w.ok_json("molecule eval potential.ckpt out.xyz --exact -o more.xyz");
    assert!(number(&again, "energy_mae") < 1e-12);
    assert_eq!(w.text("more.xyz"), text);
}

#[test]
fn charges_of_atoms_are_the_charge_of_the_whole() {
    let w = Workshop::new();
    potential(&w);
    let charged = |column: &str, words: [&str; 3], key: &str| {
        let [a, b, c] = words;
        format!(
            "3\nProperties=species:S:1:pos:R:3{column} {key}\nO 0 0 0.1 {a}\nH 0 0.8 -0.5 {b}\n\
             H 0 -0.8 -0.5 {c}\n"
        )
    };
    let energy = |content: String| {
        w.write("ion.xyz", content);
        w.ok("molecule eval potential.ckpt ion.xyz --exact -o out.xyz --force");
        let text = w.text("out.xyz");
        let line = text.lines().nth(1).unwrap();
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("energy="));
        (word.unwrap().parse::<f64>().unwrap(), text.contains("charge=-1"))
    };
    let (plain, _) = energy(charged("", [""; 3], ""));
    let (said, _) = energy(charged("", [""; 3], "charge=-1"));
    let initial = charged(":initial_charges:R:1", ["-1", "0", "0"], "");
    let (found, is_written) = energy(initial);
    assert!(found == said && is_written && found != plain, "{found} {said} {plain}");
    assert!(w.text("out.xyz").contains(":initial_charges:R:1 "));
}

#[test]
fn units_of_archives_and_frames_are_honoured_or_refused() {
    let w = Workshop::new();
    potential(&w);
    w.write("sgdml.npz", data("sgdml.npz"));
    let train = "molecule train --architecture channels=16,layers=1,radial=8,cutoff=3 --steps 1 \
                 --references mean --validation 1";
    let found = w.ok_json(&format!("{train} --data sgdml.npz -o p"));
    // -1.5 or -1.25 kcal/mol.
    let mean = found["references"]["mean"].as_f64().unwrap() / 0.043_364_104;
    assert!((mean + 1.5).abs() < 1e-4 || (mean + 1.25).abs() < 1e-4, "{mean}");
    let told = ["sgdml", "kcal/mol,A", "leave --units out"];
    w.fails(&format!("{train} --data sgdml.npz --units Hartree,A -o no"), 2, &told[1..]);
    let energies = |file: &str| {
        w.ok(&format!("{train} --data {file} --units kcal/mol,A -o {file}.out"));
        w.json(&format!("{file}.out/results.json"))["references"]["mean"].clone()
    };
    w.write("md17.npz", data("md17.npz"));
    assert_eq!(energies("md17.npz"), energies("sgdml.npz"));
    // Frames that declare units are not read in others.
    w.write("kcal.xyz", w.text("a.xyz").replace("energy=2", "energy=2 units=\"kcal/mol,A\""));
    let words = ["structure 0", "kcal/mol,A", "--units"];
    for command in ["bench potential.ckpt kcal.xyz", "eval potential.ckpt kcal.xyz"] {
        w.fails(&format!("molecule {command}"), 2, &words);
    }
    let compress = "molecule compress potential.ckpt --method svd --keep 0.5 --test";
    let own = w.ok_json(&format!("{compress} kcal.xyz -o one"));
    let plain = w.ok_json(&format!("{compress} a.xyz -o two"));
    assert_ne!(own["dense"]["force_rmse"], plain["dense"]["force_rmse"]);
    let other = format!("{compress} kcal.xyz --units Hartree,A -o no");
    w.fails(&other, 2, &["kcal/mol,A", "Hartree"]);
    w.write("odd.xyz", w.text("a.xyz").replace("pbc=", "units=stone pbc="));
    let told = w.fails(&format!("{train} --data odd.xyz -o no"), 2, &["stone", "kcal/mol"]);
    assert!(told.contains("--units names those of the file"), "{told}");
    w.ok(&format!("{train} --data odd.xyz --units meV,A -o named"));
}

#[test]
fn parts_of_units_are_kept_apart_and_declared_once() {
    let w = Workshop::new();
    potential(&w);
    let water = |pairs: &str, length: f64| {
        let rows = [["O", "0", "0", "0.1"], ["H", "0", "0.8", "-0.5"], ["H", "0", "-0.8", "-0.5"]];
        let row = |[symbol, position @ ..]: [&str; 4]| {
            let place = position.map(|x| format!("{:?}", x.parse::<f64>().unwrap() / length));
            format!("{symbol} {}\n", place.join(" "))
        };
        let rows = rows.map(row).concat();
        format!("3\nProperties=species:S:1:pos:R:3 {pairs}\n{rows}")
    };
    let eval = "molecule eval potential.ckpt own.xyz --exact";
    for (pairs, units, words) in [
        (
            "energy=1 length_unit=Angstrom",
            "",
            &["length_unit = Angstrom", "no unit for its energies"],
        ),
        ("energy_unit=eV units=\"kcal/mol,A\"", "", &["energy_unit = eV", "disagree"]),
        ("energy_unit=kcal/mol", "--units eV,A", &["energy_unit = kcal/mol", "expected eV,A"]),
        ("length_unit=Bohr", "--units eV,A", &["length_unit = Bohr", "expected eV,A"]),
        (
            "units=\"Hartree,A\" length_unit=Bohr",
            "--units a.u.",
            &["length_unit = Bohr", "disagree"],
        ),
    ] {
        w.write("own.xyz", water(pairs, 1.0));
        w.fails(&format!("{eval} {units}"), 2, &[&["structure 0", "--units"], &words[..]].concat());
    }
    let energy = |pairs: &str, length: f64, units: &str| {
        w.write("own.xyz", water(pairs, length));
        w.ok(&format!("{eval} {units} -o out.xyz --force"));
        let text = w.text("out.xyz");
        let words = text.split_whitespace();
        let word = words.clone().find_map(|word| word.strip_prefix("energy="));
        let declared: Vec<String> =
            words.filter(|word| word.contains("unit")).map(str::to_owned).collect();
        (word.unwrap().parse::<f64>().unwrap(), declared)
    };
    let (own, declared) = energy("energy=1 length_unit=Angstrom energyUnits=eV", 1.0, "");
    assert!(declared.is_empty(), "{declared:?}");
    let (told, _) = energy("energy=1 length_unit=Angstrom", 1.0, "--units eV,A");
    assert_eq!(own, told);
    let (atomic, declared) = energy("length_unit=bohr", 0.529_177_210_903, "--units a.u.");
    assert!((27.211_386_246 * atomic - own).abs() < 1e-9 * own.abs(), "{atomic} {own}");
    assert_eq!(declared, ["units=\"Hartree,Bohr\""]);
    // What is written of a simulation is in electron volts and angstroms, whatever was read.
    let pairs = "energy_unit=kcal/mol lengthUnit=A force_unit=kcal/mol/A mass=18.015 v=3";
    w.write("own.xyz", water(pairs, 1.0));
    w.ok("molecule md potential.ckpt own.xyz --units kcal/mol,A --steps 2 --every 1 -o md");
    let text = w.text("md/trajectory.xyz");
    assert!(!text.to_lowercase().contains("unit") && text.contains("mass=18.015"), "{text}");
    w.write("own.xyz", water("mass=\"16 1 1\"", 1.0));
    let told = ["structure 0", "the pair mass has masses", "masses:R:1"];
    w.fails("molecule md potential.ckpt own.xyz --steps 2 -o no", 2, &told);
    // Parts of an evaluation are not left behind when atoms move.
    w.write("own.xyz", water("energy=1 input_energy=3 energy_std=0.1", 1.0));
    w.ok("molecule relax potential.ckpt own.xyz --steps 2000 -o relaxed.xyz");
    let text = w.text("relaxed.xyz");
    assert!(!text.contains("input_") && !text.contains("_std"), "{text}");
}

#[test]
fn single_atoms_that_are_marked_are_references() {
    let w = crate::molecule_train::workshop();
    let molecules = w.text("a.xyz");
    let atom = |symbol: &str, energy: f64, mark: &str| {
        format!(
            "1\nProperties=species:S:1:pos:R:3 config_type={mark} energy={energy}\n{symbol} 0 0 0\n"
        )
    };
    let marked = [atom("O", -60.0, "IsolatedAtom"), atom("H", -19.0, "isolated_atom")].concat();
    w.write("marked.xyz", format!("{marked}{molecules}"));
    let train = "molecule train --architecture channels=16,layers=1,radial=8,cutoff=3 --steps 2 --validation 8";
    let said = w.run(&format!("{train} --data marked.xyz -o own"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("2 single atoms are marked by config_type"), "{}", said.stderr);
    let found = w.json("own/results.json");
    assert_eq!(found["structures"]["training"], 32);
    assert_eq!(found["references"]["atoms"]["O"], -60.0);
    // The same as with a file of their own; the division counts structures of the file.
    let other = w.ok_json(&format!("{train} --data a.xyz --isolated atoms.xyz -o other"));
    assert_eq!(found["validation"]["force_mae"], other["validation"]["force_mae"]);
    let [own, other] = ["own", "other"].map(|name| w.json(&format!("{name}/split.json")));
    let moved: Vec<u64> =
        other["train"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap() + 2).collect();
    assert_eq!(own["train"], serde_json::json!(moved));
    w.ok(&format!("{train} --data marked.xyz --split own/split.json -o again")
        .replace(" --validation 8", ""));
    assert_eq!(w.read("again/model.safetensors"), w.read("own/model.safetensors"));
    // Otherwise chosen, they are only left out.
    let least =
        w.ok_json(&format!("{train} --data marked.xyz --references least-squares -o least"));
    assert_eq!(least["structures"]["training"], 32);
    assert_ne!(least["references"]["atoms"]["O"], -60.0);
    w.write("half.xyz", format!("{}{molecules}", atom("O", -60.0, "IsolatedAtom")));
    let told = ["no energy of H", "--references least-squares"];
    w.fails(&format!("{train} --data half.xyz -o no"), 2, &told);
    w.ok(&format!("{train} --data half.xyz --references least-squares -o half"));
    let twice = atom("O", -61.0, "IsolatedAtom");
    w.write("twice.xyz", format!("{marked}{twice}{molecules}"));
    w.fails(&format!("{train} --data twice.xyz -o no"), 2, &["O again"]);
    w.write("same.xyz", format!("{marked}{marked}{molecules}"));
    w.ok(&format!("{train} --data same.xyz -o same"));
}
