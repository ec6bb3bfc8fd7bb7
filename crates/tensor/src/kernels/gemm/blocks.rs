//! Products of `f32` matrices with a common left factor, tile by tile.
//!
//! The left factor is packed once, by all threads. A work item is a block of columns of a result: a
//! thread packs the columns of the right factor into its second-level cache and streams the panels
//! of the left one, each of which stays in the first-level cache meanwhile. A right factor in 16
//! bits is widened when it is packed. Source of the scheme: Goto and van de Geijn 2008, ACM TOMS
//! 34(3), 12; Van Zee and van de Geijn 2015, ACM TOMS 41(3), 14.
//!
//! Each number of the result is summed in the same order, independent of its position and of other
//! products.
#![allow(
    unsafe_code,
    reason = "threads write disjoint parts of one result; bounds are checked here"
)]

use super::tile::{Lines, Output, Place, Scaling, Tile};
use super::{Arg, Pointer, Write};
use crate::parallel;
use crate::{Halves, MatMut, Scratch};
use std::ops::Range;

/// Depth of a round (inner dimension): a panel of 14 rows then fills most of 32 KB.
pub(super) const DEPTH: usize = 512;
/// Columns per work item, of which a round has 512 KB; fewer if there would be too few work items
/// for many threads.
const COLS: [(usize, usize); 3] = [(256, 16), (128, 8), (64, 0)];
/// Largest number of rows of a work item, whose result, another 512 KB, stays in the second-level
/// cache between rounds.
const ROWS: usize = 512;
/// Size of the packed left factor at a time, for all threads and for one alone.
const PACKED: usize = 1 << 23;
const PACKED_ALONE: usize = 1 << 20;
/// Smallest number of rows packed at a time.
const MIN_PACKED: usize = 112;
/// Panels of the left factor per packing work item.
const PANELS: usize = 4;
/// Depth widened at a time: a panel of that depth stays in the first-level cache.
const WIDENED: usize = 128;
/// Numbers of a cache line.
pub(super) const CACHE_LINE: usize = 16;

/// Smallest number of rows: with fewer, packing the right factor costs more than it saves.
const MIN_ROWS: usize = 48;
/// Smallest number of columns and smallest depth.
const FEWEST: usize = 64;

/// Whether a product of this shape is faster in tiles: there is enough work, and the last panel is
/// nearly full.
pub(super) fn pays(tile: Tile, rows: usize, depth: usize, cols: usize) -> bool {
    let whole = cols.next_multiple_of(tile.cols) <= cols + cols / 4;
    rows >= MIN_ROWS && depth >= FEWEST && cols >= FEWEST && whole
}

