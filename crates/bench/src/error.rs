//! Errors of benchmarks.

use linwright_model::ModelError;
use linwright_ops::{OpError, Shape};

/// A benchmark that cannot run, or whose results are invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BenchError {
    /// An option out of range, or a plan that does not fit in memory.
    #[error("{what}: found {found}, expected {expected}")]
    Plan {
        /// Name of the option.
        what: &'static str,
        /// Its value.
        found: String,
        /// Its range.
        expected: String,
    },
    /// An operator whose output differs from the oracle's; it is not timed.
    #[error(
        "{label}, {} to {} features: row {row}, feature {feature} is {found}, the oracle says \
         {expected}; a wrong answer is not timed", shape.inp, shape.out
    )]
    WrongAnswer {
        /// The operator.
        label: String,
        /// Its shape.
        shape: Shape,
        /// Row of the input.
        row: usize,
        /// Feature of the output.
        feature: usize,
        /// Output of the operator.
        found: f64,
        /// Output of the oracle.
        expected: f64,
    },
    /// Non-finite numbers after a pass.
    #[error("{label}, {} to {} features: {pass} gives non-finite numbers", shape.inp, shape.out)]
    NonFinite {
        /// The operator.
        label: String,
        /// Its shape.
        shape: Shape,
        /// The pass.
        pass: &'static str,
    },
    /// An operator that does not exist for a shape, or has no inverse.
    #[error(transparent)]
    Operator(#[from] OpError),
    /// An error of the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No operator exists for any of the shapes.
    #[error("nothing was timed: {reasons}")]
    Nothing {
        /// Reasons, by operator and shape.
        reasons: String,
    },
    /// Cancelled.
    #[error("interrupted")]
    Interrupted,
}
