//! Properties of any TensorNet, for any weights.

use super::{
    Batch, ChargeConfig, Family, Group, Head, Precision, TensorNet, TensorNetConfig,
    TensorNetPotential,
};
use crate::{Cell, Potential, Prediction, Structure, Wanted};
use linwright_tensor::RngKey;

type Vector = [f64; 3];
type Matrix = [Vector; 3];

const CUTOFF: f64 = 4.0;

/// A random model whose layers affect energies like those of trained models.
pub(super) fn model(group: Group) -> TensorNet<f64> {
    random(TensorNetConfig { group, ..config() })
}

fn config() -> TensorNetConfig {
    TensorNetConfig { species: 10, ..TensorNetConfig::new(8, 2, 8, CUTOFF) }
}

/// TensorNet2 with the Coulomb energy of its charges, all pairs or within a cutoff.
fn charged(group: Group, coulomb_cutoff: Option<f64>) -> TensorNet<f64> {
    let charges = ChargeConfig { q_dim: 3, q_weights: vec![1.0, 2.0, 0.5], coulomb_cutoff };
    let (model, head) = (Family::Tensornet2, Head::WeightedCoulomb);
    random(TensorNetConfig { model, group, head, charges: Some(charges), ..config() })
}

/// Models with structures that they predict: without a cutoff, Coulomb energies have no cell.
fn cases() -> Vec<(TensorNet<f64>, Vec<Structure>)> {
    let both = || vec![molecule(), crystal()];
    vec![
        (model(Group::Orthogonal), both()),
        (model(Group::Rotations), both()),
        (charged(Group::Orthogonal, Some(5.0)), both()),
        (charged(Group::Rotations, None), vec![molecule()]),
    ]
}

