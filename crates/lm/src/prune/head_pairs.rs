//! Pairs of matrices within attention heads: queries with keys, values with outputs.

use linwright_compress::FitError;
use linwright_compress::fit::regression::multiply;
use linwright_model::Pairing;
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::{eigh, svd};
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

/// Rows of a weight and their bias: the features of one head.
pub(super) struct HeadRows {
    /// (head size, inp).
    pub(super) weight: Mat<f64>,
    /// (head size).
    pub(super) bias: Vec<f64>,
}

impl HeadRows {
    pub(super) fn new(weight: &Mat<f64>, bias: Option<&[f32]>, rows: Range<usize>) -> Self {
        let (first, size) = (rows.start, rows.len());
        let part = Mat::from_fn(size, weight.cols(), |i, j| weight.at(first + i, j));
        let bias = rows.map(|row| bias.map_or(0.0, |bias| f64::from(bias[row]))).collect();
        Self { weight: part, bias }
    }

    /// Mean squares of the features, for inputs with means and mean second moments.
    pub(super) fn squares(&self, second: MatRef<'_, f64>, mean: &[f64]) -> Vec<f64> {
        let through = multiply(self.weight.view().into(), second.into());
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let square = |i: usize| {
            let (row, bias) = (self.weight.row(i), self.bias[i]);
            dot(row, through.row(i)) + 2.0 * bias * dot(row, mean) + bias * bias
        };
        (0..self.bias.len()).map(|i| square(i).max(0.0)).collect()
    }
}

/// Features that rotate together: those of a rotary pair, or single ones behind `rotated`.
pub(super) fn rotating(size: usize, rotated: usize, pairing: Pairing) -> Vec<Vec<usize>> {
    let pair = |i: usize| match pairing {
        Pairing::Halves => vec![i, i + rotated / 2],
        Pairing::Neighbours => vec![2 * i, 2 * i + 1],
    };
    let pairs = (0..rotated / 2).map(pair);
    pairs.chain((rotated..size).map(|i| vec![i])).collect()
}

