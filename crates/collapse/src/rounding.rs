//! Rounding error of the features, by which equal means differ and means gain dimensions.
//!
//! ```text
//! |e_k|² ≤ ε² q_k c_k + (4 ε₃₂ |μ_k|)²       q_k = Σ |x|² / n_k
//! c_k    = 1 / n_k + 1 / (1 + V_k / (ε² q_k))
//! ```
//!
//! The first part is due to storage: rounding errors of different samples are independent, so the
//! mean has `1 / n_k` of their square, unless the samples differ by less than the spacing ε of the
//! numbers, where they share one error; V_k is the variance of the class. The second is due to a
//! network's arithmetic in single precision, which also applies to features of 16 bits. Features in
//! double precision have neither: their means are compared to the last bit.

use crate::ClassStatistics;
use crate::pairs::{dot, norm};
use linwright_tensor::dtype::DType;

/// Errors of arithmetic in single precision, over its epsilon.
const ARITHMETIC: f64 = 4.0;
/// Upper bound of the same in the norm of a matrix, where the larger extent is the usual factor:
/// errors do not grow with the extents of a matrix of features, but earlier sums may be long.
const MOST: f64 = 32.0;

/// The size of the error of each mean.
pub(crate) fn of_means(statistics: &ClassStatistics) -> Vec<f64> {
    let precision = statistics.precision;
    if precision == DType::F64 {
        return vec![0.0; statistics.present()];
    }
    let spacing = precision.epsilon().powi(2);
    let arithmetic = (ARITHMETIC * DType::F32.epsilon()).powi(2);
    let one = |k: usize| {
        let (count, mean) = (statistics.counts[k] as f64, statistics.means.row(k));
        let (square, variance) = (dot(mean, mean), statistics.spreads[k] / count);
        let stored = spacing * (square + variance);
        let common = if stored > 0.0 { 1.0 / count + 1.0 / (1.0 + variance / stored) } else { 0.0 };
        (stored * common + arithmetic * square).sqrt()
    };
    (0..statistics.present()).map(one).collect()
}

/// The singular value of means, or of rows that are means times factors, below which a direction is
/// only rounding: `side` is the longer side of the matrix, `raw` has the rows before they were
/// centred, `errors` those of the rows.
pub(crate) fn of_directions(side: usize, raw: &[f64], errors: &[f64], precision: DType) -> f64 {
    let most = side as f64;
    match precision {
        DType::F64 => most * DType::F64.epsilon() * norm(raw),
        DType::F32 | DType::F16 | DType::Bf16 => {
            (most.min(MOST) * DType::F32.epsilon() * norm(raw)).max(norm(errors))
        }
    }
}
