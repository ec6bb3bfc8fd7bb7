//! Molecules in HDF5 files, in a build with and in one without them.

use crate::workshop::Workshop;
use std::path::Path;

const SMALL: &str =
    "--architecture channels=16,layers=1,radial=8,cutoff=3 --epochs 1 --validation 1 -o out";

fn copy(w: &Workshop, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet").join(name);
    w.write(name, std::fs::read(file).unwrap());
}

#[cfg(feature = "hdf5")]
#[test]
fn potentials_are_trained_on_the_groups_of_ani_and_spice() {
    let w = Workshop::new();
    for name in ["ani.h5", "spice.h5"] {
        copy(&w, name);
        let found = w.run(&format!("molecule train --data {name} {SMALL} --force"));
        let said = found.stderr.clone();
        found.succeeded(name);
        assert!(said.contains("1 structures with labels that are NaN are left out"), "{said}");
        let told = w.ok_json("molecule info out");
        assert_eq!(told["species"], serde_json::json!(["H", "O"]), "{told}");
    }
    let said = ["structure 0", "Hartree", "kcal/mol"];
    w.fails(&format!("molecule train --data ani.h5 {SMALL} --units kcal/mol,A --force"), 2, &said);
    copy(&w, "shapes.h5");
    let said = ["shapes.h5", "water/forces", "[2, 2, 3]"];
    w.fails(&format!("molecule train --data shapes.h5 {SMALL} --force"), 1, &said);
}

#[cfg(any(not(feature = "hdf5"), clippy))]
#[test]
fn a_build_without_hdf5_says_how_to_get_it() {
    let w = Workshop::new();
    copy(&w, "ani.h5");
    let said = ["ani.h5", "without HDF5 files", "--features hdf5"];
    w.fails(&format!("molecule train --data ani.h5 {SMALL}"), 1, &said);
    assert!(!w.path("out").exists());
}
