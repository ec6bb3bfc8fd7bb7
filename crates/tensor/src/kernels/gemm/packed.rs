//! Products of few rows with a right factor that is packed once and used many times, as by the
//! layers of a potential, whose rows come in blocks that stay in the cache.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::blocks::{Right, lines_of_left};
use super::tile::{Output, Place, Scaling, Tile};
use super::{Arg, Write, product_on_this_thread};
use crate::{Mat, MatMut, MatRef, Scratch};

/// Numbers of a cache line.
const LINE: usize = 16;

/// A right factor (depth, cols), packed for the tiles of this machine.
#[derive(Debug)]
pub struct PackedRight {
    depth: usize,
    cols: usize,
    kept: Kept,
}

/// The numbers of a [`PackedRight`].
#[derive(Debug)]
enum Kept {
    /// Sums of three numbers, on machines that multiply them.
    #[cfg(target_arch = "x86_64")]
    Thirds(super::thirds::Thirds),
    /// Panels of the tile's columns, from a number on that is aligned to a cache line.
    Panels { tile: Tile, data: Vec<f32>, start: usize },
    /// As they are, on machines without tiles.
    Plain(Mat<f32>),
}

impl Kept {
    /// None on machines without tiles of bf16, and for few columns, where packing the left factor
    /// takes what the products gain.
    fn thirds(factor: Arg<'_, f32>) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if super::thirds::is_here() && factor.cols() >= 4 * super::thirds::COLS {
            return Some(Self::Thirds(super::thirds::Thirds::new(factor)));
        }
        let _ = factor;
        None
    }

    /// None on machines without tiles.
    fn panels(factor: Arg<'_, f32>) -> Option<Self> {
        let tile = Tile::of_this_machine()?;
        let (depth, cols) = (factor.rows(), factor.cols());
        let whole = cols.next_multiple_of(tile.cols) * depth;
        let mut data = vec![0.0; whole + LINE];
        let start = data.as_ptr().align_offset(4 * LINE).min(LINE);
        Right::of(factor).pack(tile, 0..cols, 0..depth, &mut data[start..start + whole]);
        Some(Self::Panels { tile, data, start })
    }

    fn plain(factor: Arg<'_, f32>) -> Self {
        Self::Plain(Mat::from_fn(factor.rows(), factor.cols(), |i, j| factor.at(i, j)))
    }
}

impl PackedRight {
    /// Packs a factor: `Arg::Transposed(w)` of the weight (out, inp) of a linear layer for its
    /// forward product, `Arg::Plain(w)` for the gradient of its input.
    ///
    /// # Panics
    /// If the factor is empty.
    #[must_use]
    pub fn new(factor: Arg<'_, f32>) -> Self {
        let (depth, cols) = (factor.rows(), factor.cols());
        assert!(depth * cols > 0, "an empty factor of {depth} x {cols}");
        factor.check();
        let kept = Kept::thirds(factor).or_else(|| Kept::panels(factor));
        let kept = kept.unwrap_or_else(|| Kept::plain(factor));
        Self { depth, cols, kept }
    }

    /// Rows of the factor.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the factor.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Rows to multiply at a time, if there are many: they fill tiles, and their packed numbers
    /// stay in the second-level cache.
    #[must_use]
    pub fn rows_of_block(&self) -> usize {
        match &self.kept {
            Kept::Panels { tile, .. } => 4 * tile.rows,
            Kept::Thirds(_) | Kept::Plain(_) => 64,
        }
    }

    /// Multiplies every one of `groups` column blocks of `x` (rows, groups · depth) with the factor
    /// into the same block of `y` (rows, groups · cols), on the calling thread.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn apply(&self, groups: usize, x: MatRef<'_, f32>, mut y: MatMut<'_, f32>) {
        let (rows, depth, cols) = (x.rows(), self.depth, self.cols);
        let found = (x.cols(), y.rows(), y.cols());
        assert_eq!(found, (groups * depth, rows, groups * cols), "{rows} rows of {groups} groups");
        if rows * groups == 0 {
            return;
        }
        Arg::Plain(x).check();
        match &self.kept {
            #[cfg(target_arch = "x86_64")]
            Kept::Thirds(thirds) => thirds.apply(groups, x, y),
            Kept::Plain(factor) => {
                for group in 0..groups {
                    let x = x.columns(group * depth, depth).into();
                    let y = y.reborrow().columns(group * cols, cols);
                    product_on_this_thread(1.0, x, factor.view().into(), y, Write::Set);
                }
            }
            Kept::Panels { tile, data, start } => {
                // Tiles of all heights have the same columns, so the panels fit.
                let tile = Tile::for_rows(rows).unwrap_or(*tile);
                let panels = &data[*start..*start + cols.next_multiple_of(tile.cols) * depth];
                self.in_tiles(tile, panels, groups, x, y);
            }
        }
    }

    /// [`Self::apply`] with panels: those of the left factor are packed first, since each panel of
    /// the right one is to be read from the second-level cache only once.
    fn in_tiles(
        &self,
        tile: Tile,
        panels: &[f32],
        groups: usize,
        x: MatRef<'_, f32>,
        mut y: MatMut<'_, f32>,
    ) {
        let (rows, depth, cols) = (x.rows(), self.depth, self.cols);
        let (bands, size) = (rows.div_ceil(tile.rows), tile.rows * depth);
        let mut left = Scratch::<f32>::new(bands * groups * size);
        for (place, panel) in left.chunks_exact_mut(size).enumerate() {
            let (first, group) = (place / groups * tile.rows, place % groups);
            let height = tile.rows.min(rows - first);
            let lines = lines_of_left(Arg::Plain(x)).skip(first, group * depth);
            // SAFETY: the tile is one of this machine's.
            unsafe { (tile.pack_left)(lines, height, depth, panel) };
        }
        let stride = y.stride();
        let to = y.data_mut();
        assert!(to.len() >= (rows - 1) * stride + groups * cols, "view out of bounds");
        for (panel, from) in panels.chunks_exact(tile.cols * depth).enumerate() {
            let width = tile.cols.min(cols - panel * tile.cols);
            for (place, left) in left.chunks_exact(size).enumerate() {
                let (first, group) = (place / groups * tile.rows, place % groups);
                let corner = first * stride + group * cols + panel * tile.cols;
                let height = tile.rows.min(rows - first);
                let to = &mut to[corner..][..(height - 1) * stride + width];
                one_tile(tile, left, from, to, [stride, height, width]);
            }
        }
    }
}

