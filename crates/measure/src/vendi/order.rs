//! Vendi score from eigenvalues: the exponential of a Rényi entropy.

use super::VendiError;

/// Order q of a Vendi score: the weight of rare items. At 0 all non-zero eigenvalues count equally,
/// at infinity only the largest; 1 is the original Vendi score.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Order(f64);

impl Order {
    /// Order of the Shannon entropy.
    pub const ONE: Self = Self(1.0);
    /// Order 2, one over the squared Frobenius norm, which needs no eigenvalues.
    pub const TWO: Self = Self(2.0);
    /// One over the largest eigenvalue.
    pub const INFINITY: Self = Self(f64::INFINITY);

    /// The order q.
    ///
    /// # Errors
    /// [`VendiError::Order`] if q is negative or NaN.
    pub fn new(q: f64) -> Result<Self, VendiError> {
        if q >= 0.0 { Ok(Self(q)) } else { Err(VendiError::Order(q)) }
    }

    /// q.
    #[must_use]
    pub fn q(self) -> f64 {
        self.0
    }

    /// The score of eigenvalues that sum to one; they are not normalised. Eigenvalues of at most `n
    /// ε λ_max` (n of them), including negative ones, are rounding errors of zero and ignored.
    ///
    /// Without this threshold, zeros computed as 1e-17 would count fully at q = 0, and half a per
    /// cent each at q = 0.1. It does not change scores of orders from 1 on within the precision of
    /// `f64`.
    #[must_use]
    pub fn score(self, eigenvalues: &[f64]) -> f64 {
        self.score_above(0.0, eigenvalues)
    }

    /// As [`Self::score`], where eigenvalues up to `least` are rounding errors too: for numbers
    /// that were stored in fewer bits.
    #[must_use]
    pub fn score_above(self, least: f64, eigenvalues: &[f64]) -> f64 {
        self.log_score_above(least, eigenvalues).exp()
    }

    /// The logarithm of [`Self::score`]: the entropy in nats.
    #[must_use]
    pub fn log_score(self, eigenvalues: &[f64]) -> f64 {
        self.log_score_above(0.0, eigenvalues)
    }

    fn log_score_above(self, least: f64, eigenvalues: &[f64]) -> f64 {
        let largest = eigenvalues.iter().fold(0.0, |most: f64, &value| most.max(value));
        let least = (eigenvalues.len() as f64 * f64::EPSILON * largest).max(least);
        let kept = eigenvalues.iter().copied().filter(|&value| value > least);
        if self.0 == 1.0 {
            kept.map(|value| -value * value.ln()).sum()
        } else if self.0 == f64::INFINITY {
            -largest.ln()
        } else if self.0 == 0.0 {
            (kept.count() as f64).ln()
        } else {
            // Relative to the largest, so that large powers do not underflow.
            let sum: f64 = kept.map(|value| (value / largest).powf(self.0)).sum();
            (sum.ln() + self.0 * largest.ln()) / (1.0 - self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_known_eigenvalues() {
        let score = |q: f64, values: &[f64]| Order::new(q).unwrap().score(values);
        for q in [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 300.0, f64::INFINITY] {
            assert!((score(q, &[0.25; 4]) - 4.0).abs() < 1e-12, "order {q}");
            assert!((score(q, &[1.0, 1e-17, 0.0, -1e-17]) - 1.0).abs() < 1e-12, "order {q}");
        }
        // By hand: entropy of (1/2, 1/4, 1/4) is 3/2 ln 2, purity 3/8.
        let values = [0.5, 0.25, 0.25];
        assert!((score(1.0, &values) - 2f64.powf(1.5)).abs() < 1e-14);
        assert!((score(2.0, &values) - 8.0 / 3.0).abs() < 1e-14);
        assert!((score(f64::INFINITY, &values) - 2.0).abs() < 1e-14);
        assert!((score(0.0, &values) - 3.0).abs() < 1e-14);
        assert!((score(0.5, &values) - (0.5f64.sqrt() + 1.0).powi(2)).abs() < 1e-13);
    }

    #[test]
    fn orders_that_are_none_are_refused() {
        for q in [-1e-9, -1.0, f64::NEG_INFINITY, f64::NAN] {
            let refused = Order::new(q).unwrap_err().to_string();
            assert!(refused.contains("at least 0"), "{refused}");
        }
    }
}
