//! Pair potentials for tests of code that works with any potential.

use crate::error::MoleculeError;
use crate::neighbours::{Cutoff, Neighbours};
use crate::potential::{Potential, Prediction, Wanted};
use crate::structure::{Cell, Structure};
use crate::vectors::dot;

/// No energy and no forces on these atoms.
fn nothing(structure: &Structure) -> Prediction {
    Prediction { forces: vec![[0.0; 3]; structure.positions.len()], ..Prediction::default() }
}

/// From the position of the second atom to that of the first.
fn between(structure: &Structure, [first, second]: [usize; 2]) -> [f64; 3] {
    [0, 1, 2].map(|axis| structure.positions[first][axis] - structure.positions[second][axis])
}

/// Adds a pair whose energy and slope are a function of the length of the vector between them.
fn add(
    found: &mut Prediction,
    [first, second]: [usize; 2],
    vector: [f64; 3],
    curve: impl Fn(f64) -> [f64; 2],
) {
    let length = dot(&vector, &vector).sqrt();
    let [energy, slope] = curve(length);
    found.energy += energy;
    for a in 0..3 {
        let pull = slope * vector[a] / length;
        found.forces[first][a] -= pull;
        found.forces[second][a] += pull;
        (0..3).for_each(|b| found.virial[a][b] -= pull * vector[b]);
    }
}

/// All pairs of some atoms.
fn pairs(atoms: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..atoms).flat_map(move |first| (first + 1..atoms).map(move |second| [first, second]))
}

/// Every pair is a spring of unit stiffness and unit length, a little anharmonic.
pub(crate) struct Springs;

impl Potential for Springs {
    fn cutoff(&self) -> f64 {
        f64::INFINITY
    }

    fn predict(&mut self, structure: &Structure, _: Wanted) -> Result<Prediction, MoleculeError> {
        let mut found = nothing(structure);
        for pair in pairs(structure.positions.len()) {
            add(&mut found, pair, between(structure, pair), |length| {
                let stretch = length - 1.0;
                let energy = 0.5 * stretch * stretch + 0.1 * stretch.powi(4);
                [energy, stretch + 0.4 * stretch.powi(3)]
            });
        }
        Ok(found)
    }
}

/// A triangle that is not at rest.
pub(crate) fn triangle() -> Structure {
    Structure {
        species: vec![6, 1, 8],
        positions: vec![[0.0, 0.0, 0.0], [1.3, 0.1, 0.0], [0.2, 0.9, 0.4]],
        ..Structure::default()
    }
}

/// Every pair of atoms is a spring at rest at its distance in ethanol: stiff for bonds, softer for
/// neighbours of neighbours, soft for others.
pub(crate) struct ElasticEthanol;

/// Ethanol, with standard bond lengths and angles.
pub(crate) fn ethanol() -> Structure {
    Structure {
        species: vec![6, 6, 8, 1, 1, 1, 1, 1, 1],
        positions: vec![
            [-1.17, -0.41, 0.0],
            [0.0, 0.58, 0.0],
            [1.21, -0.19, 0.0],
            [1.95, 0.42, 0.0],
            [-2.13, 0.12, 0.0],
            [-1.13, -1.05, 0.89],
            [-1.13, -1.05, -0.89],
            [-0.04, 1.22, 0.89],
            [-0.04, 1.22, -0.89],
        ],
        ..Structure::default()
    }
}

impl Potential for ElasticEthanol {
    fn cutoff(&self) -> f64 {
        f64::INFINITY
    }

    fn predict(&mut self, structure: &Structure, _: Wanted) -> Result<Prediction, MoleculeError> {
        let (rest, mut found) = (ethanol(), nothing(structure));
        for pair in pairs(structure.positions.len()) {
            let v = between(&rest, pair);
            let rest = dot(&v, &v).sqrt();
            let stiffness = match rest {
                ..1.6 => 20.0,
                ..2.6 => 4.0,
                _ => 0.2,
            };
            add(&mut found, pair, between(structure, pair), |length| {
                let stretch = length - rest;
                [0.5 * stiffness * stretch * stretch, stiffness * stretch]
            });
        }
        Ok(found)
    }
}

/// Lennard-Jones atoms of depth 0.0104 eV and diameter 3.4 A, as argon, whose energy and force
/// vanish at the cutoff.
pub(crate) struct Argon;

impl Potential for Argon {
    fn cutoff(&self) -> f64 {
        7.0
    }

    fn predict(&mut self, structure: &Structure, _: Wanted) -> Result<Prediction, MoleculeError> {
        const DEPTH: f64 = 0.0104;
        let curve = |d: f64| {
            let six = (3.4 / d).powi(6);
            [4.0 * DEPTH * (six * six - six), 24.0 * DEPTH * (six - 2.0 * six * six) / d]
        };
        let [energy_there, slope_there] = curve(self.cutoff());
        let mut found = nothing(structure);
        for pair in Neighbours::within(structure, Cutoff::angstroms(0.0, self.cutoff()))?.pairs {
            let atoms = [pair.first, pair.second].map(|atom| atom as usize);
            add(&mut found, atoms, pair.vector, |d| {
                let [energy, slope] = curve(d);
                let beyond = energy_there + slope_there * (d - self.cutoff());
                [energy - beyond, slope - slope_there]
            });
        }
        Ok(found)
    }
}

/// Solid argon in its conventional cell, strained and with displaced atoms.
pub(crate) fn solid_argon() -> Structure {
    let corners = [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]];
    let mut positions = corners.map(|corner| corner.map(|x| 5.4 * x)).to_vec();
    positions[1][0] += 0.15;
    positions[3][2] -= 0.1;
    let rows = [[5.6, 0.0, 0.0], [0.2, 5.3, 0.0], [-0.1, 0.1, 5.2]];
    let cell = Some(Cell::periodic(rows));
    Structure { species: vec![18; 4], positions, cell, ..Structure::default() }
}
