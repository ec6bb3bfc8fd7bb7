//! NC1: variability within classes relative to that between classes.
//!
//! ```text
//! nc1_pinv      tr(Sw Sb⁺) / K = Σ_i v_iᵀ Sw v_i / s_i²     M = U diag(s) Vᵀ, i ≤ rank
//! nc1_quotient  tr Sw / tr Sb
//! cdnv          (V_j + V_k) / (2 |μ_j - μ_k|²) over pairs    V_k = Σ |x - μ_k|² / n_k
//! ```
//!
//! The rank is the number of s_i above the rounding error of the features, for features in double
//! precision `max(K, d) ε |means, not centred|` (see `rounding`), and at most K - 1: without that
//! bound, directions of rounding errors would dominate the sum. Beyond [`EXACT_ROWS`] classes s and
//! V are of the Gram matrix `Mᵀ M`, with half the digits, and the bound accounts for this.

use super::Metrics;
use crate::pairs::{EXACT_ROWS, Pairs, Rows, distance_squared, dot, gram_of_columns};
use crate::rounding;
use crate::statistics::centred;
use crate::{ClassStatistics, CollapseError};
use linwright_tensor::dtype::DType;
use linwright_tensor::linalg::{Svd, eigh_leading, svd};
use linwright_tensor::{Mat, MatRef};

/// Distances below this share of the squared norms are computed again, without cancellation.
const CLOSE: f64 = 1e-3;

pub(super) fn variability(statistics: &ClassStatistics) -> Result<Metrics, CollapseError> {
    let mut all = Metrics::default();
    let (classes, means) = (statistics.present(), statistics.centred_means());
    let errors = rounding::of_means(statistics);
    let spectrum = Spectrum::of(&means, &statistics.means, &errors, statistics.precision)?;
    // Without a direction there is no variability between classes to compare with.
    let between = match spectrum.rank {
        0 => f64::NAN,
        _ => dot(means.data(), means.data()) / classes as f64,
    };
    if let Some(within) = &statistics.within {
        let scale = 1.0 / statistics.rows() as f64;
        let pinv = scale * spectrum.quotients(within, spectrum.rank);
        all.put("nc1_pinv", pinv);
        all.put("nc1_pinv_sum", pinv * classes as f64);
        let svd = match classes - 1 <= spectrum.rank {
            true => scale * spectrum.quotients(within, classes - 1),
            false => f64::NAN,
        };
        all.put("nc1_svd", svd);
        all.put("nc1_pinv_weighted", scale * weighted(statistics, within)?);
    }
    all.put("nc1_quotient", statistics.within_trace() / between);
    let variances = statistics.variances();
    let of_classes = variances.iter().sum::<f64>() / classes as f64;
    all.put("nc1_quotient_class_mean", of_classes / between);
    let distance = of_pairs(&means, &variances, &errors);
    all.put("cdnv_mean", distance.mean);
    all.put("cdnv_max", distance.max);
    all.put("coincident_pairs", distance.coincident as f64);
    all.put("rank_means", spectrum.rank as f64);
    all.put("effective_rank_means", spectrum.effective_rank());
    all.put("within_trace", statistics.within_trace());
    all.put("between_trace", dot(means.data(), means.data()) / classes as f64);
    all.put("feature_norm", (statistics.squares / statistics.rows() as f64).sqrt());
    all.put("classes_present", classes as f64);
    Ok(all)
}

/// Directions of the means.
struct Spectrum {
    /// Singular values of M, descending.
    values: Vec<f64>,
    /// Right singular vectors as rows.
    directions: Mat<f64>,
    rank: usize,
}

impl Spectrum {
    /// From centred rows; `raw` are the rows before centring, with their errors.
    fn of(
        rows: &Mat<f64>,
        raw: &Mat<f64>,
        errors: &[f64],
        precision: DType,
    ) -> Result<Self, CollapseError> {
        let failed = |source| CollapseError::Numerics { what: "directions of the means", source };
        let side = rows.rows().max(rows.cols());
        let mut floor = rounding::of_directions(side, raw.data(), errors, precision);
        let (values, directions) = if rows.rows() > EXACT_ROWS && rows.rows() > rows.cols() {
            let leading = eigh_leading(gram_of_columns(rows), rows.cols()).map_err(failed)?;
            let roots: Vec<f64> =
                leading.values.iter().map(|value| value.max(0.0).sqrt()).collect();
            let largest = roots.first().copied().unwrap_or(0.0);
            floor = floor.max((rows.cols() as f64 * f64::EPSILON).sqrt() * largest);
            (roots, leading.rows)
        } else {
            let Svd { s, vt, .. } = svd(rows.view()).map_err(failed)?;
            (s, vt)
        };
        let above = values.iter().filter(|value| **value > floor).count();
        Ok(Self { values, directions, rank: above.min(rows.rows() - 1) })
    }

