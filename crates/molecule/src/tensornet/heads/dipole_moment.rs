//! Length of the dipole moment: `|Σ_i e_i r_i|` about the centre of mass.

use super::{Atoms, HeadForm, square};

pub(super) const FORM: HeadForm =
    HeadForm { about_centre: true, turns: true, ..HeadForm::number("dipole_moment", total) };

fn total(atoms: &Atoms<'_>) -> Vec<f64> {
    let mut sum = [0.0; 3];
    atoms.with_arms().for_each(|(e, arm)| (0..3).for_each(|a| sum[a] += e * arm[a]));
    vec![square(sum).sqrt()]
}
