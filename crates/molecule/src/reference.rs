//! Reference values of tests.

use crate::structure::Structure;
use linwright_files::TensorFile;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of `testdata/tensornet`.
pub(crate) fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet").join(name)
}

/// The constants of the reference implementation.
pub(crate) fn constants() -> Value {
    let path = reference("constants.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
}

/// Numbers of eight bytes.
fn words(file: &TensorFile, name: &str) -> Vec<[u8; 8]> {
    let info = &file.tensors()[name];
    let bytes = file.stored(info, 0..info.shape.iter().product());
    bytes.as_chunks().0.to_vec()
}

/// Numbers of a tensor in double precision.
pub(crate) fn floats(file: &TensorFile, name: &str) -> Vec<f64> {
    words(file, name).into_iter().map(f64::from_le_bytes).collect()
}

fn integers(file: &TensorFile, name: &str) -> Vec<usize> {
    words(file, name).into_iter().map(|word| i64::from_le_bytes(word) as usize).collect()
}

/// Further results of the reference.
pub(crate) fn extra() -> TensorFile {
    TensorFile::open(&reference("extra.safetensors")).unwrap()
}

/// The three molecules of the reference, with their charges and partial charges.
pub(crate) fn molecules() -> Vec<Structure> {
    let file = TensorFile::open(&reference("a.safetensors")).unwrap();
    let (of, species) = (integers(&file, "batch/batch"), integers(&file, "batch/z"));
    let (positions, charges) =
        (floats(&file, "batch/pos"), floats(&extra(), "prior/partial_charges"));
    let total = floats(&file, "batch/q");
    let of_charge = |charge| Structure { charge, ..Structure::default() };
    let mut found: Vec<Structure> = total.into_iter().map(of_charge).collect();
    for (atom, of) in of.into_iter().enumerate() {
        let one = &mut found[of];
        one.species.push(species[atom] as u8);
        one.positions.push(positions.as_chunks::<3>().0[atom]);
        one.labels.charges.get_or_insert_default().push(charges[atom]);
    }
    found
}
