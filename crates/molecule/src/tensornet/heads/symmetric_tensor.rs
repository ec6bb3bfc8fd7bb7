//! A symmetric matrix without trace, from that part of the last tensors.

use super::{HeadForm, TensorPart};

pub(super) const FORM: HeadForm =
    HeadForm::of_tensors("symmetric_tensor", 9, TensorPart { part: 2, components });

/// The symmetric traceless matrix of nine components, by rows.
fn components(t: &[f64; 9]) -> Vec<f64> {
    let half = 0.5_f64.sqrt();
    let zz = t[5] * (2.0_f64 / 3.0).sqrt();
    let [xy, xz, yz] = [t[6] * half, t[7] * half, t[8] * half];
    let difference = t[4] * half;
    vec![difference - zz / 2.0, xy, xz, xy, -difference - zz / 2.0, yz, xz, yz, zz]
}
