//! Structures side by side, with their pairs.

use super::config::TensorNetConfig;
use crate::{MoleculeError, Neighbours, Structure};

/// Structures whose atoms are numbered through, with their pairs.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Atomic numbers.
    pub(crate) species: Vec<u8>,
    /// Structure of each atom.
    pub(crate) molecules: Vec<usize>,
    /// Total charge of each structure.
    pub(crate) charges: Vec<f64>,
    pub(crate) neighbours: Neighbours,
}

impl Batch {
    /// Structures for a model.
    ///
    /// # Errors
    /// A species that the model does not know, and those of [`Neighbours::within`].
    pub fn new(structures: &[&Structure], config: &TensorNetConfig) -> Result<Self, MoleculeError> {
        let (lower, upper) = (config.cutoff_lower, config.cutoff_upper);
        let all = structures.iter().copied();
        let neighbours = Neighbours::of_batch(all, lower, upper)?;
        Self::with_neighbours(structures, neighbours, config)
    }

    /// The same, with pairs that were found before.
    ///
    /// # Errors
    /// A species that the model does not know.
    pub fn with_neighbours(
        structures: &[&Structure],
        neighbours: Neighbours,
        config: &TensorNetConfig,
    ) -> Result<Self, MoleculeError> {
        let all = structures.iter();
        let species: Vec<u8> = all.clone().flat_map(|one| one.species.clone()).collect();
        config.check_species(&species)?;
        let molecules = all.clone().enumerate();
        let molecules = molecules.flat_map(|(k, one)| vec![k; one.species.len()]).collect();
        let charges = all.map(|one| one.charge).collect();
        Ok(Self { species, molecules, charges, neighbours })
    }

    /// Number of atoms.
    #[must_use]
    pub fn atoms(&self) -> usize {
        self.species.len()
    }
}
