//! Predictions of heads for structures.
//!
//! Energies and forces have passes of their own; predictions here are for inference.

use super::batch::Batch;
use super::config::Reduction;
use super::heads::{Atoms, TensorPart};
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
    /// [`Head::width`](super::Head::width) numbers: one, a vector, or a matrix by rows.
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
        let Some(TensorPart { part, components }) = self.config.head.form().tensors else {
            return (0..batch.atoms()).map(|atom| value(pass.outputs.at(atom, 0))).collect();
        };
        let (first, count) = PARTS[part];
        let mut found = Vec::with_capacity(batch.atoms() * self.config.head.width());
        for atom in 0..batch.atoms() {
            let mut sum = [0.0; 9];
            for channel in 0..self.config.channels {
                let (t, weight) = (pass.last.nine(atom, channel), pass.outputs.at(atom, channel));
                (first..first + count).for_each(|c| sum[c] += value(t[c] * weight));
            }
            found.extend(components(&sum));
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
        if head.form().turns && self.mean.abs() > NO_OFFSET {
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
        let (form, count) = (self.config.head.form(), structure.species.len());
        let share = match self.config.reduction {
            Reduction::Add => self.std,
            Reduction::Mean => self.std / count as f64,
        };
        let atoms: Vec<f64> = outputs.iter().map(|output| share * output).collect();
        let centre = if form.about_centre { centre_of_mass(structure)? } else { [0.0; 3] };
        let arms = structure.positions.iter().map(|r| [0, 1, 2].map(|a| r[a] - centre[a]));
        let arms: Vec<[f64; 3]> = arms.collect();
        let total = (form.total)(&Atoms { mean: self.mean, outputs: &atoms, arms: &arms });
        Ok(Property { total, atoms })
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
