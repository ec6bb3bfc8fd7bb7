//! Models at their limits: atoms alone, species that they do not know, other operators.

use super::*;
use crate::{Structure, Wanted};
use linwright_tensor::{Mat, RngKey};

/// Exact but for rounding.
const EXACT: f64 = 1e-10;

fn model(group: Group) -> TensorNet<f64> {
    let config = TensorNetConfig { species: 10, group, ..TensorNetConfig::new(8, 2, 8, 4.5) };
    let mut model = TensorNet::random(config, RngKey::new(5)).expect("a model");
    for slot in model.linears_mut().into_iter().filter(|slot| slot.role() == MIXING) {
        for param in slot.op_mut().map_mut().params_mut() {
            param.values.iter_mut().for_each(|value| *value *= 4.0);
        }
    }
    model
}

fn molecule(charge: f64) -> Structure {
    let mut stream = RngKey::new(2).stream();
    let positions = (0..6).map(|i| {
        let grid = [f64::from(i % 2), f64::from(i / 2 % 2), f64::from(i / 4)];
        grid.map(|x| 1.3 * x + 0.2 * stream.normal())
    });
    let positions = positions.collect();
    Structure { species: vec![6, 8, 1, 1, 6, 7], positions, charge, ..Structure::default() }
}

fn predict(model: &TensorNet<f64>, all: &[&Structure]) -> BatchPrediction {
    let batch = Batch::new(all, model.config()).expect("a batch");
    f64::evaluate(model, &batch, Wanted { forces: true }).expect("energies")
}

fn off(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
    let pairs = a.as_flattened().iter().zip(b.as_flattened());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn an_atom_alone_has_an_energy_and_no_force() {
    let one = Structure { species: vec![6], positions: vec![[0.0; 3]], ..Structure::default() };
    let found = predict(&model(Group::Orthogonal), &[&one]);
    assert!(found.energies[0].is_finite() && found.forces == [[0.0; 3]]);
}

#[test]
fn a_species_that_the_model_does_not_know_is_refused() {
    let one = Structure { species: vec![26], positions: vec![[0.0; 3]], ..Structure::default() };
    let error = Batch::new(&[&one], model(Group::Orthogonal).config()).expect_err("iron");
    assert!(error.to_string().contains("Fe"), "{error}");
}

#[test]
fn a_low_rank_operator_of_full_rank_predicts_the_same() {
    let (mut model, one) = (model(Group::Orthogonal), molecule(0.0));
    let before = predict(&model, &[&one]);
    for slot in model.linears_mut() {
        let dense = slot.op().to_dense().expect("a weight");
        let unit = Mat::identity(dense.rows());
        let op = linwright_ops::LowRank::new(unit, dense);
        slot.replace(linwright_ops::Op::Linear(Box::new(op))).expect("the same shape");
    }
    let after = predict(&model, &[&one]);
    assert!((before.energies[0] - after.energies[0]).abs() < EXACT);
    assert!(off(&before.forces, &after.forces) < EXACT);
}
