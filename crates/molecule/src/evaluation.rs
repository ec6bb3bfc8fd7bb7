//! Errors of predictions against reference values.

use crate::potential::Prediction;
use crate::structure::Structure;
use serde::Serialize;

/// Mean absolute and root mean square error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ErrorPair {
    /// Mean absolute error.
    pub mae: f64,
    /// Root mean square error.
    pub rmse: f64,
}

/// A running sum of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Errors {
    absolute: f64,
    square: f64,
    count: u64,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.absolute += error.abs();
        self.square += error * error;
        self.count += 1;
    }

    fn pair(&self) -> Option<ErrorPair> {
        let count = self.count as f64;
        (self.count > 0)
            .then(|| ErrorPair { mae: self.absolute / count, rmse: (self.square / count).sqrt() })
    }
}

/// Errors over structures, added one after the other. Quantities without reference values are not
/// measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PredictionErrors {
    structures: u64,
    atoms: u64,
    energy: Errors,
    energy_per_atom: Errors,
    force: Errors,
    stress: Errors,
    energy_deviation: Errors,
    force_deviation: Errors,
    property: Errors,
}

impl PredictionErrors {
    /// Adds the errors of one structure. Force errors are by component.
    pub fn add(&mut self, structure: &Structure, prediction: &Prediction) {
        let atoms = structure.species.len();
        self.structures += 1;
        self.atoms += atoms as u64;
        if let Some(energy) = structure.labels.energy {
            let error = prediction.energy - energy;
            self.energy.add(error);
            self.energy_per_atom.add(error / atoms.max(1) as f64);
        }
        if let Some(forces) = &structure.labels.forces {
            let found = prediction.forces.iter().flatten();
            found.zip(forces.iter().flatten()).for_each(|(own, other)| self.force.add(own - other));
        }
        if let Some(deviation) = &prediction.deviation {
            self.energy_deviation.add(deviation.energy / atoms.max(1) as f64);
            deviation.forces.iter().flatten().for_each(|own| self.force_deviation.add(*own));
        }
        if let (Some(stress), Some(found)) =
            (&structure.labels.stress, stress(structure, prediction))
        {
            let found = found.iter().flatten();
            found
                .zip(stress.iter().flatten())
                .for_each(|(own, other)| self.stress.add(own - other));
        }
    }

    /// Adds one structure whose [`Property`](crate::tensornet::Property) was predicted, with its
    /// errors if there is a reference of the same size.
    pub fn add_property(
        &mut self,
        structure: &Structure,
        found: &[f64],
        reference: Option<&[f64]>,
    ) {
        self.structures += 1;
        self.atoms += structure.species.len() as u64;
        let pairs = found.iter().zip(reference.into_iter().flatten());
        pairs.for_each(|(own, other)| self.property.add(own - other));
    }

    /// Structures and their atoms.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.structures, self.atoms)
    }

    /// Errors of the energies of structures.
    #[must_use]
    pub fn energy(&self) -> Option<ErrorPair> {
        self.energy.pair()
    }

    /// Errors of energies divided by the number of atoms.
    #[must_use]
    pub fn energy_per_atom(&self) -> Option<ErrorPair> {
        self.energy_per_atom.pair()
    }

    /// Errors of the components of forces.
    #[must_use]
    pub fn force(&self) -> Option<ErrorPair> {
        self.force.pair()
    }

    /// Errors of the nine components of stress.
    #[must_use]
    pub fn stress(&self) -> Option<ErrorPair> {
        self.stress.pair()
    }

    /// Mean and root mean square of an ensemble's deviations of energies divided by the number of
    /// atoms.
    #[must_use]
    pub fn energy_deviation(&self) -> Option<ErrorPair> {
        self.energy_deviation.pair()
    }

    /// The same of the components of forces.
    #[must_use]
    pub fn force_deviation(&self) -> Option<ErrorPair> {
        self.force_deviation.pair()
    }

    /// Errors of the numbers of a property other than the energy.
    #[must_use]
    pub fn property(&self) -> Option<ErrorPair> {
        self.property.pair()
    }
}

