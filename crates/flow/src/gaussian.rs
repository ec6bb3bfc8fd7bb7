//! Gaussian densities with and without circulant structure in the covariance, which test what the
//! mix of a linear flow can represent.

use linwright_run::shown;
use linwright_tensor::linalg::Cholesky;
use linwright_tensor::{Mat, RngKey};
use std::f64::consts::{E, LN_2, TAU};

/// Prefix of the names of these densities.
const PREFIX: &str = "gaussian:";
/// Format of the names.
pub(crate) const FORM: &str = "gaussian:circulant|scaled|toeplitz|generic:N[:permuted]";
/// Most dimensions.
const MOST: usize = 1024;
/// Correlation of neighbours.
const RHO: f64 = 0.7;
/// Deviation of the logarithm of scales.
const SCALES: f64 = 0.5;

/// A Gaussian with mean zero and a covariance of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    /// `L` with covariance `L Lᵀ`.
    lower: Mat<f64>,
    order: Vec<u32>,
}

impl Gaussian {
    /// The density of a name such as `gaussian:toeplitz:16:permuted`; none for other names.
    ///
    /// # Errors
    /// The error in the name.
    pub(crate) fn named(name: &str) -> Option<Result<Self, String>> {
        let words: Vec<&str> = name.strip_prefix(PREFIX)?.split(':').collect();
        let wrong = |reason: String| Some(Err(reason));
        let (kind, count, permuted) = match words[..] {
            [kind, count] => (kind, count, false),
            [kind, count, "permuted"] => (kind, count, true),
            _ => return wrong("has other parts".into()),
        };
        let Some(n) = count.parse().ok().filter(|n| (2..=MOST).contains(n)) else {
            return wrong(format!("has \"{}\" dimensions, of 2 to {MOST}", shown(count)));
        };
        let Some(covariance) = covariance(kind, n) else {
            return wrong(format!("has the kind \"{}\"", shown(kind)));
        };
        let order = match permuted {
            true => RngKey::new(n as u64).fold("order").stream().permutation(n),
            false => (0..n as u32).collect(),
        };
        Some(match Cholesky::of(covariance.view()) {
            Ok(factor) => Ok(Self { lower: factor.lower(), order }),
            Err(error) => Err(error.to_string()),
        })
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.order.len()
    }

    /// The point for a key.
    pub(crate) fn point(&self, key: RngKey) -> Vec<f32> {
        let noise: Vec<f64> = key.stream().normals(self.dimensions(), 1.0);
        let of_row = |i: &u32| {
            let row = self.lower.row(*i as usize).iter().zip(&noise);
            row.map(|(l, z)| l * z).sum::<f64>() as f32
        };
        self.order.iter().map(of_row).collect()
    }

    /// Entropy in bits per dimension.
    pub(crate) fn entropy(&self) -> f64 {
        let n = self.dimensions();
        let log_det: f64 = (0..n).map(|i| self.lower.at(i, i).ln()).sum();
        (0.5 * (TAU * E).ln() + log_det / n as f64) / LN_2
    }
}

