//! Properties that any TensorNet has, whatever its weights.

use super::{Batch, Group, Precision, TensorNet, TensorNetConfig, TensorNetPotential};
use crate::{Cell, Potential, Prediction, Structure, Wanted};
use linwright_tensor::RngKey;

type Vector = [f64; 3];
type Matrix = [Vector; 3];

const CUTOFF: f64 = 4.0;

/// A random model whose layers change energies as those of trained models do.
pub(super) fn model(group: Group) -> TensorNet<f64> {
    let config = TensorNetConfig { species: 10, group, ..TensorNetConfig::new(8, 2, 8, CUTOFF) };
    let mut model = TensorNet::random(config, RngKey::new(7)).expect("a model");
    for tensor in model.tensors_mut() {
        let gain = match &tensor.name {
            name if name.contains("linears_tensor") || name.contains("distance_proj") => 4.0,
            name if name.contains("layers.") && name.contains("linears_scalar") => 2.0,
            _ => 1.0,
        };
        tensor.values.iter_mut().for_each(|value| *value *= gain);
    }
    model.set_offset_and_scale(-0.5, 1.5);
    model
}

pub(super) fn molecule() -> Structure {
    let mut stream = RngKey::new(3).fold("positions").stream();
    // One atom in each box of a grid, so that none coincide.
    let position = |k: usize| {
        let at = [k % 2, k / 2 % 2, k / 4].map(|x| 1.4 * x as f64);
        at.map(|x| x + 0.4 * stream.uniform())
    };
    let positions: Vec<Vector> = (0..7).map(position).collect();
    Structure { species: vec![6, 1, 8, 7, 1, 1, 6], positions, charge: 1.0, ..Structure::default() }
}

fn crystal() -> Structure {
    let rows = [[8.2, 0.0, 0.0], [0.6, 8.4, 0.0], [-0.5, 0.7, 8.6]];
    let cell = Some(Cell { rows, periodic: [true; 3] });
    Structure { cell, charge: 0.0, ..molecule() }
}

pub(super) fn predict(model: &TensorNet<f64>, structure: &Structure) -> Prediction {
    let mut potential = TensorNetPotential::new(model.clone());
    potential.predict(structure, Wanted { forces: true }).expect("a prediction")
}

fn apply(matrix: &Matrix, v: Vector) -> Vector {
    std::array::from_fn(|a| (0..3).map(|b| matrix[a][b] * v[b]).sum())
}

fn moved(structure: &Structure, by: impl Fn(Vector) -> Vector) -> Structure {
    let cell = structure.cell.map(|cell| Cell { rows: cell.rows.map(&by), ..cell });
    let positions = structure.positions.iter().map(|position| by(*position)).collect();
    Structure { cell, positions, ..structure.clone() }
}

fn rotation() -> Matrix {
    let ((s, c), (t, d)) = (0.7_f64.sin_cos(), 1.9_f64.sin_cos());
    // About z, then about x.
    [[c, -s, 0.0], [d * s, d * c, -t], [t * s, t * c, d]]
}

#[track_caller]
pub(super) fn near(what: &str, found: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(found.len(), want.len(), "{what}");
    let off = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= tolerance, "{what} is off by {off:e}");
}

#[test]
fn rotations_turn_forces_and_virials_and_leave_the_energy() {
    let turn = rotation();
    for group in [Group::Orthogonal, Group::Rotations] {
        let model = model(group);
        for structure in [molecule(), crystal()] {
            let before = predict(&model, &structure);
            let after = predict(&model, &moved(&structure, |v| apply(&turn, v)));
            near("energy", &[after.energy], &[before.energy], 1e-10);
            let forces: Vec<Vector> = before.forces.iter().map(|f| apply(&turn, *f)).collect();
            near("forces", after.forces.as_flattened(), forces.as_flattened(), 1e-10);
            let half = before.virial.map(|row| apply(&turn, row));
            let columns: Matrix = std::array::from_fn(|a| {
                std::array::from_fn(|b| (0..3).map(|c| turn[a][c] * half[c][b]).sum())
            });
            near("virial", after.virial.as_flattened(), columns.as_flattened(), 1e-10);
        }
    }
}

