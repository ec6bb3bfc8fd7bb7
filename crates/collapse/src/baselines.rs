//! Values expected by chance: random frames of the same shape, and shuffled labels.

use crate::metrics::{Prefix, duality, floor, frames};
use crate::statistics::{centred, column_means};
use crate::sums::accumulate;
use crate::{ClassSums, CollapseError, Keep, Metrics, Source, metrics};
use linwright_run::Monitor;
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};

/// Smallest possible distances of K vectors of d features.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floors {
    /// For `nc2_etf_err_*` and `nc3_dual_err`.
    pub etf: f64,
    /// Of `nc2_of_err_*`.
    pub orthogonal: f64,
}

impl Floors {
    /// Floors for K classes and d features.
    #[must_use]
    pub fn of(classes: usize, features: usize) -> Self {
        let rank = features.min(classes) as f64;
        let orthogonal = (2.0 - 2.0 * (rank / classes as f64).sqrt()).max(0.0).sqrt();
        Self { etf: floor(features, classes), orthogonal }
    }
}

/// NC2 and NC3 of means and a head of independent normal numbers.
#[must_use]
pub fn random_frames(classes: usize, features: usize, key: RngKey) -> Metrics {
    let random = |name: &str| -> Mat<f64> {
        let numbers = key.fold(name).stream().normals(classes * features, 1.0);
        Mat::from_vec(classes, features, numbers)
    };
    let (raw, head) = (random("means"), random("head"));
    let means = centred(&raw, &column_means(&raw));
    let exact = vec![0.0; classes];
    let mut all = frames(&Prefix::MEANS, &means, &raw, &exact);
    all.extend(frames(&Prefix::HEAD, &head, &head, &exact));
    all.extend(duality(&head, &centred(&head, &column_means(&head)), &means));
    all
}

/// All metrics of the same features with permuted labels: the values of indistinguishable classes
/// of these sizes.
///
/// # Errors
/// Errors of the features, and [`CollapseError::Interrupted`].
pub fn shuffled(
    source: &dyn Source,
    (classes, head): (usize, Option<&Mat<f64>>),
    keep: Keep,
    key: RngKey,
    monitor: &mut dyn Monitor,
) -> Result<Metrics, CollapseError> {
    let mut labels = source.labels().to_vec();
    key.fold("labels").stream().shuffle(&mut labels);
    let mut sums = ClassSums::checked(classes, source.features(), keep)?;
    accumulate(&mut sums, source, &labels, monitor)?;
    metrics(&sums.finish()?, head)
}