/// The covariance (n, n) of a kind.
fn covariance(kind: &str, n: usize) -> Option<Mat<f64>> {
    // A process on a circle whose neighbours correlate; its covariance is a circulant.
    let spectrum = |k: usize| {
        let angle = TAU * k as f64 / n as f64;
        1.0 / (1.0 - 2.0 * RHO * angle.cos() + RHO * RHO)
    };
    let circulant = |i: usize, j: usize| {
        let term = |k: usize| spectrum(k) * (TAU * (k * (n + i - j) % n) as f64 / n as f64).cos();
        (0..n).map(term).sum::<f64>() / n as f64
    };
    let mut stream = RngKey::new(n as u64).fold(kind).stream();
    Some(match kind {
        "circulant" => Mat::from_fn(n, n, circulant),
        "scaled" => {
            let scales: Vec<f64> = (0..n).map(|_| (SCALES * stream.normal()).exp()).collect();
            Mat::from_fn(n, n, |i, j| scales[i] * circulant(i, j) * scales[j])
        }
        "toeplitz" => Mat::from_fn(n, n, |i, j| RHO.powi(i.abs_diff(j) as i32)),
        "generic" => {
            let wide: Mat<f64> = Mat::from_vec(n, 2 * n, stream.normals(2 * n * n, 1.0));
            Mat::from_fn(n, n, |i, j| {
                wide.row(i).iter().zip(wide.row(j)).map(|(a, b)| a * b).sum::<f64>() / n as f64
            })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_the_covariance_and_its_entropy() {
        for kind in ["circulant", "scaled", "toeplitz", "generic"] {
            let n = 6;
            let want = covariance(kind, n).unwrap();
            let density = Gaussian::named(&format!("gaussian:{kind}:{n}")).unwrap().unwrap();
            let count = 20_000;
            let mut sum = Mat::<f64>::zeros(n, n);
            for k in 0..count {
                let point = density.point(RngKey::new(1).fold_index(k));
                for (i, a) in point.iter().enumerate() {
                    for (j, b) in point.iter().enumerate() {
                        *sum.at_mut(i, j) += f64::from(*a) * f64::from(*b);
                    }
                }
            }
            for i in 0..n {
                for j in 0..n {
                    let size = (want.at(i, i) * want.at(j, j)).sqrt();
                    let off = (sum.at(i, j) / count as f64 - want.at(i, j)).abs();
                    assert!(off < 0.05 * size, "{kind}, {i}, {j}: {off}");
                }
            }
            let (log_det, _) = linwright_tensor::linalg::log_abs_det(want.view());
            let entropy = (0.5 * (TAU * E).ln() + 0.5 * log_det / n as f64) / LN_2;
            assert!((density.entropy() - entropy).abs() < 1e-9, "{kind}");
            let permuted = Gaussian::named(&format!("gaussian:{kind}:{n}:permuted"));
            let permuted = permuted.unwrap().unwrap();
            assert!((permuted.entropy() - entropy).abs() < 1e-9, "{kind}");
            let (mut a, mut b) = (permuted.point(RngKey::new(2)), density.point(RngKey::new(2)));
            assert_ne!(a, b, "{kind}: another order");
            a.sort_by(f32::total_cmp);
            b.sort_by(f32::total_cmp);
            assert_eq!(a, b, "{kind}: the same numbers in another order");
        }
    }

    /// The covariances by their definitions, and how kinds differ.
    #[test]
    fn covariances_are_those_of_their_kinds() {
        let n = 8;
        let [circulant, scaled, toeplitz, generic] =
            ["circulant", "scaled", "toeplitz", "generic"].map(|kind| covariance(kind, n).unwrap());
        let is_toeplitz = |c: &Mat<f64>| {
            let inner = (1..n).flat_map(|i| (1..n).map(move |j| (i, j)));
            inner.into_iter().all(|(i, j)| (c.at(i, j) - c.at(i - 1, j - 1)).abs() < 1e-12)
        };
        // Of the process on a circle, x_t = ρ x_{t-1} + noise, by the sum over all ways around.
        let around = |lag: usize| -> f64 {
            let (lag, n) = (lag as i32, n as i32);
            let of = |turn: i32| RHO.powi((lag + turn * n).abs());
            (-60..=60).map(of).sum::<f64>() / (1.0 - RHO * RHO)
        };
        for i in 0..n {
            for j in 0..n {
                let lag = i.abs_diff(j);
                assert!((circulant.at(i, j) - around(lag)).abs() < 1e-9, "{i} {j}");
                assert!((toeplitz.at(i, j) - RHO.powi(lag as i32)).abs() < 1e-15);
                // Correlations of the scaled kind are those of the circulant.
                let correlation = |c: &Mat<f64>| c.at(i, j) / (c.at(i, i) * c.at(j, j)).sqrt();
                assert!((correlation(&scaled) - correlation(&circulant)).abs() < 1e-12);
                assert!((generic.at(i, j) - generic.at(j, i)).abs() < 1e-12);
            }
        }
        assert!(is_toeplitz(&circulant) && is_toeplitz(&toeplitz));
        assert!(!is_toeplitz(&scaled) && !is_toeplitz(&generic));
        // The corners of a Toeplitz matrix are far apart, those of a circulant are neighbours.
        assert!(toeplitz.at(0, n - 1) < 0.1 && circulant.at(0, n - 1) > 0.5 * circulant.at(0, 0));
    }

    #[test]
    fn circulant_covariances_are_circulants() {
        let c = covariance("circulant", 7).unwrap();
        for i in 0..7 {
            for j in 0..7 {
                assert!((c.at(i, j) - c.at((i + 1) % 7, (j + 1) % 7)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn wrong_names_are_told() {
        for name in
            ["gaussian:toeplitz", "gaussian:odd:4", "gaussian:generic:1", "gaussian:a:b:c:d"]
        {
            let error = Gaussian::named(name).unwrap().unwrap_err();
            assert!(error.starts_with("has "), "{name}: {error}");
        }
        assert!(Gaussian::named("moons").is_none());
    }
}
