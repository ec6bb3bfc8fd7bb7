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
        // A box that does not repeat is no cell.
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

#[test]
fn labels_under_further_names_are_not_read_for_those_that_were_written() {
    let lattice = "Lattice=\"2 0 0 0 2 0 0 0 2\"";
    let text = format!(
        "1\n{lattice} Properties=species:S:1:pos:R:3 charge=0 total_charge=5 \
         stress=\"1 2 3 0 0 0\" virial=\"1 2 3 0 0 0\" virials=none\nH 0 0 0\n"
    );
    let mut frames = read(&text).unwrap();
    assert_eq!((frames[0].charge, frames[0].info["total_charge"].as_str()), (0.0, "5"));
    let mut writer = XyzWriter::new(Vec::new());
    writer.frame(&frames[0]).unwrap();
    let again = read(&String::from_utf8(writer.into_inner()).unwrap()).unwrap();
    frames[0].info.clear();
    assert_eq!(again, frames);
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
fn further_columns_stand_after_the_labels_and_are_read_over() {
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
    assert_eq!(read(&text).unwrap(), frames[..1]);
    let bad = XyzColumn { name: "bad", width: 1, values: &[1.0, f64::NAN, 2.0] };
    let error = XyzWriter::new(Vec::new()).frame_with(&frames[0], &[bad]).unwrap_err();
    assert!(error.to_string().contains("not finite"), "{error}");
}
