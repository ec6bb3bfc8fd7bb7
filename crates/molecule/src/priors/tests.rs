//! Tests of priors.

use super::*;
use crate::checkpoint::{Checkpoint, Numbers, Weight};
use crate::reference::{constants, extra, floats, molecules};
use crate::structure::Cell;
use crate::units::Energy;
use serde_json::json;

fn energy(prior: &Prior, structure: &Structure) -> f64 {
    let mut found = Prediction::default();
    prior.add(structure, Units::default(), &mut found).unwrap();
    found.energy
}

fn coulomb(compat: bool) -> Prior {
    Prior::Coulomb { switch: [1.0, 4.0], compat }
}

fn all() -> [Prior; 3] {
    [Prior::Zbl { cutoff: 4.0 }, Prior::D2 { cutoff: 10.0 }, coulomb(false)]
}

#[test]
fn energies_are_those_of_the_reference() {
    let extra = extra();
    let [zbl, d2, physical] = all();
    for (prior, name) in [(zbl, "zbl"), (d2, "d2"), (coulomb(true), "coulomb")] {
        let expected = floats(&extra, &format!("prior/{name}"));
        for (structure, expected) in molecules().iter().zip(expected) {
            let found = energy(&prior, structure);
            // The reference rounds constants to six digits.
            assert!(
                (found - expected).abs() < 5e-6 * expected.abs(),
                "{name}: {found}, {expected}"
            );
        }
    }
    // Two elementary charges, 1 nm apart.
    let pair = Structure {
        species: vec![1, 1],
        positions: vec![[0.0; 3], [10.0, 0.0, 0.0]],
        labels: crate::Labels { charges: Some(vec![1.0; 2]), ..Default::default() },
        ..Structure::default()
    };
    assert!((energy(&physical, &pair) - 1.439_964_5).abs() < 1e-6);
    assert!((energy(&coulomb(true), &pair) - 14.399_645).abs() < 1e-5);
}

#[test]
fn the_coulomb_energy_of_the_reference_is_right_in_nanometres() {
    let units = Units::parse("eV,nm").unwrap();
    let mut structure = molecules().remove(0);
    let expected = energy(&coulomb(false), &structure);
    structure.convert(Units::default(), units);
    for compat in [true, false] {
        let mut found = Prediction::default();
        coulomb(compat).add(&structure, units, &mut found).unwrap();
        assert!((found.energy - expected).abs() < 1e-9 * expected.abs(), "{found:?}, {expected}");
    }
}

#[test]
fn repulsion_and_dispersion_see_the_images_of_a_cell() {
    let mut boxed = molecules()[2].clone();
    // Smaller than the cutoffs: an atom sees several images of others, and its own.
    boxed.cell = Some(Cell::periodic([[4.1, 0.0, 0.0], [0.5, 4.3, 0.0], [0.0, -0.4, 4.7]]));
    let mut double = boxed.clone();
    let rows = &mut double.cell.as_mut().unwrap().rows;
    let by = rows[0];
    rows[0] = by.map(|x| 2.0 * x);
    double.species.extend_from_within(..);
    let images: Vec<_> =
        boxed.positions.iter().map(|p| [0, 1, 2].map(|axis| p[axis] + by[axis])).collect();
    double.positions.extend(images);
    let charges = double.labels.charges.as_mut().unwrap();
    charges.extend_from_within(..);
    for prior in [Prior::Zbl { cutoff: 5.0 }, Prior::D2 { cutoff: 10.0 }] {
        let (one, two) = (energy(&prior, &boxed), energy(&prior, &double));
        assert!((two - 2.0 * one).abs() < 1e-10 * one.abs(), "{prior:?}: {one} {two}");
        let open = Structure { cell: None, ..boxed.clone() };
        assert!((one - energy(&prior, &open)).abs() > 1e-6, "{prior:?}");
    }
}

