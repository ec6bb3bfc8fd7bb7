//! Errors of specifications and archives.

use crate::Shape;

/// An invalid specification or archive of an operator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OpError {
    /// A shape or options that the kind does not support.
    #[error("{kind} cannot map {} to {} features: {reason}", shape.inp, shape.out)]
    Unsupported {
        /// The operator's kind.
        kind: &'static str,
        /// The requested shape.
        shape: Shape,
        /// The reason, and supported values.
        reason: String,
    },
    /// A missing tensor.
    #[error("archive of {kind}: tensor {name} is missing; it holds {present}")]
    MissingTensor {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// Names of the existing tensors.
        present: String,
    },
    /// A tensor of a wrong shape.
    #[error("archive of {kind}: tensor {name} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// Shape by the specification.
        expected: Vec<usize>,
        /// Shape in the archive.
        found: Vec<usize>,
    },
    /// An unknown tensor.
    #[error("archive of {kind}: tensor {name} is not a parameter; expected {expected}")]
    UnknownTensor {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// The parameters of the operator.
        expected: String,
    },
    /// Invalid values, such as a permutation with a repeated index.
    #[error("archive of {kind}: {name} {reason}")]
    InvalidValues {
        /// The operator's kind.
        kind: &'static str,
        /// Name of the tensor.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A singular operator.
    #[error(
        "{kind} has no inverse: {part}[{index}] is {value}, expected a finite number that is not zero"
    )]
    Singular {
        /// The operator's kind.
        kind: &'static str,
        /// The singular part, by the name of its parameter if there is one.
        part: String,
        /// Index within the part.
        index: usize,
        /// The singular value, or its absolute value if it is complex.
        value: f64,
    },
    /// A kind without default options.
    #[error("{kind} has no default options: {reason}")]
    NoDefault {
        /// The kind.
        kind: String,
        /// What is missing.
        reason: String,
    },
    /// An operator of another crate, which cannot be archived or rebuilt.
    #[error(
        "{kind} is an operator of another crate, which cannot be rebuilt from an archive; save the model in dense form"
    )]
    External {
        /// The operator's name.
        kind: &'static str,
    },
    /// A dense matrix of a nonlinear map was requested.
    #[error("{kind} is not a linear map, so it has no dense form; save it in native form")]
    NotLinear {
        /// The operator's kind.
        kind: &'static str,
    },
}
