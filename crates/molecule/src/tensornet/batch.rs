//! Batches of structures, with their pairs.

use super::config::TensorNetConfig;
use crate::{Cutoff, MoleculeError, Neighbours, Pair, Structure};

/// Largest number of atoms of a structure whose Coulomb energy has no cutoff: all pairs are in
/// memory.
const MOST_ATOMS: usize = 4096;

/// Structures with consecutively numbered atoms, with their pairs.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Atomic numbers.
    pub(crate) species: Vec<u8>,
    /// Structure of each atom.
    pub(crate) molecules: Vec<usize>,
    /// Total charge of each structure.
    pub(crate) charges: Vec<f64>,
    pub(crate) neighbours: Neighbours,
    /// Pairs of the Coulomb energy of latent charges; none without.
    pub(crate) far: Vec<Pair>,
}

impl Batch {
    /// Structures for a model.
    ///
    /// # Errors
    /// A species that the model does not support, errors of [`Neighbours::within`], and a periodic
    /// or very large structure for a Coulomb energy without cutoff.
    pub fn new(structures: &[&Structure], config: &TensorNetConfig) -> Result<Self, MoleculeError> {
        let all = structures.iter().copied();
        let neighbours = Neighbours::of_batch(all, config.cutoff())?;
        Self::with_neighbours(structures, neighbours, config)
    }

    /// The same, with known pairs.
    ///
    /// # Errors
    /// A species that the model does not support, and a periodic or very large structure for a
    /// Coulomb energy without cutoff.
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
        let far = far_pairs(structures, config)?;
        Ok(Self { species, molecules, charges, neighbours, far })
    }

    /// Number of atoms.
    #[must_use]
    pub fn atoms(&self) -> usize {
        self.species.len()
    }
}

/// Pairs of the Coulomb energy of latent charges: within its cutoff, or all of each structure.
fn far_pairs(
    structures: &[&Structure],
    config: &TensorNetConfig,
) -> Result<Vec<Pair>, MoleculeError> {
    let Some(charges) = config.charges.as_ref().filter(|_| config.head.has_coulomb()) else {
        return Ok(Vec::new());
    };
    if let Some(cutoff) = charges.coulomb_cutoff {
        let cutoff = Cutoff { lower: 0.0, upper: cutoff, length: config.length };
        return Ok(Neighbours::of_batch(structures.iter().copied(), cutoff)?.pairs);
    }
    let (mut pairs, mut start) = (Vec::new(), 0);
    for (index, one) in structures.iter().enumerate() {
        let atoms = one.positions.len();
        let periodic = one.cell.is_some_and(|cell| cell.periodic.contains(&true));
        let found = match (periodic, atoms > MOST_ATOMS) {
            (true, _) => Some("none, for a periodic cell".to_owned()),
            (false, true) => Some(format!("none, for {atoms} atoms")),
            (false, false) => None,
        };
        if let Some(found) = found {
            let expected = format!(
                "a distance, beyond which a reaction field stands for the other charges; without one, \
                 all pairs of an open molecule of up to {MOST_ATOMS} atoms are summed"
            );
            let error = MoleculeError::Architecture { option: "coulomb_cutoff", found, expected };
            return Err(error.of_structure(index));
        }
        for (i, a) in one.positions.iter().enumerate() {
            pairs.extend(one.positions.iter().enumerate().skip(i + 1).map(|(j, b)| Pair {
                first: (start + i) as u32,
                second: (start + j) as u32,
                image: [0; 3],
                vector: [0, 1, 2].map(|axis| a[axis] - b[axis]),
            }));
        }
        start += atoms;
    }
    Ok(pairs)
}
