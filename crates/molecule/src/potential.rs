//! The interface of models for dynamics, relaxation and evaluation.

use crate::error::MoleculeError;
use crate::structure::Structure;

/// What a [`Potential`] computes in addition to the energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Forces and the virial.
    pub forces: bool,
}

/// Energy and forces of one structure, in the units of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Total energy.
    pub energy: f64,
    /// Energies by atom; they sum to the energy, except for terms per molecule.
    pub atom_energies: Vec<f64>,
    /// Forces, one for each atom; empty unless wanted.
    pub forces: Vec<[f64; 3]>,
    /// Virial, minus the derivative of the energy by strain; zero unless forces were wanted. The
    /// stress of ASE is minus the virial over the volume.
    pub virial: [[f64; 3]; 3],
    /// Deviations of an ensemble; none for a single model.
    pub deviation: Option<Deviation>,
}

/// Unbiased standard deviations over the members of an ensemble, in the units of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deviation {
    /// Deviation of the total energy.
    pub energy: f64,
    /// Deviation of each component of the forces; empty unless forces were wanted.
    pub forces: Vec<[f64; 3]>,
}

impl Prediction {
    /// The prediction, if its numbers are finite.
    ///
    /// # Errors
    /// [`MoleculeError::NotFinite`].
    pub(crate) fn finite(self) -> Result<Self, MoleculeError> {
        let numbers = self.forces.iter().chain(&self.virial).flatten();
        match self.energy.is_finite() && numbers.copied().all(f64::is_finite) {
            true => Ok(self),
            false => Err(MoleculeError::NotFinite { what: "predicted energy or force" }),
        }
    }
}

/// A function from structures to energies, with its own memory for neighbour lists and work.
pub trait Potential: Send {
    /// Distance beyond which atoms do not interact.
    fn cutoff(&self) -> f64;

    /// Energy of a structure, with forces if wanted.
    ///
    /// # Errors
    /// An atom of a species that the potential does not support, coincident atoms, a degenerate
    /// cell, or a result that is not finite.
    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError>;

    /// Declares that following structures are steps of one simulation: pairs of atoms may be kept
    /// until an atom has moved by half of the distance `skin`. Predictions are the same to the last
    /// bit; by default, a potential searches all pairs at every step.
    ///
    /// # Errors
    /// A skin that is not a distance.
    fn keep_pairs(&mut self, _skin: f64) -> Result<(), MoleculeError> {
        Ok(())
    }
}
