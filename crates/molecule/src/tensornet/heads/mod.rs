//! Heads: what a model predicts of a molecule, from outputs for its atoms. A new one is a file with
//! a `FORM` and a line of the list below.

use serde::{Deserialize, Serialize};

/// What a head predicts, and how.
#[derive(Clone, Copy)]
pub(super) struct HeadForm {
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
    pub(super) turns: bool,
    /// Whether positions are about the centre of mass.
    pub(super) about_centre: bool,
    /// Whether torchmd-net has such a head.
    in_torchmd: bool,
    /// The part of the last tensors that outputs weight; outputs are numbers if there is none.
    pub(super) tensors: Option<TensorPart>,
    /// The prediction.
    pub(super) total: fn(&Atoms<'_>) -> Vec<f64>,
}

/// A part of the last tensors of atoms.
#[derive(Clone, Copy)]
pub(super) struct TensorPart {
    /// Its place in [`PARTS`](super::parts::PARTS).
    pub(super) part: usize,
    /// Numbers of the prediction from components of tensors, of which others are zero.
    pub(super) components: fn(&[f64; 9]) -> Vec<f64>,
}

/// Atoms of a structure.
pub(super) struct Atoms<'a> {
    /// Offset of the prediction.
    pub(super) mean: f64,
    /// Contributions of the atoms, as many numbers each as the prediction has.
    pub(super) outputs: &'a [f64],
    /// Positions.
    pub(super) arms: &'a [[f64; 3]],
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

            /// What it predicts, and how.
            pub(super) fn form(self) -> HeadForm {
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
    /// A polar vector, a sum over atoms; only in this program, see
    /// [`TensorNet::properties`](super::TensorNet::properties).
    vector => Vector;
    /// A symmetric matrix without trace, a sum over atoms; only in this program, see
    /// [`TensorNet::properties`](super::TensorNet::properties).
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