/// Stress with the sign of ASE, minus the virial over the volume; none for a molecule without a
/// cell.
#[must_use]
pub fn stress(structure: &Structure, prediction: &Prediction) -> Option<[[f64; 3]; 3]> {
    let volume = structure.cell?.bulk_volume()?;
    (volume > 0.0).then(|| prediction.virial.map(|row| row.map(|x| -x / volume)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::potential::Deviation;
    use crate::structure::{Cell, Labels};

    #[test]
    fn errors_of_energies_are_per_structure_and_per_atom() {
        let structure = |energy: f64, atoms: usize| Structure {
            species: vec![1; atoms],
            labels: Labels { energy: Some(energy), ..Labels::default() },
            ..Structure::default()
        };
        let mut errors = PredictionErrors::default();
        let prediction = Prediction { energy: 3.0, ..Prediction::default() };
        errors.add(&structure(1.0, 2), &prediction);
        errors.add(&structure(7.0, 4), &prediction);
        assert_eq!(errors.counts(), (2, 6));
        assert_eq!(errors.energy(), Some(ErrorPair { mae: 3.0, rmse: 10.0_f64.sqrt() }));
        assert_eq!(errors.energy_per_atom(), Some(ErrorPair { mae: 1.0, rmse: 1.0 }));
        assert_eq!((errors.force(), errors.stress()), (None, None));
    }

    #[test]
    fn errors_of_forces_are_those_of_components() {
        let structure = Structure {
            species: vec![1],
            labels: Labels { forces: Some(vec![[1.0, 2.0, 3.0]]), ..Labels::default() },
            ..Structure::default()
        };
        let prediction = Prediction { forces: vec![[1.0, 2.0, 6.0]], ..Prediction::default() };
        let mut errors = PredictionErrors::default();
        errors.add(&structure, &prediction);
        assert_eq!(errors.force(), Some(ErrorPair { mae: 1.0, rmse: 3.0_f64.sqrt() }));
        assert_eq!(errors.energy(), None);
    }

    #[test]
    fn deviations_of_an_ensemble_are_averaged_and_properties_compared() {
        let structure = Structure { species: vec![1, 8], ..Structure::default() };
        let mut errors = PredictionErrors::default();
        for (energy, force) in [(2.0, 1.0), (6.0, 7.0)] {
            let deviation = Some(Deviation { energy, forces: vec![[force; 3]; 2] });
            errors.add(&structure, &Prediction { deviation, ..Prediction::default() });
        }
        assert_eq!(errors.energy_deviation(), Some(ErrorPair { mae: 2.0, rmse: 5.0_f64.sqrt() }));
        assert_eq!(errors.force_deviation(), Some(ErrorPair { mae: 4.0, rmse: 5.0 }));
        assert_eq!((errors.energy(), errors.property()), (None, None));
        errors.add_property(&structure, &[1.0, 2.0, 3.0], None);
        errors.add_property(&structure, &[1.0, 2.0, 3.0], Some(&[1.0, 5.0, 3.0]));
        assert_eq!(errors.property(), Some(ErrorPair { mae: 1.0, rmse: 3.0_f64.sqrt() }));
        assert_eq!(errors.counts(), (4, 8));
    }

    #[test]
    fn stress_is_minus_the_virial_over_the_volume_of_a_periodic_cell() {
        let rows = [[2.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 3.0]];
        let prediction = Prediction { virial: [[12.0; 3]; 3], ..Prediction::default() };
        let of = |periodic| {
            let cell = Some(Cell { rows, periodic });
            stress(&Structure { cell, ..Structure::default() }, &prediction)
        };
        assert_eq!(of([true; 3]), Some([[-1.0; 3]; 3]));
        assert_eq!(of([true, true, false]), None);
        assert_eq!(stress(&Structure::default(), &prediction), None);
    }
}