/// The right factor of a product.
#[derive(Clone, Copy, Debug)]
pub(super) enum Right<'a> {
    /// Its columns.
    Full(Lines<'a>),
    /// The transpose of a matrix in 16 bits.
    Half(&'a Halves),
}

impl<'a> Right<'a> {
    pub(super) fn of(b: Arg<'a, f32>) -> Self {
        let lines = lines_of_left(b);
        Self::Full(Lines { along: !lines.along, ..lines })
    }

    /// Packs a depth range of some columns, panel by panel.
    pub(super) fn pack(
        self,
        tile: Tile,
        cols: Range<usize>,
        numbers: Range<usize>,
        packed: &mut [f32],
    ) {
        let panels = packed.chunks_exact_mut(tile.cols * numbers.len());
        for (first, panel) in cols.clone().step_by(tile.cols).zip(panels) {
            let count = tile.cols.min(cols.end - first);
            match self {
                // SAFETY: the tile is one of this machine's.
                Self::Full(lines) => unsafe {
                    let lines = lines.skip(first, numbers.start);
                    (tile.pack_right)(lines, count, numbers.len(), panel);
                },
                Self::Half(halves) => {
                    pack_widened(tile, halves, first..first + count, numbers.clone(), panel);
                }
            }
        }
    }
}

/// Packs a range of some rows of a matrix in 16 bits.
fn pack_widened(
    tile: Tile,
    halves: &Halves,
    rows: Range<usize>,
    numbers: Range<usize>,
    panel: &mut [f32],
) {
    let mut wide = Scratch::<f32>::new(tile.cols * WIDENED);
    for start in numbers.clone().step_by(WIDENED) {
        let count = WIDENED.min(numbers.end - start);
        for (row, wide) in rows.clone().zip(wide.chunks_exact_mut(WIDENED)) {
            halves.half_type().widen(&halves.row(row)[start..start + count], &mut wide[..count]);
        }
        let lines = Lines { data: &wide, stride: WIDENED, along: true };
        let part = &mut panel[(start - numbers.start) * tile.cols..];
        // SAFETY: the tile is one of this machine's.
        unsafe { (tile.pack_right)(lines, rows.len(), count, part) };
    }
}

/// Place of a tile in the result, and its rows and columns.
#[derive(Clone, Copy)]
struct TilePlace {
    row: usize,
    col: usize,
    height: usize,
    width: usize,
}

/// Some rows of the left factor, packed round by round, panel by panel.
pub(super) struct Left {
    rows: usize,
    data: Scratch<f32>,
}

impl Left {
    pub(super) fn pack(
        tile: Tile,
        lines: Lines<'_>,
        rows: usize,
        depth: usize,
        alone: bool,
    ) -> Self {
        let whole = rows.next_multiple_of(tile.rows);
        let mut data = Scratch::new(whole * depth);
        let pack = |numbers: &Range<usize>, first: usize, panels: &mut [f32]| {
            let panels = panels.chunks_exact_mut(tile.rows * numbers.len());
            for (top, panel) in (first..rows).step_by(tile.rows).zip(panels) {
                let lines = lines.skip(top, numbers.start);
                let height = tile.rows.min(rows - top);
                // SAFETY: the tile is one of this machine's.
                unsafe { (tile.pack_left)(lines, height, numbers.len(), panel) };
            }
        };
        let mut rest = &mut *data;
        let mut work = Vec::new();
        for numbers in rounds(depth) {
            let (round, others) = rest.split_at_mut(whole * numbers.len());
            rest = others;
            if alone {
                pack(&numbers, 0, round);
                continue;
            }
            let several = PANELS * tile.rows;
            let pieces = round.chunks_mut(several * numbers.len()).enumerate();
            work.extend(pieces.map(|(k, panels)| (numbers.clone(), k * several, panels)));
        }
        parallel::for_each(work, |_, (numbers, first, panels)| pack(&numbers, first, panels));
        Self { rows: whole, data }
    }

    /// The panel of the rows from `top` on.
    pub(super) fn panel(&self, tile: Tile, top: usize, numbers: &Range<usize>) -> &[f32] {
        let start = self.rows * numbers.start + top * numbers.len();
        &self.data[start..start + tile.rows * numbers.len()]
    }
}

/// The rounds: ranges of the inner dimension, summed one after another.
fn rounds(depth: usize) -> impl Iterator<Item = Range<usize>> {
    parts(0..depth, DEPTH, CACHE_LINE)
}

/// A right factor and the destination of its product.
struct Target<'a> {
    right: Right<'a>,
    into: Pointer<f32>,
    stride: usize,
    cols: usize,
}

/// Context shared by all work items.
struct Products<'a> {
    tile: Tile,
    alpha: f32,
    write: Write,
    /// The packed rows of the left factor.
    band: Range<usize>,
    left: Left,
    depth: usize,
    targets: &'a [Target<'a>],
}

/// `c = alpha a b` or `c += alpha a b` for every right factor b, on the calling thread if `alone`.
/// The caller has checked the shapes; all extents are positive.
pub(super) fn products(
    tile: Tile,
    alpha: f32,
    a: Arg<'_, f32>,
    into: &mut [(Right<'_>, MatMut<'_, f32>)],
    write: Write,
    alone: bool,
) {
    let (rows, depth) = (a.rows(), a.cols());
    let mut targets = Vec::with_capacity(into.len());
    for (right, c) in into {
        let (stride, cols) = (c.stride(), c.cols());
        assert!(c.rows() == rows && rows * depth * cols > 0, "an empty product");
        assert!(c.data_mut().len() >= (rows - 1) * stride + cols, "view out of bounds");
        let into = Pointer(c.data_mut().as_mut_ptr());
        targets.push(Target { right: *right, into, stride, cols });
    }
    if targets.is_empty() {
        return;
    }
    let lines = lines_of_left(a);
    let packed = if alone { PACKED_ALONE } else { PACKED } / depth;
    let high = packed.max(MIN_PACKED).next_multiple_of(tile.rows);
    for band in (0..rows).step_by(high).map(|top| top..rows.min(top + high)) {
        let left = Left::pack(tile, lines.skip(band.start, 0), band.len(), depth, alone);
        let pieces = pieces(tile, band.len(), &targets);
        let targets = &targets;
        let products = Products { tile, alpha, write, band, left, depth, targets };
        if alone {
            pieces.into_iter().for_each(|piece| products.piece(piece));
        } else {
            parallel::for_each(pieces, |_, piece| products.piece(piece));
        }
    }
}

