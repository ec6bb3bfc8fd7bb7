//! Training of one reference network on all examples at once, in double precision.
//!
//! Adam with a cosine schedule down to a share of the first step size. The loop is not that of
//! `train`, which keeps parameters in single precision.

use super::{DepthData, Objective, Penalty, RefNet};
use crate::optimum::Fit;
use crate::{ClassSums, CollapseError, Decisions, Keep, Metrics, metrics};
use linwright_tensor::kernels::adam::{Adam, adam};
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};

/// Settings of the training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingOptions {
    /// Updates.
    pub steps: u64,
    /// First step size.
    pub rate: f64,
    /// Final share of it.
    pub last_share: f64,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self { steps: 1200, rate: 0.005, last_share: 0.02 }
    }
}

/// A trained network.
#[derive(Clone, Debug)]
pub struct Trained {
    /// Its parameters.
    pub parameters: Vec<f64>,
    /// Objective at the end.
    pub objective: Objective,
    /// Norm of the gradient at the end.
    pub gradient_norm: f64,
    /// Accuracy on the examples.
    pub accuracy: f64,
    /// Metrics of its features and head.
    pub metrics: Metrics,
    /// `nc1_quotient` after each block.
    pub nc1_of_layers: Vec<Option<f64>>,
}

/// Trains a network from random parameters.
///
/// # Errors
/// [`CollapseError::Overflow`] if the objective is not finite, [`CollapseError::Interrupted`] if
/// `stop` returns true.
pub fn trained(
    net: &RefNet,
    data: &DepthData,
    (fit, penalty): (Fit, Penalty),
    options: TrainingOptions,
    (key, stop): (RngKey, &(dyn Fn() -> bool + Sync)),
) -> Result<Trained, CollapseError> {
    let mut parameters = net.random(key);
    let count = parameters.len();
    let (mut first, mut second) = (vec![0.0; count], vec![0.0; count]);
    let mut gradient = vec![0.0; count];
    let of = (data.x.view(), data.labels.as_slice());
    for step in 1..=options.steps {
        if stop() {
            return Err(CollapseError::Interrupted);
        }
        gradient.fill(0.0);
        let (objective, _) = net.objective(&parameters, of, (fit, penalty), &mut gradient);
        if !objective.total().is_finite() {
            return Err(CollapseError::Overflow { what: "the objective" });
        }
        let progress = (step - 1) as f64 / (options.steps.max(2) - 1) as f64;
        let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        let rate = options.rate * (options.last_share + (1.0 - options.last_share) * cosine);
        let constants = Adam { rate, ..Adam::default() };
        adam(&constants, step, &mut parameters, &gradient, &mut first, &mut second);
    }
    gradient.fill(0.0);
    let (objective, pass) = net.objective(&parameters, of, (fit, penalty), &mut gradient);
    let head = net.head(&parameters).to_mat();
    let (metrics, accuracy) = measure(&pass.features, data, Some(&head))?;
    let nc1 = |layer: &Mat<f64>| {
        let (metrics, _) = measure(layer, data, None)?;
        Ok(metrics.get("nc1_quotient"))
    };
    Ok(Trained {
        objective,
        gradient_norm: gradient.iter().map(|g| g * g).sum::<f64>().sqrt(),
        accuracy,
        metrics,
        nc1_of_layers: pass.layers.iter().map(nc1).collect::<Result<_, CollapseError>>()?,
        parameters,
    })
}

/// Metrics of features, and the accuracy of the head.
fn measure(
    features: &Mat<f64>,
    data: &DepthData,
    head: Option<&Mat<f64>>,
) -> Result<(Metrics, f64), CollapseError> {
    let mut sums = ClassSums::new(data.classes, features.cols(), Keep::Scatter);
    sums.add(features.view(), &data.labels)?;
    let statistics = sums.finish()?;
    let mut all = metrics(&statistics, head)?;
    let mut decisions = Decisions::new(&statistics, head.map(|head| (head, None)))?;
    decisions.add(features.view(), &data.labels)?;
    all.extend(decisions.metrics());
    let accuracy = all.get("acc_lin").unwrap_or(f64::NAN);
    Ok((all, accuracy))
}
