//! The unconstrained features model.
//!
//! ```text
//! min over W (K, d), H (N, d):   fit(H Wᵀ) + λ_W/2 |W|² + λ_H/2 |H|²,   N = K n,   d ≥ K - 1
//! c = K √(n λ_W λ_H)
//! ```
//!
//! Cross-entropy: for c < 1 a simplex with `u = ln((K - c(K-1))/c)`, logit of the true class `t = u
//! (K-1)/K`, others `-t/(K-1)`, objective `ln(1 + (K-1) e^-u) + c t`. Squared error: `W H = s Y`
//! with `s = max(0, 1 - c)`, an orthogonal frame without a bias (r = K), a simplex with one
//! (r = K - 1); objective `r/(2K) min(1, c)² + √(λ_W λ_H n) r s`. For c >= 1 everything is zero:
//! the penalty is too strong for any feature.
//!
//! Sources: Zhu et al. 2021 (arXiv:2105.02375), Zhou et al. 2022 (arXiv:2203.01238).

use super::{Fit, check_classes, check_positive};
use crate::CollapseError;
use serde::{Deserialize, Serialize};

/// Sizes and strengths of the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ufm {
    /// Classes, K.
    pub classes: usize,
    /// Samples of each, n.
    pub per_class: u64,
    /// Penalty of the head, λ_W.
    pub head_strength: f64,
    /// Penalty of the features, λ_H.
    pub feature_strength: f64,
    /// Loss on the labels.
    pub fit: Fit,
}

/// The global optimum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UfmOptimum {
    /// c: below 1 features collapse to a frame, from 1 on they vanish.
    pub threshold: f64,
    /// Whether there are features: c < 1.
    pub collapsed: bool,
    /// Objective.
    pub objective: f64,
    /// Logit of the true class, minus that of the bias.
    pub true_logit: f64,
    /// Logits of the other classes, minus those of the bias.
    pub other_logit: f64,
    /// s for squared errors, the share of the target that is reached; none for cross-entropy.
    pub scale: Option<f64>,
    /// |w_k|² of each row of the head.
    pub head_row_squared: f64,
    /// |h|² of each feature.
    pub feature_squared: f64,
    /// Accuracy; at chance level without features.
    pub accuracy: f64,
}

impl Ufm {
    /// c = K √(n λ_W λ_H).
    #[must_use]
    pub fn threshold(&self) -> f64 {
        let n = self.per_class as f64;
        self.classes as f64 * (n * self.head_strength * self.feature_strength).sqrt()
    }

    /// The global optimum, for K - 1 features or more; without a simplex, K or more.
    ///
    /// # Errors
    /// [`CollapseError::Setting`].
    pub fn optimum(&self) -> Result<UfmOptimum, CollapseError> {
        check_classes(self.classes)?;
        check_positive("the number of samples per class", self.per_class as f64)?;
        check_positive("the strength of the head", self.head_strength)?;
        check_positive("the strength of the features", self.feature_strength)?;
        let (k, n) = (self.classes as f64, self.per_class as f64);
        let (of_head, of_features) = (self.head_strength, self.feature_strength);
        let c = self.threshold();
        let collapsed = c < 1.0;
        let accuracy = if collapsed { 1.0 } else { 1.0 / k };
        if self.fit == Fit::CrossEntropy {
            let u = if collapsed { ((k - c * (k - 1.0)) / c).ln() } else { 0.0 };
            let t = (k - 1.0) / k * u;
            return Ok(UfmOptimum {
                threshold: c,
                collapsed,
                objective: ((k - 1.0) * (-u).exp()).ln_1p() + c * t,
                true_logit: t,
                other_logit: 0.0 - t / (k - 1.0),
                scale: None,
                head_row_squared: t * (n * of_features / of_head).sqrt(),
                feature_squared: t * (of_head / (n * of_features)).sqrt(),
                accuracy,
            });
        }
        let rank = if self.fit.is_simplex() { k - 1.0 } else { k };
        let s = (1.0 - c).max(0.0);
        let lost = c.min(1.0);
        Ok(UfmOptimum {
            threshold: c,
            collapsed,
            objective: rank / (2.0 * k) * lost * lost
                + (of_head * of_features * n).sqrt() * rank * s,
            true_logit: s * rank / k,
            other_logit: if self.fit.is_simplex() { -s / k } else { 0.0 },
            scale: Some(s),
            head_row_squared: (n * of_features / of_head).sqrt() * s * rank / k,
            feature_squared: (of_head / of_features).sqrt() * s * rank / (k * n.sqrt()),
            accuracy,
        })
    }
}
