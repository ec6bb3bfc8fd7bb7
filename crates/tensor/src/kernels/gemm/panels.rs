//! Products of one packed small matrix with many columns that are stored in runs.
#![allow(
    unsafe_code,
    reason = "tiles read and write through raw pointers; bounds are checked here"
)]

use super::blocks::lines_of_left;
use super::tile::{Output, Place, Scaling, Tile};
use super::{Arg, Destination, Write};

/// A matrix as a left factor, packed for the tiles of this machine.
#[derive(Clone, Debug)]
pub(in crate::kernels) struct Panels {
    tile: Tile,
    rows: usize,
    depth: usize,
    data: Vec<f32>,
}

/// Layout of the columns of a right factor and of a result: `groups` runs of `run` numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Columns {
    pub groups: usize,
    pub run: usize,
    /// Stride from one run to the next.
    pub group: usize,
    /// Stride from one row to the next.
    pub row: usize,
}

impl Columns {
    /// Whether every pair of registers of `lanes` numbers lies within one run.
    pub(super) fn fit(self, lanes: usize) -> bool {
        self.run.is_multiple_of(2 * lanes) || (self.run == lanes && self.groups.is_multiple_of(2))
    }

    /// End of the last number of this many rows.
    pub(super) fn end(self, rows: usize) -> usize {
        self.groups.saturating_sub(1) * self.group + rows.max(1) * self.row - self.row + self.run
    }

    /// Start and distance of the pairs of registers of a row.
    pub(super) fn pairs(self, lanes: usize) -> (impl Iterator<Item = usize>, usize) {
        let Self { groups, run, group, .. } = self;
        let (of_run, along, register) =
            if run == lanes { (1, 2 * group, group) } else { (run / (2 * lanes), group, lanes) };
        let start = move |pair| pair / of_run * along + pair % of_run * 2 * lanes;
        ((0..groups * run / (2 * lanes)).map(start), register)
    }
}

impl Panels {
    /// `None` on machines without tiles.
    pub(in crate::kernels) fn new(matrix: Arg<'_, f32>) -> Option<Self> {
        Tile::for_rows(matrix.rows()).map(|tile| Self::of_tile(tile, matrix))
    }

    fn of_tile(tile: Tile, matrix: Arg<'_, f32>) -> Self {
        let (rows, depth) = (matrix.rows(), matrix.cols());
        let mut data = vec![0.0; rows.next_multiple_of(tile.rows) * depth];
        pack(tile, matrix, &mut data);
        Self { tile, rows, depth, data }
    }

    /// Whether [`Self::apply`] supports these columns.
    pub(in crate::kernels) fn fit(&self, columns: Columns) -> bool {
        columns.fit(self.tile.cols / 2)
    }

    /// `y = scale M x` or `y += scale M x` for the columns of `x` and `y`, which have the same
    /// layout.
    ///
    /// # Panics
    /// If the columns do not fit, or reach beyond `x` or `y`.
    pub(in crate::kernels) fn apply(&self, columns: Columns, x: &[f32], to: Destination<'_, f32>) {
        let Self { tile, rows, depth, data } = self;
        PanelsRef { tile: *tile, rows: *rows, depth: *depth, pitch: *depth, data }
            .apply(columns, x, to);
    }
}

/// [`Panels`] in memory of the caller.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct PanelsRef<'a> {
    tile: Tile,
    rows: usize,
    depth: usize,
    /// Depth that a panel is packed for, at least `depth`.
    pitch: usize,
    data: &'a [f32],
}

impl<'a> PanelsRef<'a> {
    /// Length of a packed matrix of this shape; none on machines without tiles.
    pub(in crate::kernels) fn numbers(rows: usize, depth: usize) -> usize {
        Tile::for_rows(rows).map_or(0, |tile| rows.next_multiple_of(tile.rows) * depth)
    }

    /// Packs a matrix into the start of this memory; `None` on machines without tiles.
    ///
    /// # Panics
    /// If there are fewer than [`Self::numbers`].
    pub(in crate::kernels) fn pack(matrix: Arg<'_, f32>, data: &'a mut [f32]) -> Option<Self> {
        let (rows, depth) = (matrix.rows(), matrix.cols());
        let tile = Tile::for_rows(rows)?;
        let (data, _) = data.split_at_mut(rows.next_multiple_of(tile.rows) * depth);
        pack(tile, matrix, data);
        Some(Self { tile, rows, depth, pitch: depth, data })
    }

    /// The leading rows and the leading part of their depth.
    ///
    /// # Panics
    /// If there are fewer.
    pub(in crate::kernels) fn corner(self, rows: usize, depth: usize) -> Self {
        assert!(rows <= self.rows && depth <= self.depth, "a corner larger than the matrix");
        Self { rows, depth, ..self }
    }

