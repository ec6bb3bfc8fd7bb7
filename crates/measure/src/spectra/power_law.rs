//! Power-law fit of the tail of a distribution.
//!
//! For values above `x_min` with density `p(x) ∝ x^-α`, the maximum-likelihood estimate is `α = 1 +
//! k / Σ ln(x_i / x_min)`; `x_min` is the value for which the k values above it have the smallest
//! Kolmogorov-Smirnov distance to the law (Clauset, Shalizi and Newman, Power-law distributions in
//! empirical data, SIAM Review 2009, equations 3.1 and 3.9). The values are the eigenvalues of `Wᵀ
//! W`, as in Martin and Mahoney (Implicit self-regularization in deep neural networks, JMLR 2021).
//!
//! Deviation: tails of fewer than [`MIN_TAIL`] values are not tried.

use serde::{Deserialize, Serialize};

/// Smallest number of values in a tail.
pub const MIN_TAIL: usize = 5;

/// A power law fitted to a tail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerLaw {
    /// The exponent α.
    pub alpha: f64,
    /// Smallest value of the tail.
    pub from: f64,
    /// Number of values in the tail.
    pub tail: usize,
    /// Kolmogorov-Smirnov distance: largest difference of the two distribution functions.
    pub distance: f64,
}

impl PowerLaw {
    /// Fit to positive values, descending; `None` if there are too few, or all are equal.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mut best: Option<Self> = None;
        let mut sum: f64 = logs.iter().take(MIN_TAIL - 1).sum();
        for k in MIN_TAIL..=logs.len() {
            sum += logs[k - 1];
            // A tail includes all values equal to its smallest.
            if logs.get(k).is_some_and(|next| *next == logs[k - 1]) {
                continue;
            }
            let excess = sum - k as f64 * logs[k - 1];
            if excess <= 0.0 {
                continue;
            }
            let alpha = 1.0 + k as f64 / excess;
            let most = best.map_or(f64::INFINITY, |best| best.distance);
            if let Some(distance) = distance(&logs[..k], alpha, most) {
                best = Some(Self { alpha, from: values[k - 1], tail: k, distance });
            }
        }
        best
    }
}

/// Distance of a tail to its law, or `None` if it is at least `most`. `logs` descend.
fn distance(logs: &[f64], alpha: f64, most: f64) -> Option<f64> {
    let count = logs.len() as f64;
    let least = logs[logs.len() - 1];
    let mut distance = 0.0f64;
    for (above, log) in logs.iter().enumerate() {
        let law = ((1.0 - alpha) * (log - least)).exp();
        // The empirical share of values above has a step here, from `above / count` to one more.
        let (low, high) = (above as f64 / count, (above + 1) as f64 / count);
        distance = distance.max((law - low).abs()).max((law - high).abs());
        if distance >= most {
            return None;
        }
    }
    Some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of a power law with `x_min` = 1.
    fn pareto(count: usize, alpha: f64) -> Vec<f64> {
        let share = |k: usize| (k as f64 + 0.5) / count as f64;
        (0..count).map(|k| share(k).powf(-1.0 / (alpha - 1.0))).collect()
    }

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        for alpha in [1.8, 2.5, 4.0] {
            let found = PowerLaw::of(&pareto(2000, alpha)).unwrap();
            assert!((found.alpha - alpha).abs() < 0.05 * alpha, "{alpha}: {found:?}");
            assert!(found.distance < 0.01, "{found:?}");
        }
    }

    #[test]
    fn what_is_below_the_tail_does_not_count() {
        let mut values = pareto(800, 2.5);
        values.extend((0..1200).rev().map(|k| 0.2 + 0.8 * f64::from(k) / 1200.0));
        let found = PowerLaw::of(&values).unwrap();
        assert!((found.alpha - 2.5).abs() < 0.1, "{found:?}");
        assert!((700..=1000).contains(&found.tail), "{found:?}");
    }

    #[test]
    fn it_is_the_best_of_all_tails() {
        let values = pareto(60, 3.0);
        let found = PowerLaw::of(&values).unwrap();
        let naive = (MIN_TAIL..=60).filter_map(|k| {
            let excess: f64 = values[..k].iter().map(|x| (x / values[k - 1]).ln()).sum();
            let alpha = 1.0 + k as f64 / excess;
            let logs: Vec<f64> = values[..k].iter().map(|x| x.ln()).collect();
            distance(&logs, alpha, f64::INFINITY).map(|distance| (distance, k))
        });
        let (distance, tail) = naive.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert_eq!((found.distance, found.tail), (distance, tail));
    }

    #[test]
    fn too_few_or_equal_values_have_none() {
        assert_eq!(PowerLaw::of(&[]), None);
        assert_eq!(PowerLaw::of(&[4.0, 3.0, 2.0, 1.0]), None);
        assert_eq!(PowerLaw::of(&[2.0; 50]), None);
    }
}
