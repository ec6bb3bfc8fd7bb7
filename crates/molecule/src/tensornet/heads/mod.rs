//! Heads: what a model predicts of a molecule, from outputs for its atoms. A new one is a file with
//! a `FORM` and a line of the list below.
//!
//! Energies and forces have passes of their own; predictions here are for inference.

use super::batch::Batch;
use super::config::Reduction;
use super::model::Precision;
use super::number::Number;
use super::parts::PARTS;
use super::pass::Pass;
use super::weights::TensorNet;
use crate::{MoleculeError, Structure, mass};
use linwright_tensor::Scalar;
use serde::{Deserialize, Serialize};

/// Offsets up to this count as zero: files store them in single precision.
const NO_OFFSET: f64 = 1e-12;

/// What a head predicts, and how.
#[derive(Clone, Copy)]
struct HeadForm {
    /// Name of the predicted quantity in files and reports.
    property: &'static str,
    /// Whether it is an energy, which has forces.
    is_energy: bool,
    /// Whether the Coulomb energy of latent charges is part of it.
    has_coulomb: bool,
    /// Size of the prediction.
    width: usize,
    /// Whether it turns with the molecule, or is the length of something that does: an offset would
    /// depend on the orientation.
    turns: bool,
    /// Whether positions are about the centre of mass.
    about_centre: bool,
    /// Whether torchmd-net has such a head.
    in_torchmd: bool,
    /// The part of the last tensors that outputs weight; outputs are numbers if there is none.
    tensors: Option<TensorPart>,
    /// The prediction.
    total: fn(&Atoms<'_>) -> Vec<f64>,
}

/// A part of the last tensors of atoms.
#[derive(Clone, Copy)]
struct TensorPart {
    /// Its place in [`PARTS`].
    part: usize,
    /// Numbers of the prediction from components of tensors, of which others are zero.
    components: fn(&[f64; 9]) -> Vec<f64>,
}

/// Atoms of a structure.
struct Atoms<'a> {
    /// Offset of the prediction.
    mean: f64,
    /// Contributions of the atoms, as many numbers each as the prediction has.
    outputs: &'a [f64],
    /// Positions.
    arms: &'a [[f64; 3]],
}

impl Atoms<'_> {
    fn with_arms(&self) -> impl Iterator<Item = (&f64, [f64; 3])> {
        self.outputs.iter().zip(self.arms.iter().copied())
    }
}

impl HeadForm {
    /// A number that does not turn with the molecule.
    const fn number(property: &'static str, total: fn(&Atoms<'_>) -> Vec<f64>) -> Self {
        Self {
            property,
            is_energy: false,
            has_coulomb: false,
            width: 1,
            turns: false,
            about_centre: false,
            in_torchmd: true,
            tensors: None,
            total,
        }
    }

    /// A sum over atoms of a part of their tensors, which torchmd-net does not have.
    const fn of_tensors(property: &'static str, width: usize, tensors: TensorPart) -> Self {
        let total = match width {
            3 => sum_over_atoms::<3>,
            _ => sum_over_atoms::<9>,
        };
        let number = Self::number(property, total);
        Self { width, turns: true, in_torchmd: false, tensors: Some(tensors), ..number }
    }
}

fn sum_over_atoms<const WIDTH: usize>(atoms: &Atoms<'_>) -> Vec<f64> {
    let mut sum = vec![0.0; WIDTH];
    atoms.outputs.iter().enumerate().for_each(|(k, x)| sum[k % WIDTH] += x);
    sum
}

fn square(arm: [f64; 3]) -> f64 {
    arm.iter().map(|x| x * x).sum()
}

macro_rules! heads {
    ($($(#[$attribute:meta])* $module:ident => $name:ident;)*) => {
        $(mod $module;)*

        /// Predicted quantity of a molecule.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Head {
            $($(#[$attribute])* $name,)*
        }

        impl Head {
            /// Every head, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            fn form(self) -> HeadForm {
                match self { $(Self::$name => $module::FORM,)* }
            }
        }
    };
}

heads! {
    /// A sum over atoms, such as the energy.
    #[default]
    scalar => Scalar;
    /// Length of the dipole moment about the centre of mass.
    dipole_moment => DipoleMoment;
    /// Electronic spatial extent about the centre of mass.
    electronic_spatial_extent => ElectronicSpatialExtent;
    /// The energy with the Coulomb energy of latent charges, for TensorNet2.
    #[serde(rename = "ScalarPlusWeightedCoulomb")]
    weighted_coulomb => WeightedCoulomb;
    /// A polar vector, a sum over atoms; only in this program, see [`TensorNet::properties`].
    vector => Vector;
    /// A symmetric matrix without trace, a sum over atoms; only in this program, see
    /// [`TensorNet::properties`].
    symmetric_tensor => SymmetricTensor;
}

impl Head {
    /// Whether it is an energy, which has forces.
    #[must_use]
    pub fn is_energy(self) -> bool {
        self.form().is_energy
    }

    /// Whether the Coulomb energy of latent charges is part of it.
    pub(crate) fn has_coulomb(self) -> bool {
        self.form().has_coulomb
    }

    /// Whether torchmd-net has such a head.
    pub(crate) fn is_in_torchmd(self) -> bool {
        self.form().in_torchmd
    }

    /// Name of the predicted quantity in files and reports.
    #[must_use]
    pub fn property(self) -> &'static str {
        self.form().property
    }

    /// Size of the prediction: one, three for a vector, or nine for a matrix, by rows.
    #[must_use]
    pub fn width(self) -> usize {
        self.form().width
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_predicts_numbers_of_its_form() {
        let arms: Vec<[f64; 3]> = (0..4).map(|k| [0.5, f64::from(k), -1.0]).collect();
        for &head in Head::ALL {
            let (form, width) = (head.form(), head.width());
            let outputs: Vec<f64> = (0..4 * width).map(|k| 0.25 * k as f64).collect();
            let total = (form.total)(&Atoms { mean: 0.0, outputs: &outputs, arms: &arms });
            assert!(total.len() == width && total.iter().all(|x| x.is_finite()), "{head:?}");
            let of_tensors = form.tensors.map(|part| (part.components)(&[1.0; 9]).len());
            assert_eq!(of_tensors.unwrap_or(1), width, "{head:?}");
            assert!(!form.is_energy || (width == 1 && !form.turns), "{head:?}");
            assert!(form.is_energy || !form.has_coulomb, "{head:?}");
            let json = serde_json::to_string(&head).unwrap();
            assert_eq!(serde_json::from_str::<Head>(&json).unwrap(), head, "{json}");
        }
    }
}
