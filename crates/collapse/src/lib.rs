//! Neural collapse: measured, predicted, reproduced.
//!
//! Features of a trained classifier concentrate at their class means (NC1), the means form a
//! simplex (NC2), the head aligns with them (NC3), and so agrees with the nearest class mean (NC4).
//! [`ClassSums`] accumulates features and labels in one pass, [`metrics()`] computes every variant
//! of these metrics, [`Decisions`] those that need a second pass; [`baselines`] and [`bootstrap`]
//! put them in context. [`optimum`] has the closed forms to which regularised training should lead.
//!
//! ```
//! use linwright_collapse::{ClassSums, Keep, metrics};
//! use linwright_tensor::Mat;
//!
//! let features = Mat::from_vec(4, 2, vec![1.0, 0.1, 1.0, -0.1, -1.0, 0.1, -1.0, -0.1]);
//! let mut sums = ClassSums::new(2, 2, Keep::Scatter);
//! sums.add(features.view(), &[0, 0, 1, 1])?;
//! let metrics = metrics(&sums.finish()?, None)?;
//! assert!((metrics.get("nc1_quotient").unwrap() - 0.01).abs() < 1e-12);
//! # Ok::<(), linwright_collapse::CollapseError>(())
//! ```

pub mod baselines;
pub mod bootstrap;
mod decisions;
pub mod depth;
mod error;
mod features;
#[cfg(test)]
mod golden;
mod layer;
pub mod metrics;
mod network;
pub mod optimum;
mod pairs;
pub mod relation;
pub mod report;
mod rounding;
mod statistics;
mod stored;
mod sums;
#[cfg(test)]
mod tests;

pub use decisions::Decisions;
pub use error::CollapseError;
pub use features::{FeatureFile, Features, Source};

pub use layer::{Baselines, HeadRef, LayerOptions, LayerReport};
pub use metrics::{METRICS, MetricName, Metrics, metrics};
pub use network::{Head, LayerFeatures, MOST_FEATURES, NetFeatures};
pub use statistics::ClassStatistics;
pub use sums::{BLOCK, ClassSums, EXACT_FEATURES, Keep};