/// Writes one tile of the result, clipped to its height and width.
fn one_tile(
    tile: Tile,
    left: &[f32],
    right: &[f32],
    to: &mut [f32],
    [stride, height, width]: [usize; 3],
) {
    let multiply = match 2 * height <= tile.rows {
        true => tile.multiply_half,
        false => tile.multiply,
    };
    let (depth, register) = (left.len() / tile.rows, tile.cols / 2);
    assert!(right.len() == depth * tile.cols, "panels of different depths");
    let right = Place { at: right.as_ptr(), row: tile.cols, register };
    let scaling = Scaling { alpha: 1.0, add: false };
    let mut whole = [0.0; Tile::MOST];
    let (at, row) = match width == tile.cols {
        true => (to.as_mut_ptr(), stride),
        false => (whole.as_mut_ptr(), tile.cols),
    };
    assert!(height <= tile.rows && to.len() >= (height - 1) * stride + width, "tile out of bounds");
    let into = Output { place: Place { at, row, register }, height };
    // SAFETY: both panels have `depth` of every line; the result has `height` rows of a whole tile
    // at the stride, or goes to memory of its own, which the largest tile fits.
    unsafe { multiply(depth, left.as_ptr(), right, into, scaling) };
    if width < tile.cols {
        for (to, from) in to.chunks_mut(stride).zip(whole.chunks(tile.cols)).take(height) {
            to[..width].copy_from_slice(&from[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;

    /// The factor as every machine like this one may keep it.
    fn in_every_way(factor: Arg<'_, f32>) -> Vec<PackedRight> {
        let (depth, cols) = (factor.rows(), factor.cols());
        let all = [Kept::thirds(factor), Kept::panels(factor), Some(Kept::plain(factor))];
        all.into_iter().flatten().map(|kept| PackedRight { depth, cols, kept }).collect()
    }

    #[test]
    fn groups_of_columns_equal_the_naive_twin() {
        for (rows, groups, depth, cols) in
            [(1, 1, 1, 1), (14, 9, 16, 16), (10, 3, 128, 64), (29, 5, 48, 140), (33, 2, 300, 150)]
        {
            let (x, w) = (random(rows, groups * depth, 1), random(depth, cols, 2));
            let transposed = w.transpose();
            let from_transpose = in_every_way(Arg::Transposed(transposed.view()));
            for packed in in_every_way(w.view().into()).into_iter().chain(from_transpose) {
                let mut y: Mat<f32> = random(rows, groups * cols + 3, 3);
                let before = y.clone();
                packed.apply(groups, x.view(), y.view_mut().columns(1, groups * cols));
                for (i, j) in (0..rows).flat_map(|i| (0..y.cols()).map(move |j| (i, j))) {
                    let Some(place) = j.checked_sub(1).filter(|j| *j < groups * cols) else {
                        assert_eq!(y.at(i, j), before.at(i, j));
                        continue;
                    };
                    let (group, col) = (place / cols, place % cols);
                    let term = |k| x.at(i, group * depth + k) * w.at(k, col);
                    let want: f32 = (0..depth).map(term).sum();
                    assert!((y.at(i, j) - want).abs() < 1e-4, "{} is not {want}", y.at(i, j));
                }
            }
        }
    }

    #[test]
    fn bits_of_a_row_do_not_depend_on_the_rows_beside_it() {
        let (x, w): (Mat<f32>, Mat<f32>) = (random(43, 64, 1), random(64, 128, 2));
        let mut ways = in_every_way(w.view().into());
        // Machines with tiles have other products for few plain rows.
        ways.truncate((ways.len() - 1).max(1));
        for packed in ways {
            let mut all = Mat::zeros(43, 128);
            packed.apply(1, x.view(), all.view_mut());
            for row in 0..43 {
                let mut alone = Mat::zeros(1, 128);
                packed.apply(1, x.view().rows_range(row, 1), alone.view_mut());
                assert_eq!(alone.row(0), all.row(row));
            }
        }
    }
}
