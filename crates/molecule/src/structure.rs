//! Atoms with their cell, charge and labels.

use crate::error::MoleculeError;
use crate::neighbours::{cross, dot};
use std::collections::BTreeMap;

/// One molecule or periodic box, in the units of its file (electron volts and angstroms unless the
/// file says otherwise).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// Atomic numbers, one for each atom.
    pub species: Vec<u8>,
    /// Positions, one for each atom.
    pub positions: Vec<[f64; 3]>,
    /// The periodic cell, or none for an open molecule.
    pub cell: Option<Cell>,
    /// Momenta, one for each atom, in roots of atomic mass unit times energy, as ASE has them.
    pub momenta: Option<Vec<[f64; 3]>>,
    /// Total charge in elementary charges.
    pub charge: f64,
    /// Reference values, where the data have them.
    pub labels: Labels,
    /// Further values of the frame by name, in the words of the file; readers keep them, so that
    /// writers can return them.
    pub info: BTreeMap<String, String>,
}

/// A periodic cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Lattice vectors as rows.
    pub rows: [[f64; 3]; 3],
    /// Whether each lattice vector repeats.
    pub periodic: [bool; 3],
}

/// Reference values of a structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// Total energy.
    pub energy: Option<f64>,
    /// Forces, one for each atom.
    pub forces: Option<Vec<[f64; 3]>>,
    /// Stress (energy per volume, tensile positive, as ASE has it), rows of a 3 x 3 matrix.
    pub stress: Option<[[f64; 3]; 3]>,
    /// Partial charges, one for each atom.
    pub charges: Option<Vec<f64>>,
}

impl Structure {
    /// Checks that there is one position for each species, and that all numbers of it are
    /// finite, and that per-atom labels are there for every atom.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), MoleculeError> {
        let atoms = self.species.len();
        let counts = [
            ("positions", Some(self.positions.len())),
            ("momenta", self.momenta.as_ref().map(Vec::len)),
            ("forces", self.labels.forces.as_ref().map(Vec::len)),
            ("partial charges", self.labels.charges.as_ref().map(Vec::len)),
        ];
        for (what, found) in counts {
            if let Some(found) = found.filter(|found| *found != atoms) {
                return Err(MoleculeError::Atoms { atoms, what, found });
            }
        }
        for (atom, position) in self.positions.iter().enumerate() {
            // Squares of larger ones overflow.
            if let Some(axis) = position.iter().position(|x| !x.is_finite() || x.abs() > 1e100) {
                let value = position[axis];
                let expected = "a finite number of at most 1e100";
                return Err(MoleculeError::Position { atom, axis, value, expected });
            }
        }
        Ok(())
    }
}

impl Cell {
    /// Its volume if it repeats along all its vectors.
    #[must_use]
    pub fn bulk_volume(&self) -> Option<f64> {
        (self.periodic == [true; 3]).then(|| self.volume())
    }

    /// A cell that repeats along all its vectors.
    #[must_use]
    pub fn periodic(rows: [[f64; 3]; 3]) -> Self {
        Self { rows, periodic: [true; 3] }
    }

    /// Its volume, never negative.
    #[must_use]
    pub fn volume(&self) -> f64 {
        dot(&self.rows[0], &cross(&self.rows[1], &self.rows[2])).abs()
    }
}
