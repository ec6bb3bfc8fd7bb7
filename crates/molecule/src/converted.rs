//! Potentials with converted units.

use crate::error::MoleculeError;
use crate::potential::{Potential, Prediction, Wanted};
use crate::structure::Structure;
use crate::units::Units;

/// A potential with structures, energies and forces in other units.
pub struct ConvertedPotential {
    potential: Box<dyn Potential>,
    own: Units,
    units: Units,
}

impl ConvertedPotential {
    /// A potential converted to `units`.
    #[must_use]
    pub fn new(potential: Box<dyn Potential>, own: Units, units: Units) -> Self {
        Self { potential, own, units }
    }
}

impl Prediction {
    /// Converts energies, forces and the virial to other units.
    pub fn convert(&mut self, from: Units, to: Units) {
        if from == to {
            return;
        }
        let (energy, force) = (from.energy_to(to), from.force_to(to));
        self.energy *= energy;
        self.atom_energies.iter_mut().for_each(|own| *own *= energy);
        self.forces.iter_mut().flatten().for_each(|own| *own *= force);
        self.virial.iter_mut().flatten().for_each(|own| *own *= energy);
        if let Some(deviation) = &mut self.deviation {
            deviation.energy *= energy;
            deviation.forces.iter_mut().flatten().for_each(|own| *own *= force);
        }
    }
}

impl Potential for ConvertedPotential {
    fn cutoff(&self) -> f64 {
        self.potential.cutoff() * self.own.length_to(self.units)
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        if self.own == self.units {
            return self.potential.predict(structure, wanted);
        }
        let mut inner = structure.clone();
        inner.convert(self.units, self.own);
        let mut found = self.potential.predict(&inner, wanted)?;
        found.convert(self.own, self.units);
        Ok(found)
    }

    fn keep_pairs(&mut self, skin: f64) -> Result<(), MoleculeError> {
        self.potential.keep_pairs(skin * self.units.length_to(self.own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Springs, triangle};

    #[test]
    fn a_converted_potential_is_the_same_function() {
        let own = Units::default();
        let other = Units::parse("kcal/mol,nm").unwrap();
        let wanted = Wanted { forces: true };
        let here = Springs.predict(&triangle(), wanted).unwrap();
        let mut converted = ConvertedPotential::new(Box::new(Springs), own, other);
        let mut structure = triangle();
        structure.convert(own, other);
        let found = converted.predict(&structure, wanted).unwrap();
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
        near(found.energy, here.energy * own.energy_to(other));
        for (a, b) in found.forces.iter().flatten().zip(here.forces.iter().flatten()) {
            near(*a, b * own.force_to(other));
        }
        let same = ConvertedPotential::new(Box::new(Springs), own, own)
            .predict(&triangle(), wanted)
            .unwrap();
        assert_eq!(same, here);
    }
}
