//! Forms in which the operators of a model are saved.

/// Form of the operators in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Dense weights, which any runtime loads; every operator must be linear.
    Dense,
    /// Operator parameters, with the native model type.
    Native,
    /// Operator parameters, with a Python file for transformers.
    Factored,
}
