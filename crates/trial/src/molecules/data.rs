//! Structures that fits read, and those on which potentials are scored.

use linwright_data::Indices;
use linwright_molecule::{LabelKeys, Units};
use std::path::Path;

/// Structures of a file.
#[derive(Clone, Debug)]
pub struct StructureSource<'a> {
    /// The file, in extended XYZ.
    pub path: &'a Path,
    /// Which of them; all if there is no list.
    pub examples: Option<&'a Indices>,
    /// Units, if they are not those of the model.
    pub units: Option<Units>,
    /// Names of energies and forces.
    pub keys: LabelKeys,
}

/// How fits read structures. Their energies and forces are not used.
#[derive(Clone, Debug, PartialEq)]
pub struct StructureCalibration {
    /// How many of them a seed draws; all if there is no number.
    pub sample: Option<usize>,
    /// Structures of a batch.
    pub batch: usize,
    /// Share of the structures for validation: the last ones in the order of a seed.
    pub validation: f64,
}

impl Default for StructureCalibration {
    fn default() -> Self {
        Self { sample: None, batch: 10, validation: 0.1 }
    }
}
