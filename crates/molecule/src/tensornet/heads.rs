//! Heads other than the energy, for inference: dipole moment, electronic spatial extent, vectors
//! and matrices.

use super::batch::Batch;
use super::config::{Head, Reduction};
use super::model::Precision;
use super::number::Number;
use super::parts::PARTS;
use super::pass::Pass;
use super::weights::TensorNet;
use crate::{MoleculeError, Structure, mass};
use linwright_tensor::Scalar;

/// Offsets up to this count as zero: files store them in single precision.
const NO_OFFSET: f64 = 1e-12;

/// Prediction of a head for one structure, in the units of its labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Property {
    /// [`Head::width`] numbers: one, a vector, or a matrix by rows.
    pub total: Vec<f64>,
    /// The contributions of the atoms, in order: numbers, vectors or matrices that sum to the
    /// total, with the squared distance as a factor for an extent, and as vectors for a dipole
    /// moment.
    pub atoms: Vec<f64>,
}

impl<T: Scalar> TensorNet<T> {
    /// Output of the head for each atom, before the factor of the model.
    pub(crate) fn contributions<N: Number<Real = T>>(&self, batch: &Batch) -> Vec<f64> {
        let pass: Pass<N> = self.pass(batch, &self.filters(batch), None);
        let value = |number: N| number.parts().0.to_f64();
        if self.config.head.width() == 1 {
            return (0..batch.atoms()).map(|atom| value(pass.outputs.at(atom, 0))).collect();
        }
        let (first, count) = PARTS[if self.config.head == Head::Vector { 1 } else { 2 }];
        let mut found = Vec::with_capacity(batch.atoms() * self.config.head.width());
        for atom in 0..batch.atoms() {
            let mut sum = [0.0; 9];
            for channel in 0..self.config.channels {
                let (t, weight) = (pass.last.nine(atom, channel), pass.outputs.at(atom, channel));
                (first..first + count).for_each(|c| sum[c] += value(t[c] * weight));
            }
            match self.config.head {
                // Components of a vector are those of the axial one times a root of two.
                Head::Vector => found.extend(sum[1..4].iter().map(|t| t * 0.5_f64.sqrt())),
                _ => found.extend(symmetric(&sum)),
            }
        }
        found
    }
}

impl<T: Precision> TensorNet<T> {
    /// Predictions of the head for each structure: length of the dipole moment or electronic
    /// spatial extent about the centre of mass, the energy, a vector or a matrix. Positions are
    /// used unchanged, so a molecule across the boundary of a cell must be made whole first.
    ///
    /// A vector is `std Σ_i Σ_h w_ih a_ih`, where `a_ih` is the vector of the antisymmetric part of
    /// the last tensor of atom i and channel h, and `w_i` (channels) the output of the head's
    /// perceptron for that atom; a matrix has the symmetric traceless parts instead. Rotations turn
    /// both, and with the group O(3) a reflection mirrors the vector as it does positions. The
    /// paper (arXiv 2306.06482) names the parts for such outputs; the weights, one for each atom
    /// and channel, are a choice made here, and torchmd-net has no such heads.
    ///
    /// # Errors
    /// Errors of [`Batch::new`], an atom that is not an element, and an offset of a dipole moment,
    /// a vector or a matrix, which would depend on the orientation.
    pub fn properties(&self, structures: &[&Structure]) -> Result<Vec<Property>, MoleculeError> {
        let head = self.config.head;
        let turns = head == Head::DipoleMoment || head.width() > 1;
        if turns && self.mean.abs() > NO_OFFSET {
            let found = format!("{}, with a {}", self.mean, head.property());
            let expected = "0: an offset would depend on the orientation".into();
            return Err(MoleculeError::Architecture { option: "mean", found, expected });
        }
        let batch = Batch::new(structures, &self.config)?;
        let outputs = T::outputs(self, &batch);
        let mut rest = outputs.as_slice();
        let mut found = Vec::with_capacity(structures.len());
        for one in structures {
            let (own, others) = rest.split_at(one.species.len() * head.width());
            rest = others;
            found.push(self.property(one, own)?);
        }
        Ok(found)
    }

    fn property(&self, structure: &Structure, outputs: &[f64]) -> Result<Property, MoleculeError> {
        let (head, count) = (self.config.head, structure.species.len());
        let share = match self.config.reduction {
            Reduction::Add => self.std,
            Reduction::Mean => self.std / count as f64,
        };
        let atoms: Vec<f64> = outputs.iter().map(|output| share * output).collect();
        let centre = match head {
            Head::DipoleMoment | Head::ElectronicSpatialExtent => centre_of_mass(structure)?,
            Head::Scalar | Head::WeightedCoulomb | Head::Vector | Head::SymmetricTensor => [0.0; 3],
        };
        let arms = structure.positions.iter().map(|r| [0, 1, 2].map(|a| r[a] - centre[a]));
        let arms = atoms.iter().zip(arms);
        let square = |arm: [f64; 3]| arm.iter().map(|x| x * x).sum::<f64>();
        let total = match head {
            Head::Scalar | Head::WeightedCoulomb => vec![self.mean + atoms.iter().sum::<f64>()],
            Head::ElectronicSpatialExtent => {
                vec![self.mean + arms.map(|(e, arm)| e * square(arm)).sum::<f64>()]
            }
            Head::DipoleMoment => {
                let mut sum = [0.0; 3];
                arms.for_each(|(e, arm)| (0..3).for_each(|a| sum[a] += e * arm[a]));
                vec![square(sum).sqrt()]
            }
            Head::Vector | Head::SymmetricTensor => {
                let mut sum = vec![0.0; head.width()];
                atoms.iter().enumerate().for_each(|(k, x)| sum[k % head.width()] += x);
                sum
            }
        };
        Ok(Property { total, atoms })
    }
}

/// The symmetric traceless matrix of nine components, by rows.
fn symmetric(t: &[f64; 9]) -> [f64; 9] {
    let half = 0.5_f64.sqrt();
    let zz = t[5] * (2.0_f64 / 3.0).sqrt();
    let [xy, xz, yz] = [t[6] * half, t[7] * half, t[8] * half];
    let difference = t[4] * half;
    [difference - zz / 2.0, xy, xz, xy, -difference - zz / 2.0, yz, xz, yz, zz]
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
