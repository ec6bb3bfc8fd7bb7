//! A sum over atoms, such as the energy: `mean + Σ_i e_i`.

use super::{Atoms, HeadForm};

pub(super) const FORM: HeadForm = HeadForm { is_energy: true, ..HeadForm::number("energy", total) };

pub(super) fn total(atoms: &Atoms<'_>) -> Vec<f64> {
    vec![atoms.mean + atoms.outputs.iter().sum::<f64>()]
}
