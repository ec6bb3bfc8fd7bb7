//! The unconstrained features model after a LayerNorm.
//!
//! ```text
//! min over W (K, d), h of mean zero and length ρ:   fit + λ/2 |W|²
//! ```
//!
//! Cross-entropy: t solves `K e^-u / (1 + (K-1) e^-u) = λ K t/ρ²` with `u = K t/(K-1)`; objective
//! `ln(1 + (K-1) e^-u) + λ K t²/(2 ρ²)`, `|w_k|² = (t/ρ)²`, d ≥ K.
//! Squared error: `s = 1/(1 + λ K/ρ²)`, objective `(1-s)²/2 + λ K s²/(2 ρ²)`, orthogonal means, d >
//! K. Squared error with a free bias, q = (K-1)/K: `s = q/(q + λ (K-1)²/(K ρ²))`, objective `q
//! (1-s)²/2 + λ (s/ρ)² (K-1)²/(2 K)`, a simplex. Features collapse for every λ.
//!
//! Source: Sukenik, Lampert and Mondelli 2025 (arXiv:2505.15239), from summaries; closed forms were
//! derived here and checked against minimisation.

use super::{Fit, check_classes, check_positive};
use crate::CollapseError;
use serde::{Deserialize, Serialize};

/// Halvings that reduce an interval to the last digit of a double.
const HALVINGS: usize = 200;

/// Sizes and strength of the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gufm {
    /// Classes, K.
    pub classes: usize,
    /// Penalty of the head, λ.
    pub strength: f64,
    /// Length of features, ρ: √d for LayerNorm without scale and shift.
    pub norm: f64,
    /// Loss on the labels.
    pub fit: Fit,
}

/// The global optimum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GufmOptimum {
    /// Objective, a lower bound for networks with such features on balanced classes.
    pub objective: f64,
    /// Logit of the true class, minus that of the bias.
    pub true_logit: f64,
    /// Logits of the other classes, minus those of the bias.
    pub other_logit: f64,
    /// s for squared errors; none for cross-entropy.
    pub scale: Option<f64>,
    /// |w_k|² of each row of the head.
    pub head_row_squared: f64,
}

impl Gufm {
    /// The global optimum, for the number of features given in the module documentation.
    ///
    /// # Errors
    /// [`CollapseError::Setting`].
    pub fn optimum(&self) -> Result<GufmOptimum, CollapseError> {
        check_classes(self.classes)?;
        check_positive("the strength", self.strength)?;
        check_positive("the norm of features", self.norm)?;
        let (k, square) = (self.classes as f64, self.norm * self.norm);
        let strength = self.strength;
        Ok(match self.fit {
            Fit::CrossEntropy => {
                let t = self.logit();
                let u = k * t / (k - 1.0);
                GufmOptimum {
                    objective: ((k - 1.0) * (-u).exp()).ln_1p()
                        + strength * k * t * t / (2.0 * square),
                    true_logit: t,
                    other_logit: 0.0 - t / (k - 1.0),
                    scale: None,
                    head_row_squared: t * t / square,
                }
            }
            Fit::SquaredError => {
                let s = 1.0 / (1.0 + strength * k / square);
                GufmOptimum {
                    objective: (1.0 - s).powi(2) / 2.0 + strength * k * s * s / (2.0 * square),
                    true_logit: s,
                    other_logit: 0.0,
                    scale: Some(s),
                    head_row_squared: s * s / square,
                }
            }
            Fit::SquaredErrorBias => {
                let share = (k - 1.0) / k;
                let s = share / (share + strength * (k - 1.0).powi(2) / (k * square));
                GufmOptimum {
                    objective: share * (1.0 - s).powi(2) / 2.0
                        + strength * s * s / square * (k - 1.0).powi(2) / (2.0 * k),
                    true_logit: s * share,
                    other_logit: -s / k,
                    scale: Some(s),
                    head_row_squared: (s * share).powi(2) / square,
                }
            }
        })
    }

    /// The logit of the true class under cross-entropy, by bisection: one side falls, one rises.
    fn logit(&self) -> f64 {
        let (k, square) = (self.classes as f64, self.norm * self.norm);
        let surplus = |t: f64| {
            let decay = (-k * t / (k - 1.0)).exp();
            k * decay / (1.0 + (k - 1.0) * decay) - self.strength * k * t / square
        };
        let (mut low, mut high) = (0.0, 1.0);
        while surplus(high) > 0.0 {
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if surplus(middle) > 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        0.5 * (low + high)
    }
}
