//! A polar vector, from the antisymmetric part of the last tensors.

use super::{HeadForm, TensorPart};

pub(super) const FORM: HeadForm =
    HeadForm::of_tensors("vector", 3, TensorPart { part: 1, components });

/// Components of a vector are those of the axial one times a root of two.
fn components(t: &[f64; 9]) -> Vec<f64> {
    t[1..4].iter().map(|t| t * 0.5_f64.sqrt()).collect()
}