pub(super) fn lines_of_left(a: Arg<'_, f32>) -> Lines<'_> {
    match a {
        Arg::Plain(m) => Lines { data: m.data(), stride: m.stride(), along: true },
        Arg::Transposed(m) => Lines { data: m.data(), stride: m.stride(), along: false },
    }
}

/// Equal parts of `total`, each a multiple of `multiple` except the last, of at most about `most`.
fn parts(total: Range<usize>, most: usize, multiple: usize) -> impl Iterator<Item = Range<usize>> {
    let step = total.len().div_ceil(total.len().div_ceil(most)).next_multiple_of(multiple);
    total.clone().step_by(step).map(move |start| start..total.end.min(start + step))
}

/// A work item.
pub(super) struct Piece {
    /// Index of the target.
    index: usize,
    /// Rows of the band.
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
}

/// Packed panels of both factors, of one depth.
struct Factors<'a> {
    left: &'a [f32],
    right: &'a [f32],
}

/// The work items of one product of this shape, a function of the shape alone.
pub(super) fn pieces_of(tile: Tile, rows: usize, cols: usize) -> Vec<Piece> {
    let right = Right::Full(Lines { data: &[], stride: 0, along: true });
    let into = Pointer(std::ptr::null_mut());
    pieces(tile, rows, &[Target { right, into, stride: 0, cols }])
}

/// A function of the shapes alone.
fn pieces(tile: Tile, rows: usize, targets: &[Target<'_>]) -> Vec<Piece> {
    let count = |wide| {
        let columns: usize = targets.iter().map(|target| target.cols.div_ceil(wide)).sum();
        columns * rows.div_ceil(ROWS)
    };
    let enough = |(wide, fewest): &(usize, usize)| count(*wide) >= *fewest;
    let wide = COLS.into_iter().find(enough).map_or(FEWEST, |(wide, _)| wide);
    let of_target = |(index, target): (usize, &Target<'_>)| {
        let cols = target.cols;
        parts(0..rows, ROWS, tile.rows).flat_map(move |rows| {
            let of_cols = move |cols| Piece { index, rows: rows.clone(), cols };
            parts(0..cols, wide, tile.cols).map(of_cols)
        })
    };
    targets.iter().enumerate().flat_map(of_target).collect()
}

impl Products<'_> {
    fn piece(&self, Piece { index, rows, cols }: Piece) {
        let (tile, target) = (self.tile, &self.targets[index]);
        let whole = cols.len().next_multiple_of(tile.cols);
        let mut packed = Scratch::new(whole * DEPTH.min(self.depth));
        for (round, numbers) in rounds(self.depth).enumerate() {
            let add = round > 0 || self.write == Write::Add;
            let packed = &mut packed[..whole * numbers.len()];
            target.right.pack(tile, cols.clone(), numbers.clone(), packed);
            for top in rows.clone().step_by(tile.rows) {
                let left = self.left.panel(tile, top, &numbers);
                let height = tile.rows.min(rows.end - top);
                let panels = packed.chunks_exact(tile.cols * numbers.len());
                for (start, right) in cols.clone().step_by(tile.cols).zip(panels) {
                    let width = tile.cols.min(cols.end - start);
                    let place = TilePlace { row: self.band.start + top, col: start, height, width };
                    self.tile(target, Factors { left, right }, place, add);
                }
            }
        }
    }

    /// Computes the tile at row `row` and column `col` of the result, clipped to `height` rows and
    /// `width` columns.
    fn tile(
        &self,
        target: &Target<'_>,
        Factors { left, right }: Factors<'_>,
        TilePlace { row, col, height, width }: TilePlace,
        add: bool,
    ) {
        let Tile { rows, cols, .. } = self.tile;
        let multiply = match 2 * height <= rows {
            true => self.tile.multiply_half,
            false => self.tile.multiply,
        };
        let (numbers, stride) = (right.len() / cols, target.stride);
        assert!(left.len() >= numbers * rows, "panel out of bounds");
        let right = Place { at: right.as_ptr(), row: cols, register: cols / 2 };
        // SAFETY: `products` checked that the result holds `height` rows and `width` columns from
        // here on, no other piece has them, and the panels hold `numbers` of every line.
        unsafe {
            let corner = target.into.0.add(row * stride + col);
            if width == cols {
                let into = Place { at: corner, row: stride, register: cols / 2 };
                let scaling = Scaling { alpha: self.alpha, add };
                return multiply(
                    numbers,
                    left.as_ptr(),
                    right,
                    Output { place: into, height },
                    scaling,
                );
            }
            let mut whole = [0.0; Tile::MOST];
            let into = Place { at: whole.as_mut_ptr(), row: cols, register: cols / 2 };
            let scaling = Scaling { alpha: self.alpha, add: false };
            multiply(numbers, left.as_ptr(), right, Output { place: into, height }, scaling);
            for i in 0..height {
                for j in 0..width {
                    let to = corner.add(i * stride + j);
                    let number = whole[i * cols + j];
                    *to = if add { *to + number } else { number };
                }
            }
        }
    }
}
