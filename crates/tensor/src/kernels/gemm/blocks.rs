//! Products of `f32` matrices, tile by tile.
//!
//! The right factor is packed once, by all threads, and then read by all of them; a panel of the
//! left one stays in the first-level cache while a block of the right one, in the second-level
//! cache, passes by. Source of the scheme: Goto and van de Geijn 2008, ACM TOMS 34(3), 12; Van Zee
//! and van de Geijn 2015, ACM TOMS 41(3), 14.
//!
//! A number of the result is summed in the same order wherever it stands and whatever else is
//! computed beside it.
#![allow(
    unsafe_code,
    reason = "threads write disjoint parts of one result; bounds are checked here"
)]

use super::tile::{Lines, Place, Tile};
use super::{Arg, Pointer, Write};
use crate::parallel;
use crate::{MatMut, Scratch};
use std::ops::Range;

/// Numbers of a line in one block: a panel of 14 then fills most of 32 KB.
const DEPTH: usize = 512;
/// Columns of the right factor in one block, which then has 1 MB.
const COLS: usize = 512;
/// Rows of one piece of parallel work.
const ROWS: usize = 112;
/// Fewest pieces of a product, where columns allow.
const FEWEST_PIECES: usize = 4;
/// Numbers of the right factor that are packed at one time, unless one block has more.
const PACKED: usize = 1 << 20;
/// Panels that a thread packs as one piece.
const PANELS: usize = 4;
/// Numbers of a cache line.
const CACHE_LINE: usize = 16;

/// Fewest rows: with less, packing the right factor costs more than it saves.
const FEWEST_ROWS: usize = 48;
/// Fewest columns and fewest numbers of a line.
const FEWEST: usize = 64;

/// Whether a product of these extents is faster in tiles: there is enough to do, and few columns of
/// the last panel are empty.
pub(super) fn pays(tile: Tile, rows: usize, depth: usize, cols: usize) -> bool {
    let whole = cols.next_multiple_of(tile.cols) <= cols + cols / 4;
    rows >= FEWEST_ROWS && depth >= FEWEST && cols >= FEWEST && whole
}

/// What all pieces of a product share.
struct Product<'a> {
    tile: Tile,
    alpha: f32,
    write: Write,
    left: Lines<'a>,
    depth: usize,
    into: Pointer<f32>,
    stride: usize,
}