#[test]
fn reference_energies_that_are_switched_off_are_added_when_asked_for() {
    // Energies of isolated atoms as the reference has them for ANI-1x.
    let table = constants()["ani_atom_energies_hartree"]["ANI1X"].clone();
    let of_element = |z: u8| table[z.to_string()].as_f64().unwrap_or(0.0);
    let energies: Vec<f64> = (0..20).map(|z| of_element(z) * Energy::Hartree.factor()).collect();
    let hyper = json!({
        "prior_model": "Atomref", "prior_args": { "max_z": 20, "enable": false },
        "remove_ref_energy": true,
    });
    let mut checkpoint =
        Checkpoint { hyper: hyper.as_object().unwrap().clone(), ..Checkpoint::default() };
    let weight = Weight { shape: vec![20, 1], numbers: Numbers::F64(energies.clone()) };
    checkpoint.tensors.insert("prior_model.0.atomref.weight".into(), weight);
    let of = |checkpoint: &Checkpoint, reference_energies| {
        let choices = PriorChoices { reference_energies, ..PriorChoices::default() };
        Prior::of_checkpoint(checkpoint, choices)
    };
    assert_eq!(of(&checkpoint, false).unwrap(), []);
    let found = of(&checkpoint, true).unwrap();
    assert_eq!(found, [Prior::Atomref { energies: energies.clone() }]);
    for structure in molecules() {
        let sum: f64 = structure.species.iter().map(|z| energies[usize::from(*z)]).sum();
        assert!(sum < -10.0 && (energy(&found[0], &structure) - sum).abs() < 1e-9);
    }
    checkpoint.hyper.insert("prior_args".into(), json!({ "enable": true }));
    assert_eq!(of(&checkpoint, false).unwrap(), found);
    checkpoint.hyper.remove("prior_model");
    let error = of(&checkpoint, true).unwrap_err().to_string();
    assert!(error.contains("reference energies"), "{error}");
}

#[test]
fn distances_of_priors_are_in_the_units_of_the_model() {
    let hyper = json!({
        "prior_model": [
            { "D2": { "cutoff_distance": 1.0, "atomic_number": [0, 1, 2, 3] } },
            { "Coulomb": {
                "lower_switch_distance": 0.1, "upper_switch_distance": 0.4, "initial_box": null,
            } },
        ],
    });
    let mut checkpoint = Checkpoint {
        hyper: hyper.as_object().unwrap().clone(),
        units: Units::parse("eV,nm").unwrap(),
        ..Checkpoint::default()
    };
    let choices = PriorChoices { compat: true, ..PriorChoices::default() };
    let found = Prior::of_checkpoint(&checkpoint, choices).unwrap();
    assert_eq!(found, [Prior::D2 { cutoff: 10.0 }, coulomb(true)]);
    checkpoint.hyper["prior_model"][0]["D2"]["atomic_number"] = json!([0, 1, 6]);
    let error = Prior::of_checkpoint(&checkpoint, choices).unwrap_err().to_string();
    assert!(error.contains("atom type 2") && error.contains('6'), "{error}");
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
    assert!(
        Prior::of_checkpoint(&checkpoint, PriorChoices::default())
            .unwrap_err()
            .to_string()
            .contains("no tensor")
    );
    let weight = Weight { shape: vec![2, 1], numbers: Numbers::F64(vec![0.0, -13.5]) };
    checkpoint.tensors.insert("prior_model.0.atomref.weight".into(), weight);
    let priors = Prior::of_checkpoint(&checkpoint, PriorChoices::default()).unwrap();
    assert_eq!(priors[0], Prior::Atomref { energies: vec![0.0, -13.5] });
    assert_eq!(priors[1..], [Prior::Zbl { cutoff: 4.0 }, coulomb(false)]);
    for (named, said) in
        [(json!("Foo"), "Foo is unknown"), (json!("D2"), "cutoff_distance"), (json!(3), "unknown")]
    {
        checkpoint.hyper.insert("prior_model".into(), named);
        let error =
            Prior::of_checkpoint(&checkpoint, PriorChoices::default()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    checkpoint.hyper.remove("prior_model");
    assert_eq!(Prior::of_checkpoint(&checkpoint, PriorChoices::default()).unwrap(), []);
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
    let coulomb = coulomb(false);
    assert!(said(&coulomb, &structure).contains("partial charges"));
    structure.labels.charges = Some(vec![1.0; 2]);
    structure.positions[1] = [0.0; 3];
    assert!(said(&coulomb, &structure).contains("atoms 0 and 1"));
    structure.cell = Some(Cell::periodic([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]));
    assert!(said(&coulomb, &structure).contains("periodic"));
}
