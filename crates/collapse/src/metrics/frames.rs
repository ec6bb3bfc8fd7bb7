//! NC2: how close the means, or the rows of a head, are to a simplex equiangular tight frame.
//!
//! ```text
//! etf_err   | G/|G| - (I - 11ᵀ/K)/√(K-1) |      G = A Aᵀ, Frobenius norms
//! of_err    | G/|G| - I/√K |                    an orthogonal frame
//! floor     √(2 - 2 √(p/(K-1)))                  p = min(d, K-1)
//! ```
//!
//! No K vectors of d features can be below the floor: G has rank p at most, and among matrices of
//! rank p of the frame's space, those with equal eigenvalues are nearest. For K = 2 the error of
//! centred vectors is always zero.
//!
//! Pairs of directions: u_j, u_k are rows of A of length one (Wu and Papyan 2024 for distances).

use super::Metrics;
use crate::pairs::{Pairs, Rows, distance_squared, dot, norm};
use linwright_tensor::Mat;

/// As in distances between means.
const CLOSE: f64 = 1e-3;
/// Rounding of a centred vector in double precision, over epsilon and its length before and after.
const CENTRED: f64 = 4.0;

/// Names of the metrics of one set of vectors.
pub(crate) struct Prefix {
    norm_cv: &'static str,
    norm_cv_sample: &'static str,
    equiangular: &'static str,
    max_angle: &'static str,
    simplex: &'static str,
    orthogonal: &'static str,
    distances: Option<[&'static str; 4]>,
}

impl Prefix {
    /// Of centred means.
    pub(crate) const MEANS: Self = Self {
        norm_cv: "nc2_norm_cv_M",
        norm_cv_sample: "nc2_norm_cv_sample_M",
        equiangular: "nc2_equiang_std_M",
        max_angle: "nc2_maxangle_M",
        simplex: "nc2_etf_err_M",
        orthogonal: "nc2_of_err_means",
        distances: Some(["gnc2_dist_mean", "gnc2_dist_var", "gnc2_log_mean", "gnc2_log_var"]),
    };
    /// For the rows of a head.
    pub(crate) const HEAD: Self = Self {
        norm_cv: "nc2_norm_cv_W",
        norm_cv_sample: "nc2_norm_cv_sample_W",
        equiangular: "nc2_equiang_std_W",
        max_angle: "nc2_maxangle_W",
        simplex: "nc2_etf_err_W",
        orthogonal: "nc2_of_err_W",
        distances: None,
    };
}

/// The target of a matrix of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// A simplex equiangular tight frame.
    Simplex,
    /// An orthogonal frame.
    Orthogonal,
}

/// The least possible error of K vectors with d features against a simplex frame.
pub(crate) fn floor(features: usize, classes: usize) -> f64 {
    let whole = (classes - 1) as f64;
    let rank = (features as f64).min(whole);
    (2.0 - 2.0 * (rank / whole).sqrt()).max(0.0).sqrt()
}

/// The metrics of vectors (K, d); `raw` are the vectors before centring, `errors` bounds of the
/// rounding error in each: directions that differ by less are equal.
pub(crate) fn frames(names: &Prefix, a: &Mat<f64>, raw: &Mat<f64>, errors: &[f64]) -> Metrics {
    let mut all = Metrics::default();
    let norms: Vec<f64> = (0..a.rows()).map(|k| norm(a.row(k))).collect();
    let (mean, variance) = mean_and_variance(&norms);
    all.put(names.norm_cv, variance.sqrt() / mean);
    let unbiased = variance * norms.len() as f64 / (norms.len() - 1) as f64;
    all.put(names.norm_cv_sample, unbiased.sqrt() / mean);
    let least = |k: usize| CENTRED * f64::EPSILON * (norm(raw.row(k)) + norms[k]);
    let errors: Vec<f64> = errors.iter().enumerate().map(|(k, own)| own.max(least(k))).collect();
    let angles = Angles::of(a, &norms, &errors);
    all.put(names.equiangular, angles.variance.sqrt());
    all.put(names.max_angle, angles.from_simplex);
    all.put(names.simplex, structure_error(a, a, Aim::Simplex));
    all.put(names.orthogonal, structure_error(raw, raw, Aim::Orthogonal));
    if let Some(distances) = names.distances {
        let [(mean, variance), (log_mean, log_variance)] = angles.distances;
        let values = [mean, variance, log_mean, log_variance];
        distances.into_iter().zip(values).for_each(|(name, value)| all.put(name, value));
    }
    all
}

/// Mean and population variance.
pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

