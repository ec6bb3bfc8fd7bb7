//! Tests of priors.

use super::*;
use crate::checkpoint::{Checkpoint, Numbers, Weight};
use crate::reference::reference;
use crate::structure::Cell;
use linwright_files::TensorFile;
use serde_json::json;

/// Numbers of eight bytes.
fn words(file: &TensorFile, name: &str) -> Vec<[u8; 8]> {
    let info = &file.tensors()[name];
    let bytes = file.stored(info, 0..info.shape.iter().product());
    bytes.as_chunks().0.to_vec()
}

fn floats(file: &TensorFile, name: &str) -> Vec<f64> {
    words(file, name).into_iter().map(f64::from_le_bytes).collect()
}

fn integers(file: &TensorFile, name: &str) -> Vec<usize> {
    words(file, name).into_iter().map(|word| i64::from_le_bytes(word) as usize).collect()
}

/// The three molecules of the reference, with partial charges.
fn molecules() -> Vec<Structure> {
    let file = TensorFile::open(&reference("a.safetensors")).unwrap();
    let extra = TensorFile::open(&reference("extra.safetensors")).unwrap();
    let (of, species) = (integers(&file, "batch/batch"), integers(&file, "batch/z"));
    let (positions, charges) =
        (floats(&file, "batch/pos"), floats(&extra, "prior/partial_charges"));
    let mut found = vec![Structure::default(); 3];
    for (atom, of) in of.into_iter().enumerate() {
        let one = &mut found[of];
        one.species.push(species[atom] as u8);
        one.positions.push(positions.as_chunks::<3>().0[atom]);
        one.labels.charges.get_or_insert_default().push(charges[atom]);
    }
    found
}

fn energy(prior: &Prior, structure: &Structure) -> f64 {
    let mut found = Prediction::default();
    prior.add(structure, Units::default(), &mut found).unwrap();
    found.energy
}

fn all() -> [Prior; 3] {
    [Prior::Zbl { cutoff: 4.0 }, Prior::D2 { cutoff: 10.0 }, Prior::Coulomb { switch: [1.0, 4.0] }]
}

#[test]
fn energies_are_those_of_the_reference() {
    let extra = TensorFile::open(&reference("extra.safetensors")).unwrap();
    // The reference computes ten times the Coulomb energy, and rounds constants to six digits.
    for (prior, (name, factor)) in all().iter().zip([("zbl", 1.0), ("d2", 1.0), ("coulomb", 10.0)])
    {
        let expected = floats(&extra, &format!("prior/{name}"));
        for (structure, expected) in molecules().iter().zip(expected) {
            let found = factor * energy(prior, structure);
            assert!(
                (found - expected).abs() < 5e-6 * expected.abs(),
                "{name}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn forces_and_virial_are_derivatives_of_the_energy() {
    let h = 1e-5;
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{found}, {expected}");
    };
    let mut boxed = molecules()[0].clone();
    // No image may be just at a cutoff, where D2 jumps.
    boxed.cell = Some(Cell::periodic([[5.1, 0.0, 0.0], [0.5, 6.0, 0.0], [0.0, 1.0, 7.0]]));
    for prior in all() {
        let open = matches!(prior, Prior::Coulomb { .. });
        let structure = if open { molecules()[0].clone() } else { boxed.clone() };
        let atoms = structure.species.len();
        let mut found = Prediction {
            forces: vec![[0.0; 3]; atoms],
            atom_energies: vec![0.0; atoms],
            ..Prediction::default()
        };
        prior.add(&structure, Units::default(), &mut found).unwrap();
        near(found.atom_energies.iter().sum(), found.energy);
        for (atom, axis) in (0..atoms).flat_map(|atom| (0..3).map(move |axis| (atom, axis))) {
            let at = |step: f64| {
                let mut moved = structure.clone();
                moved.positions[atom][axis] += step;
                energy(&prior, &moved)
            };
            near(found.forces[atom][axis], (at(-h) - at(h)) / (2.0 * h));
        }
        for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
            let at = |strain: f64| {
                let mut strained = structure.clone();
                strained.positions.iter_mut().for_each(|x| x[a] += strain * x[b]);
                let rows = strained.cell.iter_mut().flat_map(|cell| &mut cell.rows);
                rows.for_each(|x| x[a] += strain * x[b]);
                energy(&prior, &strained)
            };
            near(found.virial[a][b], (at(-h) - at(h)) / (2.0 * h));
        }
    }
}

#[test]
fn other_units_give_the_same_physics() {
    let units = Units::parse("kcal/mol,nm").unwrap();
    for prior in all() {
        let structure = molecules().remove(0);
        let expected = energy(&prior, &structure) * Units::default().energy_to(units);
        let mut converted = structure.clone();
        converted.convert(Units::default(), units);
        let mut found = Prediction::default();
        prior.add(&converted, units, &mut found).unwrap();
        assert!((found.energy - expected).abs() < 1e-9 * expected.abs(), "{found:?}, {expected}");
    }
}

#[test]
fn priors_are_read_from_checkpoints() {
    let hyper = json!({
        "prior_model": ["Atomref", { "ZBL": { "cutoff_distance": 4.0 } }, "Coulomb"],
        "prior_args": [null, null, { "lower_switch_distance": 0.1, "upper_switch_distance": 0.4 }],
    });
    let mut checkpoint =
        Checkpoint { hyper: hyper.as_object().unwrap().clone(), ..Checkpoint::default() };
    assert!(Prior::of_checkpoint(&checkpoint).unwrap_err().to_string().contains("no tensor"));
    let weight = Weight { shape: vec![2, 1], numbers: Numbers::F64(vec![0.0, -13.5]) };
    checkpoint.tensors.insert("prior_model.0.atomref.weight".into(), weight);
    let priors = Prior::of_checkpoint(&checkpoint).unwrap();
    assert_eq!(priors[0], Prior::Atomref { energies: vec![0.0, -13.5] });
    assert_eq!(priors[1..], [Prior::Zbl { cutoff: 4.0 }, Prior::Coulomb { switch: [1.0, 4.0] }]);
    for (named, said) in
        [(json!("Foo"), "Foo is unknown"), (json!("D2"), "cutoff_distance"), (json!(3), "unknown")]
    {
        checkpoint.hyper.insert("prior_model".into(), named);
        let error = Prior::of_checkpoint(&checkpoint).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    checkpoint.hyper.remove("prior_model");
    assert_eq!(Prior::of_checkpoint(&checkpoint).unwrap(), []);
}

#[test]
fn what_a_prior_cannot_know_is_refused() {
    let mut structure = Structure {
        species: vec![1, 92],
        positions: vec![[0.0; 3], [2.0; 3]],
        ..Structure::default()
    };
    let said = |prior: &Prior, structure: &Structure| {
        prior.add(structure, Units::default(), &mut Prediction::default()).unwrap_err().to_string()
    };
    assert!(said(&Prior::D2 { cutoff: 9.0 }, &structure).contains("atom 1 of atomic number 92"));
    assert!(said(&Prior::Atomref { energies: vec![0.0; 9] }, &structure).contains("atom 1"));
    let coulomb = Prior::Coulomb { switch: [1.0, 4.0] };
    assert!(said(&coulomb, &structure).contains("partial charges"));
    structure.labels.charges = Some(vec![1.0; 2]);
    structure.positions[1] = [0.0; 3];
    assert!(said(&coulomb, &structure).contains("atoms 0 and 1"));
    structure.cell = Some(Cell::periodic([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]));
    assert!(said(&coulomb, &structure).contains("periodic"));
}
