//! What can be wrong with an operator that comes from outside.

use crate::Shape;

/// A specification or archive that does not describe an operator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpError {
    /// The kind does not exist for this shape or these options.
    #[error("{kind} cannot map {} to {} features: {reason}", shape.inp, shape.out)]
    Unsupported {
        /// The operator's kind.
        kind: &'static str,
        /// The shape asked for.
        shape: Shape,
        /// What stands in the way, and what would work.
        reason: String,
    },
    /// A tensor of the archive is absent.
    #[error("archive of {kind}: tensor {name} is missing; it holds {present}")]
    MissingTensor {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// The names that are there.
        present: String,
    },
    /// A tensor of the archive has another shape than the specification asks for.
    #[error("archive of {kind}: tensor {name} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// Shape that follows from the specification.
        expected: Vec<usize>,
        /// Shape in the archive.
        found: Vec<usize>,
    },
    /// A tensor that belongs to no parameter of the specification.
    #[error("archive of {kind}: tensor {name} is not a parameter; expected {expected}")]
    UnknownTensor {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// The parameters there are.
        expected: String,
    },
    /// Values that the operator cannot have, such as a permutation with a repeated index.
    #[error("archive of {kind}: {name} {reason}")]
    InvalidValues {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// What is wrong with the values.
        reason: String,
    },
    /// A part of an operator that has no inverse.
    #[error(
        "{kind} has no inverse: {part}[{index}] is {value}, expected a finite number that is not zero"
    )]
    Singular {
        /// The operator's kind.
        kind: &'static str,
        /// The part of the operator, by the name of its parameter where there is one.
        part: String,
        /// Which number of the part.
        index: usize,
        /// The offender, or its absolute value if it is complex.
        value: f64,
    },
    /// A dense matrix was asked of a map that has none.
    #[error("{kind} is not a linear map, so it has no dense form; save it in native form")]
    NotLinear {
        /// The operator's kind.
        kind: &'static str,
    },
}
