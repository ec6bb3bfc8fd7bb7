//! Errors of Vendi scores, selections and reconstructions.

use linwright_tensor::linalg::NoConvergence;

/// Invalid input of a Vendi score, a selection or a reconstruction.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VendiError {
    /// A kernel that is not square.
    #[error("the kernel matrix is {rows} x {cols}; expected as many rows as columns")]
    NotSquare {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
    },
    /// Nothing to score.
    #[error("there are no {what} to score")]
    Empty {
        /// The missing items.
        what: &'static str,
    },
    /// A non-finite number.
    #[error("row {row}, column {col} is {value}; every number has to be finite")]
    NonFinite {
        /// Its row.
        row: usize,
        /// Its column.
        col: usize,
        /// The number.
        value: f64,
    },
    /// An asymmetric kernel.
    #[error(
        "the kernel matrix is not symmetric: ({row}, {col}) and its mirror differ by {difference:e}"
    )]
    NotSymmetric {
        /// Row of the first asymmetric pair.
        row: usize,
        /// Its column.
        col: usize,
        /// Difference of its two numbers.
        difference: f64,
    },
    /// A diagonal entry that is not positive, in a normalised kernel.
    #[error(
        "the diagonal of the kernel is {value} at row {row}; dividing by it needs more than zero"
    )]
    Diagonal {
        /// Its row.
        row: usize,
        /// The diagonal entry.
        value: f64,
    },
    /// A row of zeros, which cannot be normalised.
    #[error(
        "row {row} is zero and cannot be normalised; leave it out, or use the rows without normalisation"
    )]
    ZeroRow {
        /// The row.
        row: usize,
    },
    /// A wrong number of values per item.
    #[error("{found} {what} for {expected} items")]
    Count {
        /// Name of the values.
        what: &'static str,
        /// Number of items.
        expected: usize,
        /// Number of values.
        found: usize,
    },
    /// An invalid probability or quality.
    #[error("the {what} of item {index} is {value}; expected a finite number of at least zero")]
    Negative {
        /// Name of the value.
        what: &'static str,
        /// Index of the item.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Probabilities that do not sum to one.
    #[error("the probabilities sum to {sum}; expected 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// An invalid order.
    #[error("order {0}; expected a number of at least 0, or infinity")]
    Order(f64),
    /// An impossible number of rows.
    #[error("cannot select {asked} of {rows} rows; expected 1 to {rows}")]
    Rank {
        /// Requested number of rows.
        asked: usize,
        /// Number of rows of the matrix.
        rows: usize,
    },
    /// An invalid kernel width.
    #[error("gamma is {0}; expected a finite number above zero")]
    Gamma(f64),
    /// The median heuristic is undefined.
    #[error(
        "the median squared distance of the rows is zero, since most of them are equal; \
         give gamma as a number"
    )]
    NoScale,
    /// Linearly dependent selected rows.
    #[error(
        "selected row {row} (number {pick}) is zero or linearly dependent on earlier ones, so the projection \
         has no coefficients; choose fewer rows"
    )]
    Dependent {
        /// Row of the matrix.
        row: usize,
        /// Its position in the selection, from 1.
        pick: usize,
    },
    /// A decomposition failed.
    #[error(transparent)]
    NoConvergence(#[from] NoConvergence),
    /// Cancelled by the caller.
    #[error("interrupted")]
    Interrupted,
}