    /// As [`Panels::apply`].
    pub(in crate::kernels) fn apply(self, columns: Columns, x: &[f32], to: Destination<'_, f32>) {
        let Destination { y, scale, write } = to;
        let Self { tile, rows, depth, pitch, data } = self;
        assert!(columns.fit(tile.cols / 2), "{columns:?} in tiles of {} columns", tile.cols);
        assert!(x.len() >= columns.end(depth), "columns out of bounds");
        assert!(y.len() >= columns.end(rows), "columns out of bounds");
        let row = columns.row;
        let scaling = Scaling { alpha: scale, add: write == Write::Add };
        let (pairs, register) = columns.pairs(tile.cols / 2);
        for start in pairs {
            let panels = data.chunks_exact(tile.rows * pitch);
            for (first, panel) in (0..rows).step_by(tile.rows).zip(panels) {
                let height = tile.rows.min(rows - first);
                // SAFETY: `start` is that of two registers in each row of `x` and `y`, whose last
                // numbers the assertions above found within bounds; the panel is whole, and holds
                // no fewer numbers of each line than `depth`.
                unsafe {
                    let from = Place { at: x.as_ptr().add(start), row, register };
                    let at = y.as_mut_ptr().add(start + first * row);
                    let into = Place { at, row, register };
                    (tile.multiply)(
                        depth,
                        panel.as_ptr(),
                        from,
                        Output { place: into, height },
                        scaling,
                    );
                }
            }
        }
    }
}

/// Packs a matrix as panels of the tile's height.
fn pack(tile: Tile, matrix: Arg<'_, f32>, data: &mut [f32]) {
    let (rows, depth) = (matrix.rows(), matrix.cols());
    assert!(rows * depth > 0, "an empty matrix");
    matrix.check();
    let lines = lines_of_left(matrix);
    for (first, panel) in (0..rows).step_by(tile.rows).zip(data.chunks_exact_mut(tile.rows * depth))
    {
        // SAFETY: the tile is one of this machine's.
        unsafe {
            (tile.pack_left)(lines.skip(first, 0), tile.rows.min(rows - first), depth, panel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::Mat;

    #[test]
    fn columns_in_runs_equal_the_naive_twin() {
        for tile in Tile::all() {
            for (rows, depth) in [(64, 64), (8, 8), (32, 20), (5, 3), (128, 64)] {
                let matrix: Mat<f32> = random(rows, depth, 1);
                let panels = Panels::of_tile(tile, matrix.view().into());
                for (groups, run) in [(1, 64), (3, 32), (4, tile.cols / 2), (2, tile.cols / 2)] {
                    in_runs(&panels, &matrix, groups, run);
                }
            }
        }
    }

    /// Compares with the definition, for `groups` runs one below the other.
    fn in_runs(panels: &Panels, matrix: &Mat<f32>, groups: usize, run: usize) {
        let (rows, depth) = (matrix.rows(), matrix.cols());
        let height = rows.max(depth);
        let columns = Columns { groups, run, group: height * run, row: run };
        let x: Mat<f32> = random(groups * height, run, 2);
        let before: Mat<f32> = random(groups * height, run, 3);
        let mut y = before.clone();
        let to = Destination { y: y.data_mut(), scale: 2.0, write: Write::Add };
        panels.apply(columns, x.data(), to);
        for (g, i, b) in (0..groups * rows * run).map(|k| (k / run / rows, k / run % rows, k % run))
        {
            let term = |k| matrix.at(i, k) * x.at(g * height + k, b);
            let sum: f32 = (0..depth).map(term).sum();
            let want = before.at(g * height + i, b) + 2.0 * sum;
            let found = y.at(g * height + i, b);
            assert!((found - want).abs() < 1e-3, "{found} is not {want}");
        }
    }

    #[test]
    fn columns_that_no_pair_of_registers_fills_do_not_fit() {
        for tile in Tile::all() {
            let matrix: Mat<f32> = random(8, 8, 1);
            let panels = Panels::of_tile(tile, matrix.view().into());
            let half = tile.cols / 2;
            for (groups, run, fit) in
                [(3, half, false), (2, half, true), (2, 3 * half, false), (2, half - 1, false)]
            {
                assert_eq!(panels.fit(Columns { groups, run, group: 8 * run, row: run }), fit);
            }
        }
    }

    #[test]
    fn a_packed_matrix_may_be_transposed() {
        let matrix: Mat<f32> = random(24, 40, 1);
        let whole = matrix.transpose();
        for tile in Tile::all() {
            let panels = |arg| Panels::of_tile(tile, arg).data;
            assert_eq!(panels(Arg::Transposed(matrix.view())), panels(whole.view().into()));
        }
    }
}
