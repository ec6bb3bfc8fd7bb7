//! Atoms with their cell, charge and labels.

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
