//! Tests of extended XYZ.

use super::*;
use crate::structure::{Cell, Structure};

const TWO: &str = "\
3
Lattice=\"5.0 0.0 0.0 0.0 6.0 0.0 0.5 0.0 7.0\" Properties=species:S:1:pos:R:3:forces:R:3 \
OH_dist=0.9544 config_type=\"a b\" energy=-76.5 charge=1 stress=\"1 2 3 2 4 5 3 5 6\" pbc=\"T T F\"
O        0.0 0.0 0.1   0.5 0.0 -1e-3
H        0.7 0.0 0.6   0.0 0.0 1.0
H       -0.7 0.0 0.6   0.0 0.0 0.0

1
Properties=species:S:1:pos:R:3 energy=-13.5 pbc=\"F F F\"
H 0.0 0.0 0.0
";

fn read(text: &str) -> Result<Vec<Structure>, MoleculeError> {
    let path = Path::new("frames.xyz");
    XyzReader::new(path, text.as_bytes(), LabelKeys::default()).collect()
}

fn said(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn frames_are_read_with_cell_and_labels() {
    let frames = read(TWO).unwrap();
    assert_eq!(frames.len(), 2);
    let water = &frames[0];
    assert_eq!(water.species, [8, 1, 1]);
    assert_eq!(water.positions[1], [0.7, 0.0, 0.6]);
    let cell = water.cell.unwrap();
    assert_eq!((cell.rows[2], cell.periodic), ([0.5, 0.0, 7.0], [true, true, false]));
    assert_eq!(water.labels.energy, Some(-76.5));
    assert_eq!(water.labels.forces.as_ref().unwrap()[0], [0.5, 0.0, -1e-3]);
    let stress = [[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]];
    assert_eq!(water.labels.stress, Some(stress));
    assert_eq!(water.charge, 1.0);
    assert_eq!(
        (water.info["OH_dist"].as_str(), water.info["config_type"].as_str()),
        ("0.9544", "a b")
    );
    assert_eq!((frames[1].cell, frames[1].labels.energy), (None, Some(-13.5)));
}

#[test]
fn a_file_of_molecules_is_read() {
    let path = crate::reference::reference("ethanol_like.xyz");
    let frames = read_xyz(&path, &LabelKeys::default()).unwrap();
    assert_eq!(frames.len(), 2);
    for frame in &frames {
        assert_eq!(frame.species, [6, 6, 8, 1, 1, 1, 1, 1, 1]);
        // A box that does not repeat is not a cell.
        assert_eq!(frame.cell, None);
        assert_eq!(frame.labels.forces.as_ref().unwrap().len(), 9);
        assert!(frame.info.contains_key("Lattice"));
    }
    assert_eq!(frames[0].labels.energy, Some(-4209.395));
}

#[test]
fn written_frames_are_read_back_to_the_last_bit() {
    let mut frames = read(TWO).unwrap();
    frames[0].positions[0] = [1.0 / 3.0, -1e-300, 1e20];
    frames[0].labels.charges = Some(vec![0.1, -0.2, 0.1]);
    frames[0].momenta = Some(vec![[0.25, -1.0 / 3.0, 0.0]; 3]);
    frames[0].charge = -0.5;
    frames[0].info.insert("note".into(), "a \"b\" = [c] \\ d".into());
    frames[0].labels.stress = Some([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    frames[1].info.clear();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.xyz");
    write_xyz(&path, &frames, linwright_run::atomic::Replace::Nothing).unwrap();
    let mut back = read_xyz(&path, &LabelKeys::default()).unwrap();
    back[1].info.clear();
    assert_eq!(back, frames);
}

#[test]
fn plain_xyz_needs_no_pairs() {
    let frames = read("2\nwater, somewhere\nO 0 0 0 9 9\n1 0 0 1.5d-1\n").unwrap();
    assert_eq!(frames[0].species, [8, 1]);
    assert_eq!(frames[0].positions[1], [0.0, 0.0, 0.15]);
    assert!(frames[0].columns.is_empty(), "only some atoms have more words");
    let full = &read("2\n\nO 0 0 0 9 a\nH 0 0 1 8 b\n").unwrap()[0];
    let column = full.column("unnamed").unwrap();
    assert_eq!((column.width, column.text.as_str()), (2, "9 a\n8 b\n"));
    assert_eq!(rewritten(full).1.columns, full.columns);
    assert_eq!(frames[0].info["comment"], "water, somewhere");
    assert!(read("0\n\n").unwrap()[0].species.is_empty());
    assert!(read("").unwrap().is_empty());
}

#[test]
fn names_of_labels_are_chosen_in_order() {
    let text = "1\nProperties=species:S:1:pos:R:3:forces:R:3:my:R:3 energy=1 REF_energy=2 mine=3\nH 0 0 0 1 1 1 2 2 2\n";
    assert_eq!(read(text).unwrap()[0].labels.energy, Some(2.0));
    let keys = LabelKeys::default().with_energy("mine").with_forces("my");
    let frame =
        XyzReader::new(Path::new("x"), text.as_bytes(), keys).next_frame().unwrap().unwrap();
    assert_eq!(frame.labels.energy, Some(3.0));
    assert_eq!(frame.labels.forces, Some(vec![[2.0; 3]]));
}

fn rewritten(frame: &Structure) -> (String, Structure) {
    let mut writer = XyzWriter::new(Vec::new());
    writer.frame(frame).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    let again = read(&text).unwrap().remove(0);
    (text, again)
}

#[test]
fn labels_under_further_names_are_kept_and_not_read_for_those_that_were_written() {
    let lattice = "Lattice=\"2 0 0 0 2 0 0 0 2\"";
    let text = format!(
        "1\n{lattice} Properties=species:S:1:pos:R:3:forces:R:3:REF_forces:R:3 charge=0 \
         total_charge=5 stress=\"1 2 3 0 0 0\" virial=\"1 2 3 0 0 0\" virials=none \
         energy=1 REF_energy=2\nH 0 0 0 1 1 1 2 2 2\n"
    );
    let frame = read(&text).unwrap().remove(0);
    assert_eq!((frame.charge, frame.info["total_charge"].as_str()), (0.0, "5"));
    let (energy, forces) = (frame.labels.energy, frame.labels.forces.clone().unwrap());
    assert_eq!((energy, forces[0]), (Some(2.0), [2.0; 3]));
    let (written, again) = rewritten(&frame);
    assert_eq!(again, frame);
    assert!(
        written.contains(" energy=1 ") && written.contains("forces:R:3:REF_forces"),
        "{written}"
    );
    // Beside predictions they are called otherwise.
    let mut predicted = frame.clone();
    predicted.replace_labels(7.0, vec![[8.0; 3]], Some([[9.0; 3]; 3]));
    let (written, again) = rewritten(&predicted);
    for part in [
        " energy=7.0 ",
        " stress=\"9.0 9.0",
        " input_REF_energy=2 ",
        " input_energy=1 ",
        " input_stress=\"1.0 0.0 0.0 0.0 2.0",
        " input_virial=\"1 2 3 0 0 0\"",
        " input_virials=none",
        ":forces:R:3:input_forces:R:3:input_REF_forces:R:3 ",
        "\nH 0.0 0.0 0.0 8.0 8.0 8.0 1 1 1 2 2 2\n",
    ] {
        assert!(written.contains(part), "{part} in {written}");
    }
    assert_eq!(again, predicted);
    assert_eq!((again.labels.energy, again.labels.forces), (Some(7.0), Some(vec![[8.0; 3]])));
    // Another prediction keeps the labels before the first.
    predicted.replace_labels(6.0, vec![[5.0; 3]], None);
    let (written, _) = rewritten(&predicted);
    assert!(written.contains(" energy=6.0 ") && written.contains(" input_energy=1 "), "{written}");
    assert!(written.contains("5.0 5.0 5.0 1 1 1 2 2 2\n"), "{written}");
    // Under one name only, as MACE has them, they are kept once.
    let text = "1\nProperties=species:S:1:pos:R:3:REF_forces:R:3 REF_energy=2\nH 0 0 0 2 2 2\n";
    let mut only = read(text).unwrap().remove(0);
    only.replace_labels(7.0, vec![[8.0; 3]], None);
    assert_eq!(only.info.keys().collect::<Vec<_>>(), ["input_REF_energy"]);
    assert_eq!(only.columns.iter().map(|c| &c.name[..]).collect::<Vec<_>>(), ["input_REF_forces"]);
    // A stress stays beside the energy, and a virial stands for the stress that it becomes.
    let text = format!(
        "1\n{lattice} Properties=species:S:1:pos:R:3:forces:R:3:forces_std:R:3 energy=2 \
         stress=\"1 2 3 0 0 0\" energy_std=0.5\nH 0 0 0 1 1 1 2 2 2\n"
    );
    let mut own = read(&text).unwrap().remove(0);
    own.replace_labels(7.0, vec![[8.0; 3]], Some([[9.0; 3]; 3]));
    let keys: Vec<&str> = own.info.keys().map(String::as_str).collect();
    assert_eq!(keys, ["input_energy", "input_energy_std", "input_stress"]);
    let names: Vec<&str> = own.columns.iter().map(|column| &column.name[..]).collect();
    assert_eq!(names, ["input_forces_std", "input_forces"]);
    // Deviations of an evaluation are not the input's.
    let mut again = own.clone();
    again.info.insert("energy_std".into(), "0.25".into());
    again.replace_labels(7.0, vec![[8.0; 3]], Some([[9.0; 3]; 3]));
    assert_eq!(again, own);
    own.forget_labels();
    assert!(own.info.is_empty() && own.columns.is_empty(), "{own:?}");
    let text =
        format!("1\n{lattice} Properties=species:S:1:pos:R:3 virial=\"1 2 3 0 0 0\"\nH 0 0 0\n");
    let mut own = read(&text).unwrap().remove(0);
    own.replace_labels(7.0, vec![[8.0; 3]], None);
    assert_eq!(own.info.keys().collect::<Vec<_>>(), ["input_virial"]);
    let mut frame = frame;
    frame.forget_labels();
    assert_eq!(frame.info.keys().collect::<Vec<_>>(), ["total_charge"]);
    assert!(frame.columns.is_empty() && frame.labels == crate::Labels::default());
}

#[test]
fn columns_and_pairs_that_are_not_understood_are_kept() {
    let text = "2\nProperties=tags:I:1:species:S:1:pos:R:3:magmoms:R:1:spin:R:2:label:S:1 \
                deep=\"_JSON {\\\"a\\\": [1, \\\"b c\\\"]}\" pbc=\"F F F\"\n\
                3 O 0 0 0 0.5 1 2.50 a\n-1 H 0 0 1 1e-3 3 4 b\n";
    let frame = read(text).unwrap().remove(0);
    let names: Vec<&str> = frame.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["tags", "magmoms", "spin", "label"]);
    assert_eq!(frame.column("spin").unwrap().text, "1 2.50\n3 4\n");
    assert_eq!(frame.column("tags").unwrap().numbers().unwrap(), [3.0, -1.0]);
    assert_eq!(frame.column("label").unwrap().numbers(), None);
    assert_eq!(frame.info["deep"], "_JSON {\"a\": [1, \"b c\"]}");
    let (written, again) = rewritten(&frame);
    assert_eq!(again, frame);
    assert!(written.contains(":tags:I:1:magmoms:R:1:spin:R:2:label:S:1"), "{written}");
    assert!(written.ends_with("H 0.0 0.0 1.0 -1 1e-3 3 4 b\n"), "{written}");
    let mut short = frame;
    short.columns[0].text = "3\n".into();
    let told = short.check().unwrap_err().to_string();
    assert!(told.contains("2 species, but 1 rows of a further column"), "{told}");
}

#[test]
fn masses_and_constraints_are_read_and_written_as_ase_has_them() {
    let head = "Properties=species:S:1:pos:R:3";
    let text = format!(
        "2\n{head}:move_mask:L:1:masses:R:1\nH 0 0 0 F 2.014\nO 0 0 1 T 15.999\n\
         2\n{head}:move_mask:L:3\nH 0 0 0 F T F\nO 0 0 1 T T T\n\
         1\n{head}:move_mask:L:1\nH 0 0 0 T\n"
    );
    let frames = read(&text).unwrap();
    assert_eq!(frames[0].masses, Some(vec![2.014, 15.999]));
    assert_eq!(frames[0].held, Some(vec![[true; 3], [false; 3]]));
    assert_eq!((frames[0].held_coordinates(), frames[1].held_coordinates()), (3, 2));
    assert_eq!(frames[1].held.as_ref().unwrap()[0], [true, false, true]);
    // Where all may move, nothing is held.
    assert_eq!(frames[2].held, None);
    for frame in &frames {
        let (written, again) = rewritten(frame);
        assert_eq!((&again.held, &again.masses), (&frame.held, &frame.masses), "{written}");
        assert!(again.columns.is_empty());
    }
    assert!(rewritten(&frames[0]).0.contains("masses:R:1:move_mask:L:1"));
    for (columns, row, expected) in [
        (":masses:R:1", "0", "found \"0\", expected a mass in atomic mass units"),
        (":masses:R:1", "nan", "a number above zero"),
        (":move_mask:L:1", "maybe", "T or F, whether the atom may move"),
        (":move_mask:L:2", "T T", "move_mask:L:1 or move_mask:L:3"),
        (":move_mask:R:1", "1", "move_mask:L:1 or move_mask:L:3"),
        (":masses:S:1", "1", "masses:R:1"),
        (":momenta:R:1", "1", "momenta:R:3"),
        (":charges:R:1:initial_charges:R:1", "1 x", "an initial charge"),
        (":Z:I:1", "8", "found \"8\", expected the atomic number of H"),
        (":a:I:1:a:I:1", "1 1", "each name once"),
    ] {
        let told = said(&format!("1\n{head}{columns}\nH 0 0 0 {row}\n"));
        assert!(told.contains(expected), "{expected:?} in {told}");
    }
    assert_eq!(read("1\nProperties=Z:I:1:species:S:1:pos:R:3\n1 H 0 0 0\n").unwrap().len(), 1);
}

#[test]
fn the_charge_of_the_whole_is_that_of_its_atoms_where_no_other_is_said() {
    let of = |columns: &str, pairs: &str, rows: [&str; 2]| {
        let [a, b] = rows;
        let head = format!("Properties=species:S:1:pos:R:3{columns} {pairs} pbc=\"F F F\"");
        read(&format!("2\n{head}\nO 0 0 0 {a}\nH 0 0 1 {b}\n")).unwrap().remove(0)
    };
    let initial = ":initial_charges:R:1";
    for (columns, pairs, rows, charge, charges) in [
        (initial, "", ["-1.33333333", "0.33333333"], -1.0, Some(vec![-1.33333333, 0.33333333])),
        (initial, "", ["0.25", "0.5"], 0.75, Some(vec![0.25, 0.5])),
        (initial, "charge=2", ["-1", "0"], 2.0, Some(vec![-1.0, 0.0])),
        (initial, "charge=0", ["-1", "0"], 0.0, Some(vec![-1.0, 0.0])),
        (":charge:R:1", "", ["-1", "0"], 0.0, Some(vec![-1.0, 0.0])),
        (":charges:R:1:initial_charges:R:1", "", ["3 1", "4 0"], 1.0, Some(vec![3.0, 4.0])),
    ] {
        let frame = of(columns, pairs, rows);
        assert_eq!((frame.charge, &frame.labels.charges), (charge, &charges), "{columns} {pairs}");
        let (written, again) = rewritten(&frame);
        assert_eq!(again, frame, "{written}");
        assert!(written.contains(columns), "{columns} in {written}");
    }
}

#[test]
fn values_of_ase_in_json_are_read_under_any_key() {
    let lattice = "Lattice=\"2 0 0 0 2 0 0 0 2\" Properties=species:S:1:pos:R:3";
    let nested = "\"_JSON [[8, 1.5, 0.0], [0, 16, 0], [0, 0, -8]]\"";
    for name in ["virial", "virials", "REF_virial", "REF_virials", "dft_virial"] {
        let frame = read(&format!("1\n{lattice} {name}={nested}\nH 0 0 0\n")).unwrap().remove(0);
        let stress = frame.labels.stress.unwrap();
        // Rows are rows.
        assert_eq!((stress[0], stress[1][0]), ([-1.0, -0.1875, 0.0], 0.0), "{name}");
        assert_eq!(rewritten(&frame).1, frame, "{name}");
    }
    for name in ["stress", "REF_stress"] {
        let frame = read(&format!("1\n{lattice} {name}={nested}\nH 0 0 0\n")).unwrap().remove(0);
        assert_eq!(frame.labels.stress.unwrap()[0], [8.0, 1.5, 0.0], "{name}");
    }
    let pairs = "energy=\"_JSON [-3.5]\" pbc=\"_JSON [true, false, true]\" charge=[1]";
    let frame = read(&format!("1\n{lattice} {pairs}\nH 0 0 0\n")).unwrap().remove(0);
    assert_eq!((frame.labels.energy, frame.charge), (Some(-3.5), 1.0));
    assert_eq!(frame.cell.unwrap().periodic, [true, false, true]);
    for (pair, expected) in [
        ("virial=\"_JSON [[1, 2], [3, 4]]\"", "nine finite numbers as virial"),
        ("virial=\"_JSON {}\"", "nine or six finite numbers as virial"),
        ("virial=\"_JSON [[1,\"", "nine or six finite numbers"),
        ("energy=\"_JSON [1, 2]\"", "a finite number as energy"),
        ("energy=\"_JSON null\"", "a finite number as energy"),
    ] {
        let told = said(&format!("1\n{lattice} {pair}\nH 0 0 0\n"));
        assert!(told.contains(expected), "{expected:?} in {told}");
    }
    assert_eq!(parse_numbers("_JSON [[1, 2], [3]]"), Some(vec![1.0, 2.0, 3.0]));
    assert_eq!(parse_numbers("1 2d0, [3]"), Some(vec![1.0, 2.0, 3.0]));
    assert_eq!((parse_numbers("_JSON [\"a\"]"), parse_numbers("inf")), (None, None));
}

#[test]
fn units_may_be_said_in_parts() {
    let of = |pairs: &str| {
        let text = format!("1\nProperties=species:S:1:pos:R:3:forces:R:3 {pairs}\nH 0 0 0 1 0 0\n");
        let mut frame = read(&text).unwrap().remove(0);
        match frame.settle_units(None, crate::Units::default()) {
            Ok(units) => (units.to_string(), frame.labels.forces.unwrap()[0][0]),
            Err(error) => (error.to_string(), f64::NAN),
        }
    };
    let is = |pairs: &str, units: &str| assert_eq!(of(pairs), (units.to_owned(), 1.0), "{pairs}");
    is("energy_unit=kcal/mol pbc=\"F F F\"", "kcal/mol,A");
    is("dipole_unit=Debye unitary=T", "eV,A");
    is("length_unit=A forces_unit=kcal/mol/A", "kcal/mol,A");
    let refuses = |pairs: &str, part: &str| assert!(of(pairs).0.contains(part), "{:?}", of(pairs));
    refuses("units=eV,Bohr energy_unit=kcal/mol", "disagree");
    refuses("length_units=furlong", "length_units = furlong");
    refuses("forces_unit=Ha/bohr", "no unit for its lengths");
    // Forces alone may have a unit of their own.
    let (units, force) = of("e_unit=Hartree r_unit=Ang forces_unit=Hartree/Bohr");
    assert!(units == "Hartree,A" && (force - 1.0 / 0.529_177_210_903).abs() < 1e-12, "{force}");
}

#[test]
fn stresses_of_atoms_without_a_volume_are_kept_as_text() {
    let head = "Properties=species:S:1:pos:R:3";
    for (pairs, kept) in [
        ("virial=\"1 0 0 0 2 0 0 0 3\" pbc=\"F F F\"", "virial"),
        ("Lattice=\"2 0 0 0 2 0 0 0 2\" pbc=\"F F F\" stress=\"1 2 3 0 0 0\"", "stress"),
        ("Lattice=\"2 0 0 0 2 0 0 0 0\" pbc=\"T T F\" REF_virial=\"1 2 3 0 0 0\"", "REF_virial"),
    ] {
        let frame = read(&format!("1\n{head} {pairs}\nH 0 0 0\n")).unwrap().remove(0);
        assert_eq!(frame.labels.stress, None, "{pairs}");
        assert!(frame.info.contains_key(kept), "{pairs}");
        assert_eq!(rewritten(&frame).1.info, frame.info);
    }
}

#[test]
fn a_virial_becomes_a_stress() {
    let text = "1\nLattice=\"2 0 0 0 2 0 0 0 2\" Properties=species:S:1:pos:R:3 virial=\"8 0 0 0 16 0 0 0 -8\"\nH 0 0 0\n";
    let stress = read(text).unwrap()[0].labels.stress.unwrap();
    assert_eq!([stress[0][0], stress[1][1], stress[2][2]], [-1.0, -2.0, 1.0]);
}

#[test]
fn errors_name_the_place() {
    let head = "Properties=species:S:1:pos:R:3";
    for (text, expected) in [
        (
            "x\n".to_owned(),
            "frames.xyz, line 1, column 1: found \"x\", expected the number of atoms",
        ),
        ("-1\n\n".to_owned(), "the number of atoms"),
        ("1\n".to_owned(), "line 2, column 1"),
        (format!("2\n{head}\nH 0 0 0\n"), "expected 2 atoms, of which 1 are there"),
        (format!("18446744073709551615\n{head}\nH 0 0 0\n"), "of which 1 are there"),
        (format!("1\n{head}\nH 0 zero 0\n"), "line 3, column 5: found \"zero\""),
        (format!("1\n{head}\nH 0 NaN 0\n"), "line 3, column 5: found \"NaN\""),
        (format!("1\n{head}\nH 0 0\n"), "line 3, column 6"),
        (format!("1\n{head}\nH 0 0 0 0\n"), "line 3, column 9"),
        (format!("1\n{head}\nQq 0 0 0\n"), "line 3, column 1: found \"Qq\""),
        (format!("1\n{head} energy=much\nH 0 0 0\n"), "a finite number as energy"),
        (format!("1\n{head} a=1 a=2\nH 0 0 0\n"), "each key once"),
        (format!("1\n{head} a=\"1\nH 0 0 0\n"), "ends with \""),
        (format!("1\n{head} pbc=\"T T T\"\nH 0 0 0\n"), "a Lattice"),
        (format!("1\n{head} Lattice=\"1 2 3\"\nH 0 0 0\n"), "nine finite numbers"),
        ("1\nProperties=species:S:1\nH\n".to_owned(), "columns species:S:1"),
        ("1\nProperties=species:S:1:pos:R:99999999\nH\n".to_owned(), "triples"),
        ("1\nProperties=species:S:1:pos:R\nH\n".to_owned(), "triples"),
        (
            "1\nProperties=species:S:1:a:R:18446744073709551615\nH\n".to_owned(),
            "triples such as pos:R:3, with one of",
        ),
    ] {
        let found = said(&text);
        assert!(found.contains(expected), "{expected:?} in {found}");
    }
    let bytes = b"1\n\xff\n";
    let error = XyzReader::new(Path::new("x"), &bytes[..], LabelKeys::default()).next_frame();
    assert!(error.unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn what_no_file_can_hold_is_refused() {
    let mut structure =
        Structure { species: vec![1], positions: vec![[0.0; 3]], ..Structure::default() };
    structure.labels.energy = Some(f64::NAN);
    let error = XyzWriter::new(Vec::new()).frame(&structure).unwrap_err().to_string();
    assert!(error.contains("energy is not finite"), "{error}");
    structure.labels.energy = None;
    structure.species = vec![0];
    assert!(XyzWriter::new(Vec::new()).frame(&structure).is_err());
    structure.species = vec![1, 1];
    structure.cell = Some(Cell::periodic([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]));
    assert!(XyzWriter::new(Vec::new()).frame(&structure).is_err());
}

#[test]
fn damaged_frames_are_errors_or_structures() {
    use linwright_tensor::RngKey;
    let (mut good, mut bad) = (0, 0);
    for index in 0..5000 {
        let mut random = RngKey::new(26).fold("damage").fold_index(index).stream();
        let mut bytes = TWO.as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = b"0 \n\"=:-9e[{\xff"[random.below(12)];
        }
        let frames: Result<Vec<_>, _> =
            XyzReader::new(Path::new("x"), &bytes[..], LabelKeys::default()).collect();
        match frames {
            Ok(frames) => {
                frames.iter().for_each(|frame| frame.check().unwrap());
                good += 1;
            }
            Err(error) => {
                assert!(error.to_string().starts_with("x, line "), "{error}");
                bad += 1;
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
}

#[test]
fn further_columns_stand_after_the_labels_and_are_kept() {
    let frames = read(TWO).unwrap();
    let spread = [0.5, 0.25, 1.0 / 3.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let columns = [
        XyzColumn { name: "forces_std", width: 3, values: &spread },
        XyzColumn { name: "weight", width: 1, values: &spread[..3] },
    ];
    let mut writer = XyzWriter::new(Vec::new());
    writer.frame_with(&frames[0], &columns).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    assert!(text.contains("forces:R:3:forces_std:R:3:weight:R:1"), "{text}");
    let first = text.lines().nth(2).unwrap();
    assert!(first.ends_with("-0.001 0.5 0.25 0.3333333333333333 0.5"), "{first}");
    let again = read(&text).unwrap().remove(0);
    assert_eq!(again.column("weight").unwrap().numbers().unwrap(), spread[..3]);
    assert_eq!(Structure { columns: Vec::new(), ..again.clone() }, frames[0]);
    // Written once more, they take the place of those that are there.
    let mut writer = XyzWriter::new(Vec::new());
    let other = XyzColumn { name: "weight", width: 1, values: &[7.0, 8.0, 9.0] };
    writer.frame_with(&again, &[other]).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    assert_eq!(text.matches("weight").count(), 1);
    let last = read(&text).unwrap().remove(0);
    assert_eq!(last.column("weight").unwrap().numbers().unwrap(), [7.0, 8.0, 9.0]);
    let bad = XyzColumn { name: "bad", width: 1, values: &[1.0, f64::NAN, 2.0] };
    let error = XyzWriter::new(Vec::new()).frame_with(&frames[0], &[bad]).unwrap_err();
    assert!(error.to_string().contains("not finite"), "{error}");
}
