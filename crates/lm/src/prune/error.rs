//! Errors of structured pruning.

use linwright_model::{BasisError, LayersError, WidthError};
use linwright_ops::SiteId;

/// A model that cannot be pruned as asked.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// An impossible share.
    #[error("keep {keep}: expected a share above 0 and at most 1")]
    Keep {
        /// The share.
        keep: f64,
    },
    /// A layer that does not exist.
    #[error("layer {layer}: the model has {layers} layers, counted from 0")]
    Layer {
        /// The index.
        layer: usize,
        /// Number of layers.
        layers: usize,
    },
    /// A method that reads text, without any.
    #[error("{method} chooses what to keep by calibration text, and none was given")]
    NoText {
        /// Name of the method.
        method: &'static str,
    },
    /// An architecture that a method does not know.
    #[error("{method} cannot prune this model: {reason}")]
    Model {
        /// Name of the method.
        method: &'static str,
        /// What the model has, and what the method prunes.
        reason: String,
    },
    /// A share below what must stay.
    #[error("keep {keep}: {method} cannot keep less than {least:.4} of this model")]
    TooSmall {
        /// Name of the method.
        method: &'static str,
        /// The share.
        keep: f64,
        /// The smallest share.
        least: f64,
    },
    /// A site without a dense weight.
    #[error("{site} holds a {kind}; structured pruning reads dense weights")]
    Operator {
        /// The site.
        site: SiteId,
        /// Kind of its operator.
        kind: &'static str,
    },
    /// A failed decomposition.
    #[error("layer {layer}, {what}: {reason}")]
    Numerics {
        /// The layer.
        layer: usize,
        /// The matrix.
        what: &'static str,
        /// The error of the decomposition.
        reason: String,
    },
    /// A decomposition of the residual stream failed.
    #[error("second moments of the residual stream: {reason}")]
    Basis {
        /// The error of the decomposition.
        reason: String,
    },
    /// A residual stream without another basis.
    #[error(transparent)]
    Stream(#[from] BasisError),
    /// Layers that a model cannot be made of.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// Widths that a model cannot have.
    #[error(transparent)]
    Width(#[from] WidthError),
}