#[test]
fn reflections_leave_the_energy_for_the_whole_group_alone() {
    let structure = molecule();
    let change = |group| {
        let model = model(group);
        let mirrored = moved(&structure, |[x, y, z]| [-x, y, z]);
        (predict(&model, &mirrored).energy - predict(&model, &structure).energy).abs()
    };
    assert!(change(Group::Orthogonal) < 1e-10);
    assert!(change(Group::Rotations) > 1e-6, "{:e}", change(Group::Rotations));
}

#[test]
fn translations_and_wrapping_change_nothing() {
    let (model, structure) = (model(Group::Orthogonal), crystal());
    let before = predict(&model, &structure);
    let rows = structure.cell.expect("a cell").rows;
    let mut other = structure.clone();
    for (i, position) in other.positions.iter_mut().enumerate() {
        let times = (i % 3) as f64 - 1.0;
        (0..3).for_each(|a| position[a] += 0.37 + times * rows[i % 3][a]);
    }
    let after = predict(&model, &other);
    near("energy", &[after.energy], &[before.energy], 1e-10);
    near("forces", after.forces.as_flattened(), before.forces.as_flattened(), 1e-10);
}

#[test]
fn the_order_of_atoms_and_of_structures_does_not_matter() {
    let (model, structure) = (model(Group::Orthogonal), molecule());
    let before = predict(&model, &structure);
    let mut reversed = structure.clone();
    reversed.species.reverse();
    reversed.positions.reverse();
    let mut after = predict(&model, &reversed);
    after.forces.reverse();
    near("energy", &[after.energy], &[before.energy], 1e-10);
    near("forces", after.forces.as_flattened(), before.forces.as_flattened(), 1e-10);
    let all = [&crystal(), &structure, &reversed];
    let batch = Batch::new(&all, model.config()).expect("a batch");
    let found = f64::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
    let each = all.map(|one| predict(&model, one));
    near("energies", &found.energies, &each.clone().map(|one| one.energy), 1e-10);
    let forces: Vec<Vector> = each.into_iter().flat_map(|one| one.forces).collect();
    near("forces", found.forces.as_flattened(), forces.as_flattened(), 1e-10);
}

#[test]
fn distant_molecules_add_and_supercells_multiply() {
    let model = model(Group::Orthogonal);
    let (mean, _) = model.offset_and_scale();
    for structure in [Structure { charge: 0.0, ..molecule() }, crystal()] {
        let alone = predict(&model, &structure).energy;
        let mut double = structure.clone();
        let by = structure.cell.map_or([30.0, 0.0, 0.0], |cell| cell.rows[0]);
        double.cell = structure.cell.map(|mut cell| {
            cell.rows[0] = cell.rows[0].map(|x| 2.0 * x);
            cell
        });
        double.species.extend(&structure.species);
        let images = structure.positions.iter().map(|p| std::array::from_fn(|a| p[a] + by[a]));
        double.positions.extend(images);
        let found = predict(&model, &double).energy;
        near("energy", &[found], &[2.0 * (alone - mean) + mean], 1e-10);
    }
}

#[test]
fn forces_balance() {
    let (model, structure) = (model(Group::Orthogonal), molecule());
    let forces = predict(&model, &structure).forces;
    for a in 0..3 {
        let (b, c) = ((a + 1) % 3, (a + 2) % 3);
        let all = || forces.iter().zip(&structure.positions);
        near("sum", &[all().map(|(f, _)| f[a]).sum()], &[0.0], 1e-10);
        near("torque", &[all().map(|(f, r)| r[b] * f[c] - r[c] * f[b]).sum()], &[0.0], 1e-10);
    }
}

#[test]
fn forces_and_virials_are_minus_the_slopes_of_the_energy() {
    const STEP: f64 = 1e-5;
    for group in [Group::Orthogonal, Group::Rotations] {
        let (model, structure) = (model(group), crystal());
        let found = predict(&model, &structure);
        let slope = |at: &dyn Fn(f64) -> Structure| {
            let energy = |by: f64| predict(&model, &at(by)).energy;
            (energy(STEP) - energy(-STEP)) / (2.0 * STEP)
        };
        for a in 0..3 {
            let shifted = |by: f64| {
                let mut other = structure.clone();
                other.positions[2][a] += by;
                other
            };
            near("force", &[found.forces[2][a]], &[-slope(&shifted)], 1e-7);
            for b in 0..3 {
                let strained = |by: f64| {
                    moved(&structure, |mut v| {
                        v[a] += by * v[b];
                        v
                    })
                };
                near("virial", &[found.virial[a][b]], &[-slope(&strained)], 1e-6);
            }
        }
    }
}
