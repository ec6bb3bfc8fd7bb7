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

fn charged(coulomb_cutoff: Option<f64>) -> TensorNet<f64> {
    let charges = ChargeConfig { q_dim: 2, q_weights: vec![1.0, 0.5], coulomb_cutoff };
    let config = TensorNetConfig {
        model: Family::Tensornet2,
        head: Head::WeightedCoulomb,
        charges: Some(charges),
        species: 10,
        ..TensorNetConfig::new(6, 1, 5, 3.5)
    };
    TensorNet::random(config, RngKey::new(5)).expect("a model")
}

#[test]
fn gradients_of_the_parameters_of_charged_models_equal_differences() {
    let (mut model, one) = (charged(None), molecule(1.0));
    let atoms = one.species.len();
    let by_forces: Vec<[f64; 3]> =
        (0..atoms).map(|i| [0.3, -0.2 * i as f64, 0.1 + 0.05 * i as f64]).collect();
    let batch = Batch::new(&[&one], model.config()).expect("a batch");
    let loss = |model: &TensorNet<f64>| {
        let found = f64::evaluate(model, &batch, Wanted { forces: true }).expect("energies");
        let forces = found.forces.as_flattened().iter().zip(by_forces.as_flattened());
        0.7 * found.energies[0] + forces.map(|(f, g)| f * g).sum::<f64>()
    };
    let gradients = model.loss_gradients((&batch, &model.filters(&batch)), &[0.7], &by_forces);
    let names: Vec<_> = model.tensors_mut().into_iter().map(|t| (t.name, t.purpose)).collect();
    let mut compared = 0;
    for (index, (name, purpose)) in names.iter().enumerate() {
        if *purpose == TensorUse::Constant {
            continue;
        }
        let own = &gradients[name];
        let place = own.len() / 2;
        let mut at = |by: f64| {
            model.tensors_mut()[index].values[place] += by;
            let found = loss(&model);
            model.tensors_mut()[index].values[place] -= by;
            found
        };
        let want = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((own[place] - want).abs() < 1e-6, "{name}: {} {want}", own[place]);
        compared += 1;
    }
    assert!(compared > 40, "{compared} tensors");
}

#[test]
fn coulomb_energies_without_cutoff_are_refused_for_cells() {
    let mut one = molecule(0.0);
    let (open, cut) = (charged(None), charged(Some(5.0)));
    assert!(Batch::new(&[&one], open.config()).is_ok());
    one.cell = Some(crate::Cell::periodic([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]]));
    let error = Batch::new(&[&one], open.config()).expect_err("a cell").to_string();
    assert!(error.contains("coulomb_cutoff") && error.contains("periodic"), "{error}");
    assert!(Batch::new(&[&one], cut.config()).is_ok());
}

#[test]
fn weights_of_charges_that_sum_to_zero_are_refused() {
    let config = charged(None).config().clone();
    let bad = ChargeConfig { q_weights: vec![1.0, -1.0], ..config.charges.clone().expect("them") };
    let config = TensorNetConfig { charges: Some(bad), ..config };
    let error = TensorNet::<f64>::random(config, RngKey::new(1)).expect_err("no sum").to_string();
    assert!(error.contains("output_model.qweights"), "{error}");
}