    /// `Σ v_iᵀ Q v_i / s_i²` over the first directions; not defined without one.
    fn quotients(&self, within: &Mat<f64>, count: usize) -> f64 {
        if count == 0 {
            return f64::NAN;
        }
        let directions = self.directions.view().rows_range(0, count);
        let along = quadratic(within, directions);
        along.iter().zip(&self.values).map(|(along, value)| along / (value * value)).sum()
    }

    /// `exp` of the entropy of the normalised singular values (Roy and Vetterli 2007), of those
    /// above rounding error; undefined without one.
    fn effective_rank(&self) -> f64 {
        if self.rank == 0 {
            return f64::NAN;
        }
        let values = &self.values[..self.rank];
        let total: f64 = values.iter().sum();
        let shares = values.iter().map(|value| value / total).filter(|share| *share > 0.0);
        shares.map(|share| -share * share.ln()).sum::<f64>().exp()
    }
}

/// `vᵀ Q v` for each row v.
fn quadratic(within: &Mat<f64>, rows: MatRef<'_, f64>) -> Vec<f64> {
    use linwright_tensor::kernels::gemm::{Write, product};
    let mut products = Mat::zeros(rows.rows(), rows.cols());
    product(1.0, rows.into(), within.view().into(), products.view_mut(), Write::Set);
    (0..rows.rows()).map(|i| dot(products.row(i), rows.row(i))).collect()
}

/// `N tr(Sw Sb⁺) / K` with `Sb = Σ n_k/N (μ_k - μ_S)(μ_k - μ_S)ᵀ`.
fn weighted(statistics: &ClassStatistics, within: &Mat<f64>) -> Result<f64, CollapseError> {
    let rows = statistics.rows() as f64;
    let root = |k: usize| (statistics.counts[k] as f64 / rows).sqrt();
    let scaled = |means: &Mat<f64>| {
        Mat::from_fn(means.rows(), means.cols(), |k, j| root(k) * means.at(k, j))
    };
    let centred = centred(&statistics.means, &statistics.mean_of_samples);
    let errors = rounding::of_means(statistics).into_iter().enumerate();
    let errors: Vec<f64> = errors.map(|(k, error)| root(k) * error).collect();
    let (rows, raw) = (scaled(&centred), scaled(&statistics.means));
    let spectrum = Spectrum::of(&rows, &raw, &errors, statistics.precision)?;
    Ok(spectrum.quotients(within, spectrum.rank) / statistics.present() as f64)
}

/// Class-distance normalised variance over pairs.
#[derive(Clone, Copy, Default)]
struct PairSums {
    total: f64,
    max: f64,
    /// Pairs of equal means, which have no value.
    coincident: u64,
}

/// Class-distance normalised variance over pairs of classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassDistance {
    /// Mean over pairs of distinct means; NaN if all are equal.
    pub mean: f64,
    /// Largest value; NaN likewise.
    pub max: f64,
    /// Pairs of equal means, which are excluded.
    pub coincident: u64,
}

/// Only the class-distance normalised variance, `cdnv_mean` and `cdnv_max` in all metrics.
#[must_use]
pub fn class_distance(statistics: &ClassStatistics) -> ClassDistance {
    let errors = rounding::of_means(statistics);
    of_pairs(&statistics.centred_means(), &statistics.variances(), &errors)
}

/// Means that are no further apart than their errors are equal.
fn of_pairs(means: &Mat<f64>, variances: &[f64], errors: &[f64]) -> ClassDistance {
    let squares: Vec<f64> = (0..means.rows()).map(|k| dot(means.row(k), means.row(k))).collect();
    let tiles = Rows::new(means, means).visit(Pairs::Unordered, |sums: &mut PairSums, i, j, g| {
        let both = squares[i] + squares[j];
        let mut distance = both - 2.0 * g;
        if distance < CLOSE * both {
            distance = distance_squared(means.row(i), means.row(j));
        }
        if distance <= errors[i].powi(2) + errors[j].powi(2) {
            sums.coincident += 1;
            return;
        }
        let value = (variances[i] + variances[j]) / (2.0 * distance);
        sums.total += value;
        sums.max = sums.max.max(value);
    });
    let coincident: u64 = tiles.iter().map(|sums| sums.coincident).sum();
    let pairs = (means.rows() * (means.rows() - 1) / 2) as f64 - coincident as f64;
    let total: f64 = tiles.iter().map(|sums| sums.total).sum();
    let max = match pairs > 0.0 {
        true => tiles.iter().map(|sums| sums.max).fold(0.0, f64::max),
        false => f64::NAN,
    };
    ClassDistance { mean: total / pairs, max, coincident }
}
