//! Column layout of batches: blocks of rows in which one feature of all rows is contiguous, so that
//! a vector register holds as many rows as it has lanes.

use linwright_tensor::kernels::transpose::to_columns;
use linwright_tensor::{MatRef, Scalar, Scratch};

/// Rows per register group. A block is zero-padded to a multiple of it.
const LANES: usize = 16;
/// Largest size of a block of rows, such that a few blocks fit in the second-level cache.
const BLOCK_NUMBERS: usize = 1 << 15;
/// The same for blocks of more than two groups of [`LANES`]: beyond two, cache matters more than
/// width.
const WIDE_BLOCK_NUMBERS: usize = 1 << 14;
/// Largest number of [`LANES`] groups per block.
const MAX_GROUPS: usize = 4;
/// Largest number of blocks whose gradients one thread sums in the operator's own precision.
const BLOCKS_OF_PIECE: usize = 8;
/// Number of work items of a batch, if there are enough blocks.
const PIECES: usize = 32;

/// Split of a batch into blocks: a function of the shape and the number of rows only.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBlocks {
    /// Rows per block.
    pub(super) rows: usize,
}

impl RowBlocks {
    /// For vectors of `features` numbers, in at least this many groups of [`LANES`].
    pub(super) fn new(features: usize, groups: usize) -> Self {
        let [wide, any] = [WIDE_BLOCK_NUMBERS, BLOCK_NUMBERS].map(|n| n / features.max(1));
        let rows = wide.max(any.min(2 * LANES));
        Self { rows: rows.clamp(groups * LANES, MAX_GROUPS * LANES) }
    }

    /// Padded width of a block of `rows`: one group of [`LANES`], or pairs of groups.
    pub(super) fn width(rows: usize) -> usize {
        if rows <= LANES { LANES } else { rows.next_multiple_of(2 * LANES) }
    }

    /// Rows per gradient sum, which are then added to the total.
    pub(super) fn rows_of_piece(self, rows: usize) -> usize {
        let blocks = rows.div_ceil(self.rows) / PIECES;
        blocks.clamp(1, BLOCKS_OF_PIECE) * self.rows
    }
}

/// Loads a block of rows as columns, `width` wide.
pub(super) fn columns_of<T: Scalar>(rows: MatRef<'_, T>, width: usize) -> Scratch<T> {
    padded_columns_of(rows, width, rows.cols())
}

/// The same with zero-padded features.
pub(super) fn padded_columns_of<T: Scalar>(
    rows: MatRef<'_, T>,
    width: usize,
    features: usize,
) -> Scratch<T> {
    let own = rows.cols() * width;
    let mut columns = Scratch::new(features * width);
    if rows.rows() < width {
        columns[..own].fill(T::ZERO);
    }
    columns[own..].fill(T::ZERO);
    to_columns(rows, width, &mut columns[..own]);
    columns
}
