//! Why operators were not timed.

use linwright_model::ModelError;
use linwright_ops::{OpError, Shape};

/// A bench that cannot be made, or must not be believed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BenchError {
    /// A plan that times nothing, or more than there is memory.
    #[error("{what}: found {found}, expected {expected}")]
    Plan {
        /// What is wrong.
        what: &'static str,
        /// What was asked for.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// An operator whose answer differs from its oracle's; it is not timed.
    #[error(
        "{label}, {} to {} features: row {row}, feature {feature} is {found}, the oracle says \
         {expected}; a wrong answer is not timed", shape.inp, shape.out
    )]
    WrongAnswer {
        /// The operator.
        label: String,
        /// Its shape.
        shape: Shape,
        /// Row of the sample.
        row: usize,
        /// Feature of the output.
        feature: usize,
        /// What the operator computed.
        found: f64,
        /// What the oracle computed.
        expected: f64,
    },
    /// A pass that left numbers that are not finite.
    #[error("{label}, {} to {} features: {pass} left numbers that are not finite", shape.inp, shape.out)]
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
    /// A model that cannot compute.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No operator exists for any of the shapes.
    #[error("nothing was timed: {reasons}")]
    Nothing {
        /// Why each was left out.
        reasons: String,
    },
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}
