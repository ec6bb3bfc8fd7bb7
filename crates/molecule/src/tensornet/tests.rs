//! Properties of the model, on random molecules with weights larger than at the start of training.

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

/// A rotation, of determinant one.
fn rotation() -> [[f64; 3]; 3] {
    let ((s, c), (t, d)) = (0.7_f64.sin_cos(), 1.9_f64.sin_cos());
    [[c, -s, 0.0], [s * d, c * d, -t], [s * t, c * t, d]]
}

fn turned(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| (0..3).map(|b| row[b] * v[b]).sum())
}

fn off(a: &[[f64; 3]], b: &[[f64; 3]]) -> f64 {
    let pairs = a.as_flattened().iter().zip(b.as_flattened());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn rotations_turn_the_forces_and_keep_the_energy() {
    for group in [Group::Orthogonal, Group::Rotations] {
        let (model, one) = (model(group), molecule(1.0));
        let mut other = one.clone();
        other.positions.iter_mut().for_each(|p| *p = turned(rotation(), *p).map(|x| x + 3.0));
        let (a, b) = (predict(&model, &[&one]), predict(&model, &[&other]));
        let want: Vec<_> = a.forces.iter().map(|f| turned(rotation(), *f)).collect();
        assert!((a.energies[0] - b.energies[0]).abs() < EXACT && off(&want, &b.forces) < EXACT);
    }
}

#[test]
fn reflections_keep_the_energy_only_of_models_that_are_symmetric_to_them() {
    let one = molecule(1.0);
    let mut other = one.clone();
    other.positions.iter_mut().for_each(|p| *p = p.map(|x| -x));
    let difference = |group| {
        let model = model(group);
        (predict(&model, &[&one]).energies[0] - predict(&model, &[&other]).energies[0]).abs()
    };
    assert!(difference(Group::Orthogonal) < EXACT);
    assert!(difference(Group::Rotations) > 1e-6, "{}", difference(Group::Rotations));
}

#[test]
fn forces_are_minus_the_slopes_of_the_energy_and_sum_to_nothing() {
    for group in [Group::Orthogonal, Group::Rotations] {
        let (model, one) = (model(group), molecule(-1.0));
        let found = predict(&model, &[&one]).forces;
        for a in 0..3 {
            assert!(found.iter().map(|f| f[a]).sum::<f64>().abs() < EXACT);
            let at = |by: f64| {
                let mut moved = one.clone();
                moved.positions[2][a] += by;
                predict(&model, &[&moved]).energies[0]
            };
            let want = -(at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((found[2][a] - want).abs() < 1e-7 * (1.0 + want.abs()), "{group:?}");
        }
    }
}

#[test]
fn a_batch_equals_its_structures_alone_in_any_order() {
    let (model, one) = (model(Group::Orthogonal), molecule(0.0));
    let mut other = molecule(1.0);
    other.species.reverse();
    other.positions.reverse();
    other.positions[0][0] += 0.1;
    let [a, b] = [&one, &other].map(|each| predict(&model, &[each]));
    let both = predict(&model, &[&other, &one]);
    let energies = [b.energies[0] - both.energies[0], a.energies[0] - both.energies[1]];
    assert!(energies.iter().all(|e| e.abs() < EXACT));
    let alone: Vec<_> = b.forces.iter().chain(&a.forces).copied().collect();
    assert!(off(&alone, &both.forces) < EXACT);
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
