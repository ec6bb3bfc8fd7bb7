//! Known contributions to energies, added to the output of a model: energies of single atoms,
//! repulsion of nuclei, dispersion, and electrostatics of given charges.
//!
//! Deviations from torchmd-net: dispersion includes the images of a periodic cell, and Coulomb
//! energies are physically correct, a tenth of those of the reference for lengths in angstroms,
//! unless [`PriorChoices::compat`] is set.

mod dispersion;
mod info;
mod pair;
mod parse;
#[cfg(test)]
mod tests;

pub use info::PriorInfo;

use crate::error::MoleculeError;
use crate::neighbours::{Cutoff, LEAST, PairSource};
use crate::potential::Prediction;
use crate::structure::Structure;
use crate::units::{Length, Units};
use crate::vectors::dot;
use pair::{Atoms, Value};

/// A term of the energy that is not learnt. Lengths are in angstroms.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Prior {
    /// Energies of isolated atoms, in the units of the model, by atomic number.
    Atomref {
        /// The energies, from number zero on.
        energies: Vec<f64>,
    },
    /// Screened repulsion of nuclei of Ziegler, Biersack and Littmark, for short distances.
    Zbl {
        /// Distance at which it vanishes.
        cutoff: f64,
    },
    /// Dispersion of Grimme's D2 (s6 = 1).
    D2 {
        /// Distance from which it is left out.
        cutoff: f64,
    },
    /// Electrostatics of the structure's partial charges, between all pairs of an open molecule.
    Coulomb {
        /// Distance below which it is off, and above which it is fully on.
        switch: [f64; 2],
        /// Whether the energy is what torchmd-net computes: too large by the number of the model's
        /// units of length in a nanometre, since it divides by a distance in nanometres.
        compat: bool,
    },
}

/// What a user may choose about the priors of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorChoices {
    /// Add energies of isolated atoms that a model trained on differences from them stores switched
    /// off; torchmd-net has `remove_ref_energy=False` for it.
    pub reference_energies: bool,
    /// Compute Coulomb energies as torchmd-net does.
    pub compat: bool,
}

impl Prior {
    /// Adds the energy of a structure, with forces and virial where `found` has forces. Positions
    /// and energies are in these units.
    ///
    /// # Errors
    /// An element without parameters, partial charges that are missing, coincident atoms, or a
    /// periodic cell with Coulomb energies.
    ///
    /// # Panics
    /// If `found` has forces or energies of atoms, but not for each.
    pub fn add(
        &self,
        structure: &Structure,
        units: Units,
        found: &mut Prediction,
    ) -> Result<(), MoleculeError> {
        self.add_in(structure, units, &mut self.pairs(units), found)
    }

    /// As [`Self::add`], with pairs from a source of [`Self::pairs`], which may keep them.
    pub(crate) fn add_in(
        &self,
        structure: &Structure,
        units: Units,
        pairs: &mut Option<PairSource>,
        found: &mut Prediction,
    ) -> Result<(), MoleculeError> {
        structure.check()?;
        let mut sum = Sum { units, found };
        match self {
            Self::Atomref { energies } => atomref(energies, structure, sum.found),
            Self::Zbl { cutoff } => {
                let constant = Units::default().coulomb();
                each(structure, units, pairs, |atoms, vector| {
                    sum.pair(atoms, pair::zbl(constant, *cutoff, atoms), vector);
                    Ok(())
                })
            }
            Self::D2 { .. } => each(structure, units, pairs, |atoms, vector| {
                sum.pair(atoms, pair::d2(atoms)?, vector);
                Ok(())
            }),
            Self::Coulomb { switch, compat } => coulomb((*switch, *compat), structure, &mut sum),
        }
    }

    /// Where its pairs come from, none without a cutoff.
    pub(crate) fn pairs(&self, units: Units) -> Option<PairSource> {
        let cutoff = Some(self.cutoff()).filter(|cutoff| *cutoff > 0.0 && cutoff.is_finite());
        let length = units.length;
        cutoff.map(|cutoff| {
            PairSource::new(Cutoff { lower: 0.0, upper: cutoff / length.factor(), length })
        })
    }

    /// Its name in torchmd-net.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Atomref { .. } => "Atomref",
            Self::Zbl { .. } => "ZBL",
            Self::D2 { .. } => "D2",
            Self::Coulomb { .. } => "Coulomb",
        }
    }

    /// Distance beyond which atoms do not interact; infinite for Coulomb energies, zero for atoms.
    #[must_use]
    pub fn cutoff(&self) -> f64 {
        match self {
            Self::Atomref { .. } => 0.0,
            Self::Zbl { cutoff } | Self::D2 { cutoff } => *cutoff,
            Self::Coulomb { .. } => f64::INFINITY,
        }
    }
}

