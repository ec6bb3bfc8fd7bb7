//! Products that are used block by block and never stored.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::blocks::{self, CACHE_LINE, DEPTH, Left, Piece, Right, lines_of_left, pieces_of};
use super::tile::{Fetch, Output, Place, Scaling, Tile};
use super::{Arg, Write, product_on_this_thread};
use crate::{MatMut, Scratch, parallel};
use std::ops::Range;

/// Rows of a block on machines without tiles.
const FEW_ROWS: usize = 64;

/// A block of a product: some rows and columns.
pub(in crate::kernels) struct Block<'a> {
    pub rows: Range<usize>,
    pub cols: Range<usize>,
    /// Its numbers, row-major.
    pub numbers: &'a [f32],
    /// Stride from row to row.
    pub stride: usize,
}

/// A consumer of the blocks of a product.
pub(in crate::kernels) trait Consumer: Sync {
    /// Uses a block; blocks come in any order, on any thread. Returns a term of the result.
    fn consume(&self, block: &Block<'_>) -> f64;

    /// Arrays in the layout of the product that it reads: they are fetched while a block is
    /// computed.
    fn reads(&self) -> &[*const f32];
}

/// Computes `a b` and passes every block to a consumer without storing the product. Returns the sum
/// of the terms, in a fixed order.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub(in crate::kernels) fn consumed_product(
    a: Arg<'_, f32>,
    b: Arg<'_, f32>,
    consumer: &impl Consumer,
) -> f64 {
    assert_eq!(a.cols(), b.rows(), "inner dimension of a product");
    a.check();
    b.check();
    let (rows, depth, cols) = (a.rows(), a.cols(), b.cols());
    if rows * cols == 0 {
        return 0.0;
    }
    let pays = |tile: &Tile| depth <= DEPTH && blocks::pays(*tile, rows, depth, cols);
    let terms = match Tile::of_this_machine().filter(pays) {
        Some(tile) => {
            let left = Left::pack(tile, lines_of_left(a), rows, depth, false);
            let product = Product { tile, left, right: Right::of(b), depth, row: cols };
            let pieces = pieces_of(tile, rows, cols);
            parallel::map(pieces, |_, piece| product.piece(piece, consumer))
        }
        None => {
            let starts = (0..rows).step_by(FEW_ROWS).collect();
            parallel::map(starts, |_, start: usize| {
                in_rows(start..rows.min(start + FEW_ROWS), a, b, consumer)
            })
        }
    };
    terms.into_iter().sum()
}

/// Some rows of a product.
fn in_rows(rows: Range<usize>, a: Arg<'_, f32>, b: Arg<'_, f32>, consumer: &impl Consumer) -> f64 {
    let (count, cols) = (rows.len(), b.cols());
    let mut numbers = Scratch::<f32>::new(count * cols);
    let part = match a {
        Arg::Plain(m) => Arg::Plain(m.rows_range(rows.start, count)),
        Arg::Transposed(m) => Arg::Transposed(m.columns(rows.start, count)),
    };
    product_on_this_thread(1.0, part, b, MatMut::new(&mut numbers, count, cols), Write::Set);
    consumer.consume(&Block { rows, cols: 0..cols, numbers: &numbers, stride: cols })
}

/// A product in tiles, of one round.
struct Product<'a> {
    tile: Tile,
    left: Left,
    right: Right<'a>,
    depth: usize,
    /// Stride from row to row of the whole product.
    row: usize,
}

impl Product<'_> {
    fn piece(&self, piece: Piece, consumer: &impl Consumer) -> f64 {
        let Piece { rows, cols, .. } = piece;
        let (tile, depth) = (self.tile, self.depth);
        let stride = cols.len().next_multiple_of(tile.cols);
        let mut packed = Scratch::<f32>::new(stride * depth);
        self.right.pack(tile, cols.clone(), 0..depth, &mut packed);
        let lines = self.lines(consumer.reads(), &cols, stride);
        let mut block = Scratch::<f32>::new(tile.rows * stride);
        let mut sum = 0.0;
        for top in rows.clone().step_by(tile.rows) {
            let height = tile.rows.min(rows.end - top);
            let left = self.left.panel(tile, top, &(0..depth));
            // Those of the rows that come next.
            let shift = (top + tile.rows) * self.row;
            let of_tiles = lines.chunks_exact(depth.div_ceil(Fetch::EVERY));
            let panels = packed.chunks_exact(tile.cols * depth).zip(of_tiles).enumerate();
            for (column, (right, lines)) in panels {
                let right = Place { at: right.as_ptr(), row: tile.cols, register: tile.cols / 2 };
                let scaling = Scaling { alpha: 1.0, add: false };
                let fetch = Fetch { lines: lines.as_ptr(), shift };
                // SAFETY: the panels hold `depth` numbers of every line, the block holds
                // `tile.rows` rows of whole tiles, and there are as many lines as are fetched.
                unsafe {
                    let at = block.as_mut_ptr().add(column * tile.cols);
                    let into = Place { at, row: stride, register: tile.cols / 2 };
                    (tile.multiply_fetching)(
                        depth,
                        left.as_ptr(),
                        right,
                        Output { place: into, height },
                        scaling,
                        fetch,
                    );
                }
            }
            let (rows, cols) = (top..top + height, cols.clone());
            sum += consumer.consume(&Block { rows, cols, numbers: &block, stride });
        }
        sum
    }

    /// Addresses of the lines of some arrays in the first rows of these columns, spread over the
    /// tiles.
    fn lines(&self, reads: &[*const f32], cols: &Range<usize>, stride: usize) -> Vec<*const f32> {
        let mut lines = Vec::new();
        for row in 0..self.tile.rows {
            for start in reads {
                let first = start.wrapping_add(row * self.row + cols.start);
                let count = cols.len().div_ceil(CACHE_LINE);
                lines.extend((0..count).map(|line| first.wrapping_add(line * CACHE_LINE)));
            }
        }
        let places = stride / self.tile.cols * self.depth.div_ceil(Fetch::EVERY);
        (0..places).map(|place| lines[place * lines.len() / places]).collect()
    }
}