/// The `count` features of a key-value head with the largest products of root mean squares of
/// queries and keys (MoDeGPT's CR decomposition), ascending. `queries` are those of all heads that
/// read the key, together. Features that rotate together leave together.
pub(super) fn matching(
    queries: &[f64],
    keys: &[f64],
    together: &[Vec<usize>],
    count: usize,
) -> (Vec<usize>, f64) {
    let score = |unit: &Vec<usize>| {
        let sum = |of: &[f64]| unit.iter().map(|&i| of[i]).sum::<f64>();
        (sum(queries) * sum(keys)).sqrt()
    };
    let mut order: Vec<(f64, &Vec<usize>)> =
        together.iter().map(|unit| (score(unit), unit)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let total: f64 = order.iter().map(|(score, _)| score).sum();
    let (mut kept, mut sum) = (Vec::new(), 0.0);
    for (score, unit) in order {
        if kept.len() + unit.len() <= count {
            kept.extend(unit);
            sum += score;
        }
    }
    kept.sort_unstable();
    (kept, if total > 0.0 { 1.0 - sum / total } else { 0.0 })
}

/// Values of fewer features for one key-value head, with the output projections of the query heads
/// that read them.
pub(super) struct Narrowed {
    /// P (rank, head size): new values are P v.
    pub(super) values: Mat<f64>,
    /// For each query head, its output projection of the new values (out, rank).
    pub(super) outputs: Vec<Mat<f64>>,
    /// Share of the outputs' power that is lost.
    pub(super) lost: f64,
}

/// The best values of `rank` features for outputs `O_h v`, where all heads see values with the
/// second moments `second` (head size, head size): truncated SVD of the stacked `O_h S^(1/2)`.
///
/// # Errors
/// [`FitError::Numerics`].
pub(super) fn narrowed(
    outputs: &[Mat<f64>],
    second: MatRef<'_, f64>,
    rank: usize,
) -> Result<Narrowed, FitError> {
    let numerics = |error: &dyn std::fmt::Display| FitError::Numerics {
        what: "attended values of a head",
        reason: error.to_string(),
    };
    let eigen = eigh(second).map_err(|error| numerics(&error))?;
    let (size, out) = (second.rows(), outputs[0].rows());
    // Directions without values get no weight, and a root that can be inverted.
    let floor = 1e-10 * eigen.values.last().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let root: Vec<f64> = eigen.values.iter().map(|value| value.max(floor).sqrt()).collect();
    let scaled = Mat::from_fn(size, size, |i, k| eigen.vectors.at(i, k) * root[k]);
    let stacked = Mat::from_fn(out * outputs.len(), size, |i, j| outputs[i / out].at(i % out, j));
    let whitened = multiply(stacked.view().into(), scaled.view().into());
    let parts = svd(whitened.view()).map_err(|error| numerics(&error))?;
    let back = Mat::from_fn(size, size, |k, i| eigen.vectors.at(i, k) / root[k]);
    let right = parts.vt.view().rows_range(0, rank);
    let values = multiply(right.into(), back.view().into());
    let leading = Mat::from_fn(size, rank, |i, j| parts.vt.at(j, i));
    let wide = multiply(whitened.view().into(), leading.view().into());
    let of = |head: usize| Mat::from_fn(out, rank, |i, j| wide.at(head * out + i, j));
    let power: f64 = parts.s.iter().map(|s| s * s).sum();
    let lost: f64 = parts.s.iter().skip(rank).map(|s| s * s).sum();
    let lost = if power > 0.0 { lost / power } else { 0.0 };
    Ok(Narrowed { values, outputs: (0..outputs.len()).map(of).collect(), lost })
}

/// The MLP features with the largest ridge leverage scores `[G (G + λ)⁻¹]_ii`, ascending.
///
/// # Errors
/// [`FitError::Numerics`].
pub(super) fn by_leverage(
    second: MatRef<'_, f64>,
    ridge: f64,
    count: usize,
) -> Result<Vec<usize>, FitError> {
    let eigen = eigh(second).map_err(|error| FitError::Numerics {
        what: "second moments of the features",
        reason: error.to_string(),
    })?;
    let share: Vec<f64> = eigen.values.iter().map(|w| w.max(0.0) / (w.max(0.0) + ridge)).collect();
    let score = |i: usize| -> f64 {
        eigen.vectors.row(i).iter().zip(&share).map(|(v, share)| v * v * share).sum()
    };
    let mut order: Vec<(f64, usize)> = (0..second.rows()).map(|i| (score(i), i)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut kept: Vec<usize> = order.into_iter().take(count).map(|(_, i)| i).collect();
    kept.sort_unstable();
    Ok(kept)
}

/// `Aᵀ`-free product `P W` of new values, and of their bias.
pub(super) fn through(values: &Mat<f64>, rows: &HeadRows) -> (Mat<f64>, Vec<f64>) {
    let weight = multiply(values.view().into(), rows.weight.view().into());
    let bias = Mat::from_vec(1, rows.bias.len(), rows.bias.clone());
    let bias = multiply(bias.view().into(), Arg::Transposed(values.view()));
    (weight, bias.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn random(rows: usize, cols: usize, name: &str) -> Mat<f64> {
        let mut stream = RngKey::new(3).fold(name).stream();
        Mat::from_fn(rows, cols, |_, _| stream.normal())
    }

    #[test]
    fn values_of_full_rank_change_no_output() {
        let outputs = [random(5, 4, "first"), random(5, 4, "second")];
        let samples = random(20, 4, "values");
        let second = multiply(Arg::Transposed(samples.view()), samples.view().into());
        let found = narrowed(&outputs, second.view(), 4).expect("fits");
        assert!(found.lost < 1e-12);
        for (before, after) in outputs.iter().zip(&found.outputs) {
            let product = multiply(after.view().into(), found.values.view().into());
            let pairs = before.data().iter().zip(product.data());
            assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }

    #[test]
    fn the_lost_share_is_the_error_of_the_outputs() {
        let outputs = [random(5, 4, "first"), random(5, 4, "second")];
        let samples = random(20, 4, "values");
        let second = multiply(Arg::Transposed(samples.view()), samples.view().into());
        let found = narrowed(&outputs, second.view(), 2).expect("fits");
        let power = |maps: &[Mat<f64>]| -> f64 {
            let of = |map: &Mat<f64>| {
                let y = multiply(samples.view().into(), Arg::Transposed(map.view()));
                y.data().iter().map(|v| v * v).sum::<f64>()
            };
            maps.iter().map(of).sum()
        };
        let errors: Vec<Mat<f64>> = outputs
            .iter()
            .zip(&found.outputs)
            .map(|(before, after)| {
                let product = multiply(after.view().into(), found.values.view().into());
                Mat::from_fn(5, 4, |i, j| before.at(i, j) - product.at(i, j))
            })
            .collect();
        assert!((power(&errors) / power(&outputs) - found.lost).abs() < 1e-9);
    }

    #[test]
    fn rotary_pairs_leave_together() {
        let together = rotating(6, 4, Pairing::Halves);
        assert_eq!(together, [vec![0, 2], vec![1, 3], vec![4], vec![5]]);
        assert_eq!(rotating(4, 4, Pairing::Neighbours), [vec![0, 1], vec![2, 3]]);
        let ones = [1.0; 6];
        let (kept, lost) = matching(&[9.0, 1.0, 0.0, 1.0, 4.0, 0.1], &ones, &together, 3);
        assert_eq!(kept, [0, 2, 4]);
        assert!(lost > 0.0 && lost < 0.5, "{lost}");
    }
}
