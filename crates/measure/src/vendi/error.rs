//! What can be wrong with a kernel, with rows, or with what is asked of them.

use linwright_tensor::linalg::NoConvergence;

/// A Vendi score, a selection or a reconstruction that cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VendiError {
    /// A kernel that is no square.
    #[error("the kernel matrix is {rows} x {cols}; expected as many rows as columns")]
    NotSquare {
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
    },
    /// Nothing to score.
    #[error("there are no {what} to score")]
    Empty {
        /// What there is none of.
        what: &'static str,
    },
    /// A number that is NaN or infinite.
    #[error("row {row}, column {col} is {value}; every number has to be finite")]
    NonFinite {
        /// Its row.
        row: usize,
        /// Its column.
        col: usize,
        /// What stands there.
        value: f64,
    },
    /// A kernel that is not its own transpose.
    #[error(
        "the kernel matrix is not symmetric: ({row}, {col}) and its mirror differ by {difference:e}"
    )]
    NotSymmetric {
        /// Row of the first such pair.
        row: usize,
        /// Its column.
        col: usize,
        /// How far its two numbers are apart.
        difference: f64,
    },
    /// A similarity of an item with itself that nothing can be divided by.
    #[error(
        "the diagonal of the kernel is {value} at row {row}; dividing by it needs more than zero"
    )]
    Diagonal {
        /// Its row.
        row: usize,
        /// What stands there.
        value: f64,
    },
    /// A row without a direction.
    #[error(
        "row {row} is all zeros and has no direction; leave it out, or keep the rows as they are"
    )]
    ZeroRow {
        /// Which.
        row: usize,
    },
    /// One number for each item was expected.
    #[error("{found} {what} for {expected} items")]
    Count {
        /// What they are.
        what: &'static str,
        /// Items.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// A probability or a quality that is none.
    #[error("the {what} of item {index} is {value}; expected a finite number of at least zero")]
    Negative {
        /// What it is.
        what: &'static str,
        /// Of which item.
        index: usize,
        /// The number.
        value: f64,
    },
    /// Probabilities that do not add up.
    #[error("the probabilities sum to {sum}; expected 1")]
    Sum {
        /// What they sum to.
        sum: f64,
    },
    /// An order that is none.
    #[error("order {0}; expected a number of at least 0, or infinity")]
    Order(f64),
    /// A number of rows that cannot be chosen.
    #[error("{asked} of {rows} rows cannot be chosen; expected 1 to {rows}")]
    Rank {
        /// Rows asked for.
        asked: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A width of the kernel that is none.
    #[error("gamma is {0}; expected a finite number above zero")]
    Gamma(f64),
    /// The median heuristic has nothing to go by.
    #[error(
        "the median squared distance of the rows is zero, since most of them are equal; \
         give gamma as a number"
    )]
    NoScale,
    /// Chosen rows that do not span as many dimensions as there are of them.
    #[error(
        "chosen row {row} (pick {pick}) is zero or depends on the picks before it, so the projection \
         has no coefficients; choose fewer rows"
    )]
    Dependent {
        /// Row of the matrix.
        row: usize,
        /// Which pick it was, from 1.
        pick: usize,
    },
    /// A decomposition failed.
    #[error(transparent)]
    NoConvergence(#[from] NoConvergence),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}