/// Where energies of pairs are added, in units of their own.
struct Sum<'a> {
    units: Units,
    found: &'a mut Prediction,
}

impl Sum<'_> {
    /// Adds a value in electron volts and angstroms. `vector` is that of the structure.
    fn pair(&mut self, atoms: &Atoms, value: Value, vector: [f64; 3]) {
        let of_model = Units::default();
        let energy = value.energy * of_model.energy_to(self.units);
        // Derivatives by distance transform as forces do.
        let slope = value.slope * of_model.force_to(self.units);
        self.found.energy += energy;
        if !self.found.atom_energies.is_empty() {
            self.found.atom_energies[atoms.first] += 0.5 * energy;
            self.found.atom_energies[atoms.second] += 0.5 * energy;
        }
        if self.found.forces.is_empty() {
            return;
        }
        let length = dot(&vector, &vector).sqrt();
        for axis in 0..3 {
            let pull = slope * vector[axis] / length;
            self.found.forces[atoms.first][axis] -= pull;
            self.found.forces[atoms.second][axis] += pull;
            for (sum, other) in self.found.virial[axis].iter_mut().zip(vector) {
                *sum -= pull * other;
            }
        }
    }
}

/// Adds energies of isolated atoms.
fn atomref(
    energies: &[f64],
    structure: &Structure,
    found: &mut Prediction,
) -> Result<(), MoleculeError> {
    for (atom, species) in structure.species.iter().enumerate() {
        let energy = energies.get(usize::from(*species)).ok_or_else(|| MoleculeError::Prior {
            what: format!(
                "Atomref has {} energies, none for atom {atom} of atomic number {species}; the model was not trained on this element",
                energies.len()
            ),
        })?;
        found.energy += energy;
        if let Some(own) = found.atom_energies.get_mut(atom) {
            *own += energy;
        }
    }
    Ok(())
}

/// Visits all pairs of a source.
fn each(
    structure: &Structure,
    units: Units,
    pairs: &mut Option<PairSource>,
    mut visit: impl FnMut(&Atoms, [f64; 3]) -> Result<(), MoleculeError>,
) -> Result<(), MoleculeError> {
    let Some(pairs) = pairs else { return Ok(()) };
    let to_angstrom = units.length.factor();
    for pair in &pairs.of(structure)?.pairs {
        let [first, second] = [pair.first, pair.second].map(|atom| atom as usize);
        let distance = dot(&pair.vector, &pair.vector).sqrt() * to_angstrom;
        let species = [structure.species[first], structure.species[second]];
        visit(&Atoms { first, second, species, distance }, pair.vector)?;
    }
    Ok(())
}

/// Adds Coulomb energies of all pairs.
fn coulomb(
    (switch, compat): ([f64; 2], bool),
    structure: &Structure,
    sum: &mut Sum<'_>,
) -> Result<(), MoleculeError> {
    let wrong = |what: &str| Err(MoleculeError::Prior { what: what.into() });
    let Some(charges) = &structure.labels.charges else {
        return wrong(
            "Coulomb needs partial charges, and the structure has none; give a column charges",
        );
    };
    if structure.cell.is_some_and(|cell| cell.periodic.contains(&true)) {
        return wrong(
            "Coulomb sums pairs of open molecules, and the cell is periodic; leave out the cell or the prior",
        );
    }
    let to_angstrom = sum.units.length.factor();
    let excess = if compat { Length::Nanometre.factor() / to_angstrom } else { 1.0 };
    let constant = excess * Units::default().coulomb();
    for first in 0..structure.positions.len() {
        for second in first + 1..structure.positions.len() {
            let [a, b] = [first, second].map(|atom| structure.positions[atom]);
            let vector = [0, 1, 2].map(|axis| a[axis] - b[axis]);
            let distance = dot(&vector, &vector).sqrt();
            if distance < LEAST {
                let (image, least) = ([0; 3], LEAST);
                return Err(MoleculeError::Coincident { first, second, image, distance, least });
            }
            let species = [structure.species[first], structure.species[second]];
            let atoms = Atoms { first, second, species, distance: distance * to_angstrom };
            let value = pair::coulomb(constant, charges[first] * charges[second], atoms.distance);
            sum.pair(&atoms, value.times(pair::switch(switch, atoms.distance)), vector);
        }
    }
    Ok(())
}
