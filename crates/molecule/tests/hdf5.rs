//! Files that h5py wrote (`tools/golden/hdf5.py`), whole and damaged.

use linwright_molecule::{Structure, Units, read_hdf5};
use std::path::Path;

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet").join(name)
}

#[test]
fn groups_of_each_layout_become_structures() {
    for (name, units, sign) in [
        ("own.h5", None, 1.0),
        ("ani.h5", Some("Hartree,A"), 1.0),
        ("spice.h5", Some("Hartree,bohr"), -1.0),
    ] {
        let mut found = read_hdf5(&file(name)).unwrap();
        // One structure of water lacks its energy in each file; hydrogen comes first by name.
        assert_eq!((found.structures.len(), found.unlabelled), (3, 1), "{name}");
        let [hydrogen, water, _] = &mut found.structures[..] else { panic!("{name}") };
        assert_eq!((&hydrogen.species[..], &water.species[..]), (&[1, 1][..], &[8, 1, 1][..]));
        assert_eq!(water.positions[1], [0.0, 0.8, -0.5]);
        assert_eq!(water.labels.energy, Some(-1.5), "{name}");
        assert_eq!(water.labels.forces.as_ref().unwrap()[1], [3.0, 4.0, 5.0].map(|x| sign * x));
        let expected = units.map_or(Units::default(), |units| Units::parse(units).unwrap());
        assert_eq!(water.settle_units(None, Units::default()).unwrap(), expected);
    }
}

#[test]
fn units_of_attributes_come_before_those_of_the_layout() {
    let mut found = read_hdf5(&file("units.h5")).unwrap().structures;
    let settle = |one: &mut Structure| one.settle_units(None, Units::default()).unwrap();
    let all: Vec<String> = found.iter_mut().map(|one| settle(one).to_string()).collect();
    let units = |index: usize| all[index].as_str();
    assert_eq!(found.len(), 6);
    // The file's own, with a length of the group, and those of the arrays.
    assert_eq!([units(0), units(2), units(4)], ["kcal/mol,A", "kcal/mol,Bohr", "Hartree,Bohr"]);
    assert_eq!([found[0].charge, found[2].charge, found[3].charge], [0.0, 1.0, -1.0]);
    let force = |index: usize| found[index].labels.forces.as_ref().unwrap()[0][1];
    // Per angstrom beside lengths in bohr.
    assert_eq!(force(0), 1.0);
    assert!((force(4) - 0.529_177_210_903).abs() < 1e-12, "{}", force(4));
    for (name, array) in [("box.h5", "cell"), ("lattice.h5", "Lattice")] {
        let error = read_hdf5(&file(name)).unwrap_err().to_string();
        assert!(error.contains(&format!("water/{array}, a cell, which is not read")), "{error}");
    }
}

#[test]
fn numbers_are_no_units_and_masses_are_read() {
    let mut found = read_hdf5(&file("numbers.h5")).unwrap().structures.remove(0);
    assert_eq!(found.settle_units(None, Units::default()).unwrap().to_string(), "kJ/mol,nm");
    assert_eq!(found.masses, Some(vec![15.999, 2.014, 2.014]));
    let error = read_hdf5(&file("factor.h5")).unwrap_err().to_string();
    assert!(error.contains("the unit energy_unit as a number"), "{error}");
}

#[test]
fn damaged_files_and_other_arrays_are_refused_by_name() {
    let error = read_hdf5(&file("other.h5")).unwrap_err().to_string();
    assert!(error.contains("other.h5") && error.contains("atomic_numbers"), "{error}");
    let error = read_hdf5(&file("shapes.h5")).unwrap_err().to_string();
    assert!(error.contains("water/forces") && error.contains("[2, 2, 3]"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(file("own.h5")).unwrap();
    for end in (0..whole.len()).step_by(97) {
        let path = folder.path().join("cut.h5");
        std::fs::write(&path, &whole[..end]).unwrap();
        if let Err(error) = read_hdf5(&path) {
            assert!(error.to_string().contains("cut.h5"), "{error}");
        }
    }
}
