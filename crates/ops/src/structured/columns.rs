//! How operators cut a batch into blocks of rows that are laid out as columns: one feature of all
//! rows side by side, so that a vector register holds as many rows as it has lanes.

use linwright_tensor::kernels::transpose::to_columns;
use linwright_tensor::{MatRef, Scalar, Scratch};

/// Rows handled side by side. A block is filled up with zeros to a multiple of it.
const LANES: usize = 16;
/// Numbers of one block of rows at most, so that a few such blocks fit into the second-level cache.
const BLOCK_NUMBERS: usize = 1 << 15;
/// The same for blocks of more than two groups of [`LANES`]: from two on a block gains less by
/// width than by cache.
const WIDE_BLOCK_NUMBERS: usize = 1 << 14;
/// Most groups of [`LANES`] side by side.
const MOST_GROUPS: usize = 4;
/// Most blocks whose gradients one thread sums in the operator's own precision.
const BLOCKS_OF_PIECE: usize = 8;
/// Pieces of a batch, where there are enough blocks.
const PIECES: usize = 32;

/// How a batch is cut: a function of the shape and the rows alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowBlocks {
    /// Rows computed side by side.
    pub(super) rows: usize,
}

impl RowBlocks {
    /// For vectors of `features` numbers, in at least so many groups of [`LANES`].
    pub(super) fn new(features: usize, groups: usize) -> Self {
        let [wide, any] = [WIDE_BLOCK_NUMBERS, BLOCK_NUMBERS].map(|n| n / features.max(1));
        let rows = wide.max(any.min(2 * LANES));
        Self { rows: rows.clamp(groups * LANES, MOST_GROUPS * LANES) }
    }

    /// Vectors side by side for a block of `rows`: one group of [`LANES`], or pairs of groups.
    pub(super) fn width(rows: usize) -> usize {
        if rows <= LANES { LANES } else { rows.next_multiple_of(2 * LANES) }
    }

    /// Rows whose gradients are summed before those of others are added.
    pub(super) fn rows_of_piece(self, rows: usize) -> usize {
        let blocks = rows.div_ceil(self.rows) / PIECES;
        blocks.clamp(1, BLOCKS_OF_PIECE) * self.rows
    }
}

/// The columns of a block of rows, `width` wide.
pub(super) fn columns_of<T: Scalar>(rows: MatRef<'_, T>, width: usize) -> Scratch<T> {
    padded_columns_of(rows, width, rows.cols())
}

/// The same with zeros behind the features.
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