/// `c = alpha a b` or `c += alpha a b`, on the calling thread if `alone`. The caller has checked
/// the shapes; all extents are positive.
pub(super) fn product(
    tile: Tile,
    alpha: f32,
    (a, b): (Arg<'_, f32>, Arg<'_, f32>),
    (mut c, write): (MatMut<'_, f32>, Write),
    alone: bool,
) {
    let (rows, depth, cols, stride) = (c.rows(), a.cols(), c.cols(), c.stride());
    assert!(c.data_mut().len() >= (rows - 1) * stride + cols, "view out of bounds");
    assert!(rows * depth * cols > 0, "an empty product");
    let (left, right) = (lines_of_left(a), lines_of_right(b));
    let into = Pointer(c.data_mut().as_mut_ptr());
    let product = Product { tile, alpha, write, left, depth, into, stride };
    let wide = (PACKED / depth / COLS).max(1) * COLS;
    for first in (0..cols).step_by(wide) {
        let cols = first..cols.min(first + wide);
        let length = cols.len().next_multiple_of(tile.cols) * depth;
        let mut packed = Scratch::new(length);
        pack_right(tile, right.skip(cols.start, 0), (cols.len(), depth), &mut packed, alone);
        let packed = &*packed;
        let pieces = pieces(tile, rows, cols);
        let compute = |(rows, block): (Range<usize>, Range<usize>)| {
            let panels = &packed[(block.start - first) * depth..];
            product.block(rows, block, panels);
        };
        if alone {
            pieces.into_iter().for_each(compute);
        } else {
            parallel::for_each(pieces, |_, piece| compute(piece));
        }
    }
}

pub(super) fn lines_of_left(a: Arg<'_, f32>) -> Lines<'_> {
    match a {
        Arg::Plain(m) => Lines { data: m.data(), stride: m.stride(), along: true },
        Arg::Transposed(m) => Lines { data: m.data(), stride: m.stride(), along: false },
    }
}

fn lines_of_right(b: Arg<'_, f32>) -> Lines<'_> {
    let lines = lines_of_left(b);
    Lines { along: !lines.along, ..lines }
}

/// Packs `cols` columns of `depth` numbers, panel after panel.
fn pack_right(
    tile: Tile,
    right: Lines<'_>,
    (cols, depth): (usize, usize),
    packed: &mut [f32],
    alone: bool,
) {
    let several = PANELS * tile.cols;
    let pack = |index: usize, panels: &mut [f32]| {
        for (k, panel) in panels.chunks_mut(tile.cols * depth).enumerate() {
            let first = index * several + k * tile.cols;
            let count = tile.cols.min(cols - first);
            // SAFETY: the tile is one of this machine's.
            unsafe { (tile.pack_right)(right.skip(first, 0), count, depth, panel) };
        }
    };
    if alone {
        packed.chunks_mut(several * depth).enumerate().for_each(|(index, panels)| {
            pack(index, panels);
        });
    } else {
        parallel::for_each_chunk(packed, several * depth, pack);
    }
}

/// Equal parts of `total`, each a multiple of `multiple` but for the last, and about `most` at most.
fn parts(total: Range<usize>, most: usize, multiple: usize) -> impl Iterator<Item = Range<usize>> {
    let step = total.len().div_ceil(total.len().div_ceil(most)).next_multiple_of(multiple);
    total.clone().step_by(step).map(move |start| start..total.end.min(start + step))
}

/// Rows and columns of the pieces of a result; those that read the same columns come together.
fn pieces(tile: Tile, rows: usize, cols: Range<usize>) -> Vec<(Range<usize>, Range<usize>)> {
    // Of few rows, columns make the pieces.
    let wide = cols.len().div_ceil(FEWEST_PIECES.div_ceil(rows.div_ceil(ROWS))).max(FEWEST);
    parts(cols, wide.min(COLS), tile.cols)
        .flat_map(|cols| parts(0..rows, ROWS, tile.rows).map(move |rows| (rows, cols.clone())))
        .collect()
}

impl Product<'_> {
    /// Computes a piece; `panels` are those of its columns and of what follows them.
    fn block(&self, rows: Range<usize>, cols: Range<usize>, panels: &[f32]) {
        let tile = self.tile;
        let length = tile.rows * DEPTH;
        let mut left = Scratch::new(length);
        for (round, numbers) in parts(0..self.depth, DEPTH, CACHE_LINE).enumerate() {
            let add = round > 0 || self.write == Write::Add;
            for top in rows.clone().step_by(tile.rows) {
                let height = tile.rows.min(rows.end - top);
                let lines = self.left.skip(top, numbers.start);
                // SAFETY: the tile is one of this machine's.
                unsafe { (tile.pack_left)(lines, height, numbers.len(), &mut left) };
                for (k, panel) in panels.chunks_exact(tile.cols * self.depth).enumerate() {
                    let start = cols.start + k * tile.cols;
                    if start >= cols.end {
                        break;
                    }
                    let right = &panel[numbers.start * tile.cols..numbers.end * tile.cols];
                    let extents = (height, tile.cols.min(cols.end - start));
                    self.tile((&left, right), (top, start), extents, add);
                }
            }
        }
    }

    /// Computes the tile at `corner`, of which `extents` lie in the result.
    fn tile(
        &self,
        (left, right): (&[f32], &[f32]),
        (row, col): (usize, usize),
        (height, width): (usize, usize),
        add: bool,
    ) {
        let Tile { rows, cols, multiply, .. } = self.tile;
        let numbers = right.len() / cols;
        assert!(left.len() >= numbers * rows, "panel out of bounds");
        let right = Place { at: right.as_ptr(), row: cols, register: cols / 2 };
        // SAFETY: `product` checked that the result holds `height` rows and `width` columns from
        // here on, no other piece has them, and the panels hold `numbers` of every line.
        unsafe {
            let corner = self.into.0.add(row * self.stride + col);
            if width == cols {
                let into = Place { at: corner, row: self.stride, register: cols / 2 };
                return multiply(numbers, left.as_ptr(), right, into, height, (self.alpha, add));
            }
            let mut whole = [0.0; Tile::MOST];
            let into = Place { at: whole.as_mut_ptr(), row: cols, register: cols / 2 };
            multiply(numbers, left.as_ptr(), right, into, height, (self.alpha, false));
            for i in 0..height {
                for j in 0..width {
                    let to = corner.add(i * self.stride + j);
                    let number = whole[i * cols + j];
                    *to = if add { *to + number } else { number };
                }
            }
        }
    }
}
