//! NC3: the rows of the head against the means of classes.
//!
//! ```text
//! nc3_papyan     | W/|W| - M/|M| |²                          Frobenius norms
//! nc3_dual_err   | W Mᵀ/|W Mᵀ| - (I - 11ᵀ/K)/√(K-1) |         same floor as NC2
//! nc3_cos        cosine of w_k and μ_k - μ_G: mean and variance over classes
//! ```

use super::Metrics;
use super::frames::{Aim, mean_and_variance, structure_error};
use crate::pairs::{dot, norm};
use linwright_tensor::Mat;

/// Metrics of a head (K, d), the same centred, and centred means (K, d).
pub(crate) fn duality(head: &Mat<f64>, centred: &Mat<f64>, means: &Mat<f64>) -> Metrics {
    let mut all = Metrics::default();
    all.put("nc3_papyan", self_duality(head, means));
    all.put("nc3_papyan_Wc", self_duality(centred, means));
    all.put("nc3_dual_err", structure_error(head, means, Aim::Simplex));
    let (mean, variance) = mean_and_variance(&cosines(head, means));
    all.put("nc3_cos_mean", mean);
    all.put("nc3_cos_mean_Wc", mean_and_variance(&cosines(centred, means)).0);
    all.put("unc3_cos_var", variance);
    let dots: Vec<f64> = (0..head.rows()).map(|k| dot(head.row(k), means.row(k))).collect();
    let count = dots.len() as f64;
    // The n - 1 of Wu and Papyan's code.
    all.put("unc3_dot_var", mean_and_variance(&dots).1 * count / (count - 1.0));
    all
}

/// Cosines of the rows of two matrices.
pub(crate) fn cosines(a: &Mat<f64>, b: &Mat<f64>) -> Vec<f64> {
    let cosine = |(a, b): (&[f64], &[f64])| dot(a, b) / (norm(a) * norm(b));
    (0..a.rows()).map(|k| cosine((a.row(k), b.row(k)))).collect()
}

fn self_duality(head: &Mat<f64>, means: &Mat<f64>) -> f64 {
    let (of_head, of_means) = (norm(head.data()), norm(means.data()));
    let pairs = head.data().iter().zip(means.data());
    pairs.map(|(head, mean)| (head / of_head - mean / of_means).powi(2)).sum()
}
