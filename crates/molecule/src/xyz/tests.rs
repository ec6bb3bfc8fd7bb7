//! Tests of extended XYZ.

use super::*;
use crate::structure::Structure;

fn read(text: &str) -> Result<Vec<Structure>, MoleculeError> {
    XyzReader::new(Path::new("a.xyz"), text.as_bytes(), LabelKeys::default()).collect()
}

const TWO: &str = "2\nLattice=\"4 0 0 0 5 0 0 0 6\" Properties=forces:R:3:species:S:1:tag:I:1:pos:R:3 \
    REF_energy=-1.5 energy=7 virial=\"120 0 0 0 0 0 0 0 0\" total_charge=-1 name='a \\'b\\''\n\
    1 2 3 O 0 0 0 0\n-1 -2 -3 H 1 0.5 1D0 2e0\n\n1\nHelium, plain\nHe 0 0 1 extra\n";

#[test]
fn columns_come_in_any_order_and_labels_by_preference() {
    let frames = read(TWO).unwrap();
    let [first, second] = &frames[..] else { panic!("{} frames", frames.len()) };
    assert_eq!(first.species, [8, 1]);
    assert_eq!(first.positions[1], [0.5, 1.0, 2.0]);
    assert_eq!(first.labels.forces.as_ref().unwrap()[0], [1.0, 2.0, 3.0]);
    assert_eq!((first.labels.energy, first.charge), (Some(-1.5), -1.0));
    assert_eq!(first.labels.stress.unwrap()[0][0], -1.0);
    assert_eq!(first.cell.unwrap().periodic, [true; 3]);
    assert_eq!(first.info["name"], "a 'b'");
    assert_eq!((second.species.clone(), second.cell), (vec![2], None));
    assert_eq!(second.info["comment"], "Helium, plain");
}

#[test]
fn what_is_written_is_read_back() {
    let frames = read(TWO).unwrap();
    let mut writer = XyzWriter::new(Vec::new());
    writer.frame(&frames[0]).unwrap();
    let text = String::from_utf8(writer.into_inner()).unwrap();
    let again = read(&text).unwrap().remove(0);
    let mut expected = frames[0].clone();
    // The preferred energy is written under the plain name, whose own value it replaces.
    expected.info.remove("energy");
    assert_eq!(again, expected, "{text}");
}

#[test]
fn bad_input_is_named_with_its_place() {
    let atom = "1\nProperties=species:S:1:pos:R:3\n";
    for (text, said) in [
        ("x\n".to_owned(), "line 1, column 1: found \"x\", expected the number of atoms"),
        ("1\n".to_owned(), "line 2, column 1: found nothing"),
        (format!("{atom}H 0 0 nan\n"), "line 3, column 7: found \"nan\""),
        (format!("{atom}Xx 0 0 0\n"), "expected the symbol of an element"),
        (format!("{atom}H 0 0\n"), "line 3, column 6: found nothing, expected a coordinate"),
        (format!("{atom}H 0 0 0 5\n"), "no more columns are declared"),
        (atom.to_owned(), "1 atoms, of which 0 are there"),
        ("99999999999999\na\nH 0 0 0\n".into(), "99999999999999 atoms, of which 1"),
        ("1\nProperties=species:S:1\nH\n".into(), "pos:R:3"),
        ("1\nLattice=\"1 2 3\"\nH 0 0 0\n".into(), "nine finite numbers as Lattice"),
        ("1\npbc=\"T T T\" Properties=species:S:1:pos:R:3\nH 0 0 0\n".into(), "a Lattice where"),
        ("1\nProperties=species:S:1:pos:R:3 energy=a\nH 0 0 0\n".into(), "number as energy"),
        ("1\nProperties=species:S:1:pos:R:3 a=1 a=2\nH 0 0 0\n".into(), "each key once"),
        ("1\nProperties=species:S:1:pos:R:3 a=\"1\nH 0 0 0\n".into(), "ends with \""),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with("a.xyz, line") && error.contains(said), "{said:?} in {error}");
    }
}
