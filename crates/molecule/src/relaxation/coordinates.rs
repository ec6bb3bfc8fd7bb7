//! Variables of a relaxation: positions, and the deformation of the cell.

use crate::error::MoleculeError;
use crate::potential::Prediction;
use crate::structure::Structure;
use crate::vectors::{cross, dot};

type Matrix = [[f64; 3]; 3];

/// Coordinates of a structure as rows of three. If the cell moves, positions are those before the
/// deformation `F`, and three more rows are `F` times the number of atoms, as in ASE's
/// `UnitCellFilter`: with this factor, steps of the cell and of the atoms have similar effects.
pub(super) struct Coordinates {
    start: Structure,
    cell: bool,
}

impl Coordinates {
    /// The coordinates of a structure, and their initial values.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] if the cell is to move but does not repeat along all its vectors,
    /// or its atoms are fixed.
    pub(super) fn new(
        start: &Structure,
        cell: bool,
    ) -> Result<(Self, Vec<[f64; 3]>), MoleculeError> {
        let repeats = start.cell.is_some_and(|cell| cell.bulk_volume().is_some());
        if cell && !repeats {
            return Err(MoleculeError::Setting {
                name: "cell",
                found: "a structure without one that repeats along all its vectors".to_owned(),
                expected: "a periodic cell to relax, or positions alone".to_owned(),
            });
        }
        if cell && start.held.is_some() {
            return Err(MoleculeError::Setting {
                name: "cell",
                found: "a structure with coordinates fixed by move_mask".to_owned(),
                expected: "a cell to relax with all of its atoms, or positions alone".to_owned(),
            });
        }
        let mut at = start.positions.clone();
        if cell {
            let factor = at.len() as f64;
            at.extend([[factor, 0.0, 0.0], [0.0, factor, 0.0], [0.0, 0.0, factor]]);
        }
        Ok((Self { start: start.clone(), cell }, at))
    }

    /// The structure at these coordinates.
    pub(super) fn structure(&self, at: &[[f64; 3]]) -> Structure {
        let mut structure = self.start.clone();
        let atoms = structure.positions.len();
        structure.positions.copy_from_slice(&at[..atoms]);
        if let Some(deformation) = self.deformation(at) {
            let deformed = |v: &mut [f64; 3]| *v = deformation.map(|row| dot(&row, v));
            structure.positions.iter_mut().for_each(deformed);
            structure.cell.iter_mut().flat_map(|cell| &mut cell.rows).for_each(deformed);
        }
        structure
    }

    /// Forces on free coordinates.
    fn free(&self, forces: &[[f64; 3]]) -> Vec<[f64; 3]> {
        let mut free = forces.to_vec();
        for (force, held) in free.iter_mut().zip(self.start.held.iter().flatten()) {
            for (own, _) in force.iter_mut().zip(held).filter(|(_, is_held)| **is_held) {
                *own = 0.0;
            }
        }
        free
    }

    /// Minus the derivatives of the energy by the coordinates; zero for fixed ones.
    pub(super) fn forces(&self, at: &[[f64; 3]], found: &Prediction) -> Vec<[f64; 3]> {
        let mut forces = self.free(&found.forces);
        if let Some(deformation) = self.deformation(at) {
            let columns = transposed(&deformation);
            forces.iter_mut().for_each(|force| *force = columns.map(|column| dot(&column, force)));
            // By F, minus the derivative is W F^-T: the rows of W times those of the inverse.
            let inverse = inverse(&deformation);
            let factor = found.forces.len() as f64;
            let row = |virial: &[f64; 3]| inverse.map(|row| dot(&row, virial) / factor);
            forces.extend(found.virial.iter().map(row));
        }
        forces
    }

    /// The criterion for convergence: the largest force on an atom, without fixed coordinates, and,
    /// if the cell moves, the largest row of the virial divided by the number of atoms.
    pub(super) fn largest(&self, found: &Prediction) -> f64 {
        let of_atoms = super::largest(&self.free(&found.forces));
        match self.cell {
            true => of_atoms.max(super::largest(&found.virial) / found.forces.len() as f64),
            false => of_atoms,
        }
    }

    fn deformation(&self, at: &[[f64; 3]]) -> Option<Matrix> {
        let atoms = self.start.positions.len();
        let rows: Matrix = at[atoms..].try_into().ok().filter(|_| self.cell)?;
        Some(rows.map(|row| row.map(|x| x / atoms as f64)))
    }
}

fn transposed(matrix: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| matrix[j][i]))
}

/// The inverse, by cofactors. Numbers are not finite for a matrix without volume.
fn inverse(matrix: &Matrix) -> Matrix {
    let [a, b, c] = matrix;
    let cofactors = [cross(b, c), cross(c, a), cross(a, b)];
    let volume = dot(a, &cofactors[0]);
    transposed(&cofactors).map(|row| row.map(|x| x / volume))
}