fn random(config: TensorNetConfig) -> TensorNet<f64> {
    let mut model = TensorNet::random(config, RngKey::new(7)).expect("a model");
    for tensor in model.tensors_mut() {
        let gain = match &tensor.name {
            name if name.contains("linears_tensor") || name.contains("distance_proj") => 4.0,
            name if name.contains("layers.") && name.contains("linears_scalar") => 2.0,
            name if name.contains("q_mlp") => 2.0,
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
    for (model, structures) in cases() {
        for structure in structures {
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
    let change = |model: TensorNet<f64>| {
        let mirrored = moved(&structure, |[x, y, z]| [-x, y, z]);
        (predict(&model, &mirrored).energy - predict(&model, &structure).energy).abs()
    };
    let (orthogonal, rotations) = (Group::Orthogonal, Group::Rotations);
    assert!(change(model(orthogonal)) < 1e-10);
    assert!(change(charged(orthogonal, None)) < 1e-10);
    for off in [change(model(rotations)), change(charged(rotations, None))] {
        assert!(off > 1e-6, "{off:e}");
    }
}

#[test]
fn translations_and_wrapping_change_nothing() {
    let structure = crystal();
    let rows = structure.cell.expect("a cell").rows;
    let mut other = structure.clone();
    for (i, position) in other.positions.iter_mut().enumerate() {
        let times = (i % 3) as f64 - 1.0;
        (0..3).for_each(|a| position[a] += 0.37 + times * rows[i % 3][a]);
    }
    for model in [model(Group::Orthogonal), charged(Group::Orthogonal, Some(5.0))] {
        let before = predict(&model, &structure);
        let after = predict(&model, &other);
        near("energy", &[after.energy], &[before.energy], 1e-10);
        near("forces", after.forces.as_flattened(), before.forces.as_flattened(), 1e-10);
    }
}

#[test]
fn the_order_of_atoms_and_of_structures_does_not_matter() {
    for (model, structures) in cases() {
        let structure = molecule();
        let before = predict(&model, &structure);
        let mut reversed = structure.clone();
        reversed.species.reverse();
        reversed.positions.reverse();
        let mut after = predict(&model, &reversed);
        after.forces.reverse();
        near("energy", &[after.energy], &[before.energy], 1e-10);
        near("forces", after.forces.as_flattened(), before.forces.as_flattened(), 1e-10);
        let neutral = Structure { charge: 0.0, ..structure };
        let all = [&structures[structures.len() - 1], &neutral, &reversed];
        let batch = Batch::new(&all, model.config()).expect("a batch");
        let found = f64::evaluate(&model, &batch, Wanted { forces: true }).expect("energies");
        let each = all.map(|one| predict(&model, one));
        near("energies", &found.energies, &each.clone().map(|one| one.energy), 1e-10);
        let forces: Vec<Vector> = each.into_iter().flat_map(|one| one.forces).collect();
        near("forces", found.forces.as_flattened(), forces.as_flattened(), 1e-10);
    }
}

#[test]
fn distant_molecules_add_and_supercells_multiply() {
    // Latent charges of a cell and of two differ by the softening of their equilibration.
    let (plain, charged) = (model(Group::Orthogonal), charged(Group::Orthogonal, Some(5.0)));
    let open = Structure { charge: 0.0, ..molecule() };
    for (model, structure, tolerance) in
        [(&plain, open, 1e-10), (&plain, crystal(), 1e-10), (&charged, crystal(), 1e-4)]
    {
        let (mean, _) = model.offset_and_scale();
        let alone = predict(model, &structure).energy;
        let mut double = structure.clone();
        let by = structure.cell.map_or([30.0, 0.0, 0.0], |cell| cell.rows[0]);
        double.cell = structure.cell.map(|mut cell| {
            cell.rows[0] = cell.rows[0].map(|x| 2.0 * x);
            cell
        });
        double.species.extend(&structure.species);
        let images = structure.positions.iter().map(|p| std::array::from_fn(|a| p[a] + by[a]));
        double.positions.extend(images);
        let found = predict(model, &double).energy;
        near("energy", &[found], &[2.0 * (alone - mean) + mean], tolerance);
    }
}

#[test]
fn forces_balance() {
    let structure = molecule();
    for (model, _) in cases() {
        let forces = predict(&model, &structure).forces;
        for a in 0..3 {
            let (b, c) = ((a + 1) % 3, (a + 2) % 3);
            let all = || forces.iter().zip(&structure.positions);
            near("sum", &[all().map(|(f, _)| f[a]).sum()], &[0.0], 1e-10);
            near("torque", &[all().map(|(f, r)| r[b] * f[c] - r[c] * f[b]).sum()], &[0.0], 1e-10);
        }
    }
}

#[test]
fn forces_and_virials_are_minus_the_slopes_of_the_energy() {
    const STEP: f64 = 1e-5;
    for (model, structures) in cases() {
        let structure = structures[structures.len() - 1].clone();
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

#[test]
fn latent_charges_sum_to_the_charge_of_the_molecule() {
    let model = charged(Group::Orthogonal, None);
    let structures = [molecule(), Structure { charge: -2.0, ..molecule() }];
    let all: Vec<&Structure> = structures.iter().collect();
    let batch = Batch::new(&all, model.config()).expect("a batch");
    let pass: super::pass::Pass<f64> = model.pass(&batch, &model.filters(&batch), None);
    assert_eq!(pass.charges.len(), 3, "after the embedding and two layers");
    for stage in &pass.charges {
        for k in 0..stage.charges.cols() {
            let mut sums = [0.0; 2];
            for (atom, molecule) in batch.molecules.iter().enumerate() {
                sums[*molecule] += stage.charges.at(atom, k);
            }
            // Up to the softening of the equilibration.
            near("charges", &sums, &[1.0, -2.0], 1e-4);
        }
    }
}

#[test]
fn vectors_turn_and_mirror_and_matrices_turn() {
    let turn = rotation();
    let mirrored: Matrix = turn.map(|[x, y, z]| [-x, y, z]);
    let structure = molecule();
    let property = |model: &TensorNet<f64>, structure: &Structure| {
        model.properties(&[structure]).expect("properties").remove(0)
    };
    for head in [Head::Vector, Head::SymmetricTensor] {
        for group in [Group::Orthogonal, Group::Rotations] {
            let mut model = random(TensorNetConfig { group, head, ..config() });
            model.set_offset_and_scale(0.0, 1.5);
            let before = property(&model, &structure);
            assert!(before.total.iter().any(|x| x.abs() > 1e-3), "{:?}", before.total);
            for matrix in [turn, mirrored] {
                let after = property(&model, &moved(&structure, |v| apply(&matrix, v)));
                let change = |numbers: &[f64]| -> Vec<f64> {
                    let rows = numbers.as_chunks::<3>().0;
                    let half: Vec<Vector> = rows.iter().map(|v| apply(&matrix, *v)).collect();
                    match head.width() {
                        9 => turned_columns(&matrix, &half),
                        _ => half.into_flattened(),
                    }
                };
                let (total, atoms) = (change(&before.total), change(&before.atoms));
                let off = |a: &[f64], b: &[f64]| {
                    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
                };
                let off = off(&after.total, &total).max(off(&after.atoms, &atoms));
                // Without reflections among its symmetries, a model mirrors neither.
                let same = group == Group::Orthogonal || matrix == turn;
                assert_eq!(off < 1e-10, same, "{head:?} {group:?}: {off:e}");
            }
        }
    }
}

/// Rows of matrices, each already turned, to `R (R M)ᵀ`, the turned symmetric matrix.
fn turned_columns(matrix: &Matrix, rows: &[Vector]) -> Vec<f64> {
    let each = rows.as_chunks::<3>().0.iter().flat_map(|half| {
        let column = |b: usize| apply(matrix, std::array::from_fn(|a| half[a][b]));
        [0, 1, 2].map(column)
    });
    each.flatten().collect()
}

#[test]
fn vectors_and_matrices_of_atoms_sum_and_follow_their_order() {
    let structure = molecule();
    let mut reversed = structure.clone();
    reversed.species.reverse();
    reversed.positions.reverse();
    for head in [Head::Vector, Head::SymmetricTensor] {
        let mut model = random(TensorNetConfig { head, ..config() });
        model.set_offset_and_scale(0.0, 1.0);
        let found = model.properties(&[&structure, &reversed]).expect("properties");
        let width = head.width();
        let rows: Vec<&[f64]> = found[0].atoms.chunks(width).rev().collect();
        near("atoms", &found[1].atoms, &rows.concat(), 1e-10);
        for k in 0..width {
            let sum: f64 = found[0].atoms.iter().skip(k).step_by(width).sum();
            near("sum", &[found[0].total[k]], &[sum], 1e-12);
        }
        if width == 9 {
            let t = &found[0].total;
            near("trace", &[t[0] + t[4] + t[8]], &[0.0], 1e-12);
            near("symmetry", &[t[1], t[2], t[5]], &[t[3], t[6], t[7]], 1e-12);
        }
        model.set_offset_and_scale(0.1, 1.0);
        let error = model.properties(&[&structure]).expect_err("an offset").to_string();
        assert!(error.contains("orientation"), "{error}");
        let error = TensorNetPotential::new(model).predict(&structure, Wanted::default());
        assert!(error.expect_err("no energy").to_string().contains("output_model"));
    }
}
