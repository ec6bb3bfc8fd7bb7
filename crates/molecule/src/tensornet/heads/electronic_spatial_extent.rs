//! Electronic spatial extent: `mean + Σ_i e_i |r_i|²` about the centre of mass.

use super::{Atoms, HeadForm, square};

pub(super) const FORM: HeadForm =
    HeadForm { about_centre: true, ..HeadForm::number("spatial_extent", total) };

fn total(atoms: &Atoms<'_>) -> Vec<f64> {
    vec![atoms.mean + atoms.with_arms().map(|(e, arm)| e * square(arm)).sum::<f64>()]
}
