//! Heads other than the energy: dipole moment and electronic spatial extent, for inference.

use super::batch::Batch;
use super::config::{Head, Reduction};
use super::model::Precision;
use super::weights::TensorNet;
use crate::{MoleculeError, Structure, mass};

/// Offsets up to this count as zero: files keep them in single precision.
const NO_OFFSET: f64 = 1e-12;

impl<T: Precision> TensorNet<T> {
    /// What the head of the model says of each structure: length of the dipole moment or electronic
    /// spatial extent about the centre of mass, or the energy. Positions are taken as they are, so
    /// that a molecule across the wall of a cell has to be made whole first.
    ///
    /// # Errors
    /// Those of [`Batch::new`], an atom that is no element, and a dipole moment with an offset,
    /// which would depend on the orientation.
    pub fn properties(&self, structures: &[&Structure]) -> Result<Vec<f64>, MoleculeError> {
        let batch = Batch::new(structures, &self.config)?;
        let charges = T::outputs(self, &batch)?;
        let mut rest = charges.as_slice();
        let mut found = Vec::with_capacity(structures.len());
        for one in structures {
            let (own, others) = rest.split_at(one.species.len());
            rest = others;
            found.push(self.property(one, own)?);
        }
        Ok(found)
    }

    fn property(&self, structure: &Structure, outputs: &[f64]) -> Result<f64, MoleculeError> {
        let share = match self.config.reduction {
            Reduction::Add => self.std,
            Reduction::Mean => self.std / outputs.len() as f64,
        };
        let centre = match self.config.head {
            Head::Scalar | Head::WeightedCoulomb => [0.0; 3],
            Head::DipoleMoment | Head::ElectronicSpatialExtent => centre_of_mass(structure)?,
        };
        let atoms = outputs.iter().zip(&structure.positions);
        let arms = atoms.map(|(e, r)| (share * e, [0, 1, 2].map(|a| r[a] - centre[a])));
        match self.config.head {
            Head::Scalar | Head::WeightedCoulomb => {
                Ok(self.mean + arms.map(|(e, _)| e).sum::<f64>())
            }
            Head::ElectronicSpatialExtent => {
                let square = |arm: [f64; 3]| arm.iter().map(|x| x * x).sum::<f64>();
                Ok(self.mean + arms.map(|(e, arm)| e * square(arm)).sum::<f64>())
            }
            Head::DipoleMoment if self.mean.abs() > NO_OFFSET => {
                let found = format!("{}, with a dipole moment", self.mean);
                let expected = "0: an offset of a vector depends on the orientation".into();
                Err(MoleculeError::Architecture { option: "mean", found, expected })
            }
            Head::DipoleMoment => {
                let mut sum = [0.0; 3];
                arms.for_each(|(e, arm)| (0..3).for_each(|a| sum[a] += e * arm[a]));
                Ok(sum.iter().map(|x| x * x).sum::<f64>().sqrt())
            }
        }
    }
}

fn centre_of_mass(structure: &Structure) -> Result<[f64; 3], MoleculeError> {
    let (mut sum, mut total) = ([0.0; 3], 0.0);
    let atoms = structure.species.iter().zip(&structure.positions);
    for (atom, (&number, position)) in atoms.enumerate() {
        let mass = mass(number).ok_or(MoleculeError::Element { atom, number })?;
        (0..3).for_each(|a| sum[a] += mass * position[a]);
        total += mass;
    }
    Ok(sum.map(|x| x / total))
}
