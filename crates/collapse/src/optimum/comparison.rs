//! A trained head compared with the optimum for its strengths.

use super::UfmOptimum;
use crate::metrics::present_rows;
use crate::pairs::dot;
use crate::{ClassStatistics, CollapseError};
use linwright_run::undefined::or_nan;
use linwright_tensor::Mat;
use serde::{Deserialize, Serialize};

/// Measured values with predictions from the optimum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Mean of |w_k|².
    pub head_row_squared: f64,
    /// The same divided by its prediction.
    #[serde(deserialize_with = "or_nan")]
    pub head_ratio: f64,
    /// Mean of |x|² of features, minus the square of their common mean.
    pub feature_squared: f64,
    /// The same divided by its prediction.
    #[serde(deserialize_with = "or_nan")]
    pub feature_ratio: f64,
    /// Mean over classes of `w_k · μ_k`, minus the mean of all logits of μ_k.
    pub true_logit: f64,
    /// The same divided by its prediction.
    #[serde(deserialize_with = "or_nan")]
    pub logit_ratio: f64,
    /// Ratio of the samples of the largest and smallest class: the prediction is for 1.
    #[serde(deserialize_with = "or_nan")]
    pub imbalance: f64,
}

impl Comparison {
    /// Compares a head (classes, d) and statistics of its features with an optimum. If features
    /// vanish at the optimum, the ratios are infinite.
    ///
    /// # Errors
    /// [`CollapseError::Shape`] for a head of another shape.
    pub fn of(
        optimum: &UfmOptimum,
        statistics: &ClassStatistics,
        head: &Mat<f64>,
    ) -> Result<Self, CollapseError> {
        let head = present_rows(head, statistics)?;
        let (classes, rows) = (statistics.present() as f64, statistics.rows() as f64);
        let head_row_squared = dot(head.data(), head.data()) / classes;
        let centre = statistics.mean_of_means();
        let feature_squared = statistics.squares / rows
            - 2.0 * dot(&centre, &statistics.mean_of_samples)
            + dot(&centre, &centre);
        let means = statistics.centred_means();
        let logit = |k: usize| {
            let logits = (0..head.rows()).map(|j| dot(head.row(j), means.row(k)));
            dot(head.row(k), means.row(k)) - logits.sum::<f64>() / classes
        };
        let true_logit = (0..head.rows()).map(logit).sum::<f64>() / classes;
        let predicted = optimum.true_logit - mean_logit(optimum, classes);
        let (least, most) = (statistics.counts.iter().min(), statistics.counts.iter().max());
        let count = |count: Option<&u64>| count.copied().unwrap_or(1) as f64;
        Ok(Self {
            head_row_squared,
            head_ratio: head_row_squared / optimum.head_row_squared,
            feature_squared,
            feature_ratio: feature_squared / optimum.feature_squared,
            true_logit,
            logit_ratio: true_logit / predicted,
            imbalance: count(most) / count(least),
        })
    }
}

fn mean_logit(optimum: &UfmOptimum, classes: f64) -> f64 {
    (optimum.true_logit + (classes - 1.0) * optimum.other_logit) / classes
}