/// Statistics of the angles of all pairs.
struct Angles {
    /// Population variance of cosines.
    variance: f64,
    /// Mean of |cos + 1/(K-1)|.
    from_simplex: f64,
    /// Mean and population variance of |u_j - u_k|, and of its negative logarithm.
    distances: [(f64, f64); 2],
}

/// Sums over pairs, of differences from an expected value.
#[derive(Default)]
struct AngleSums {
    cosine: [f64; 2],
    from_simplex: f64,
    distance: [f64; 2],
    log: [f64; 2],
    /// Pairs with equal directions, for which the logarithm is undefined.
    equal: f64,
}

impl Angles {
    fn of(a: &Mat<f64>, norms: &[f64], errors: &[f64]) -> Self {
        let of_direction = |k: usize| (errors[k] / norms[k]).powi(2);
        let classes = a.rows() as f64;
        let unit = Mat::from_fn(a.rows(), a.cols(), |k, j| a.at(k, j) / norms[k]);
        let pairs = classes * (classes - 1.0);
        // Σ over pairs of u_j · u_k, without the pairs.
        let mut sum = vec![0.0; a.cols()];
        for k in 0..a.rows() {
            sum.iter_mut().zip(unit.row(k)).for_each(|(sum, value)| *sum += value);
        }
        let own: f64 = (0..a.rows()).map(|k| dot(unit.row(k), unit.row(k))).sum();
        let cosine = (dot(&sum, &sum) - own) / pairs;
        let simplex = -1.0 / (classes - 1.0);
        let distance = (2.0 - 2.0 * simplex).sqrt();
        let log = -distance.ln();
        let add = |sums: &mut AngleSums, i: usize, j: usize, product: f64| {
            let mut square = 2.0 - 2.0 * product;
            if square < 2.0 * CLOSE {
                square = distance_squared(unit.row(i), unit.row(j));
            }
            let from_mean = product - cosine;
            sums.cosine = [sums.cosine[0] + from_mean, sums.cosine[1] + from_mean * from_mean];
            sums.from_simplex += (product - simplex).abs();
            let far = square.sqrt();
            let more = far - distance;
            sums.distance = [sums.distance[0] + more, sums.distance[1] + more * more];
            if square <= of_direction(i) + of_direction(j) {
                sums.equal += 1.0;
                return;
            }
            let more = -far.ln() - log;
            sums.log = [sums.log[0] + more, sums.log[1] + more * more];
        };
        let tiles = Rows::new(&unit, &unit).visit(Pairs::Unordered, add);
        let count = pairs / 2.0;
        let total = |get: &dyn Fn(&AngleSums) -> f64| tiles.iter().map(get).sum::<f64>();
        let apart = count - total(&|sums| sums.equal);
        let moments = |get: &dyn Fn(&AngleSums) -> [f64; 2], about: f64, count: f64| {
            let [first, second] = [0, 1].map(|part| total(&|sums| get(sums)[part]) / count);
            (about + first, (second - first * first).max(0.0))
        };
        Self {
            variance: moments(&|sums| sums.cosine, cosine, count).1,
            from_simplex: total(&|sums| sums.from_simplex) / count,
            distances: [
                moments(&|sums| sums.distance, distance, count),
                moments(&|sums| sums.log, log, apart),
            ],
        }
    }
}

/// `| A Bᵀ / |A Bᵀ| - frame |`, with Frobenius norms.
pub(super) fn structure_error(a: &Mat<f64>, b: &Mat<f64>, aim: Aim) -> f64 {
    let classes = a.rows() as f64;
    let (own, other) = match aim {
        Aim::Simplex => {
            let scale = (classes - 1.0).sqrt();
            ((1.0 - 1.0 / classes) / scale, -1.0 / (classes * scale))
        }
        Aim::Orthogonal => (1.0 / classes.sqrt(), 0.0),
    };
    let rows = Rows::new(a, b);
    let size = rows.squares().sqrt();
    if std::ptr::eq(a, b) {
        // A symmetric matrix: half of it, twice, and the diagonal.
        let add = |sum: &mut f64, _: usize, _: usize, product: f64| {
            *sum += (product / size - other).powi(2);
        };
        let half = rows.visit(Pairs::Unordered, add).into_iter().sum::<f64>();
        let diagonal = (0..a.rows()).map(|k| (dot(a.row(k), a.row(k)) / size - own).powi(2));
        return (2.0 * half + diagonal.sum::<f64>()).sqrt();
    }
    let add = |sum: &mut f64, i: usize, j: usize, product: f64| {
        let aim = if i == j { own } else { other };
        *sum += (product / size - aim).powi(2);
    };
    rows.visit(Pairs::All, add).into_iter().sum::<f64>().sqrt()
}
