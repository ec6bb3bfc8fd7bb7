//! Files that h5py wrote (`tools/golden/hdf5.py`), whole and damaged.

use linwright_molecule::{Units, read_hdf5};
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
        let found = read_hdf5(&file(name)).unwrap();
        // One structure of water lacks its energy in each file; hydrogen comes first by name.
        assert_eq!((found.structures.len(), found.unlabelled), (3, 1), "{name}");
        let (hydrogen, water) = (&found.structures[0], &found.structures[1]);
        assert_eq!((&hydrogen.species[..], &water.species[..]), (&[1, 1][..], &[8, 1, 1][..]));
        assert_eq!(water.positions[1], [0.0, 0.8, -0.5]);
        assert_eq!(water.labels.energy, Some(-1.5), "{name}");
        assert_eq!(water.labels.forces.as_ref().unwrap()[1], [3.0, 4.0, 5.0].map(|x| sign * x));
        let expected = units.map_or(Units::default(), |units| Units::parse(units).unwrap());
        water.check_units(expected).unwrap();
    }
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
