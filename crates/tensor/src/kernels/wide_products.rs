//! Products of numbers in single precision with rows in double precision, summed in double.
//!
//! `y[i, q] += Σ_j x[i, j] w[q, j]` for x in `f32`, w and y in `f64`: few rows of `w`, which are
//! packed once, against many of `x`, which are read once. Panels of columns stay in the nearest
//! cache, and in each a tile of few rows of both in registers. A sum has eight lanes, added up at
//! the end, so its bits do not depend on the other rows.

#[cfg(target_arch = "x86_64")]
use super::instructions::Instructions;
use super::instructions::vectorised;
use crate::{MatMut, MatRef};

/// Lanes of a sum: a register of AVX-512.
const LANES: usize = 8;
/// Columns of a panel, in lanes: those of eight rows of `w` are a third of the nearest cache.
const PANEL: usize = 32;
/// Rows of `x` whose sums are kept from panel to panel: a multiple of the heights of tiles.
const ROWS: usize = 12;
/// Most rows of `w` of a tile.
const WIDE: usize = 8;

/// Eight numbers of a row.
type Lanes = [f64; LANES];
/// Sums of rows of `x` with rows of `w`, by lanes.
type Sums = [[Lanes; WIDE]; ROWS];

/// Rows in double precision, packed for products with many rows in single precision.
#[derive(Clone, Debug)]
pub struct WideRows {
    count: usize,
    depth: usize,
    groups: Vec<Group>,
}

/// Some rows, in interleaved groups of eight numbers; zeros fill the last eight.
#[derive(Clone, Debug)]
struct Group {
    first: usize,
    count: usize,
    /// Rows of `x` and of `w` in a tile.
    tile: [usize; 2],
    numbers: Vec<Lanes>,
}

impl WideRows {
    /// Packs rows (count, depth).
    #[must_use]
    pub fn new(w: MatRef<'_, f64>) -> Self {
        let (mut first, mut groups) = (0, Vec::new());
        while first < w.rows() {
            let tile = tile_for(w.rows() - first);
            let count = tile[1].min(w.rows() - first);
            let mut numbers = vec![[0.0; LANES]; w.cols().div_ceil(LANES) * tile[1]];
            for q in 0..count {
                let to = numbers.iter_mut().skip(q).step_by(tile[1]);
                for (from, to) in w.row(first + q).chunks(LANES).zip(to) {
                    to[..from.len()].copy_from_slice(from);
                }
            }
            groups.push(Group { first, count, tile, numbers });
            first += count;
        }
        Self { count: w.rows(), depth: w.cols(), groups }
    }

    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the products of the rows of `x` (rows, depth) with these to `y` (rows, count), on the
    /// calling thread. `ahead` is the distance from each number of `x` to the one that will be read
    /// next, which is prefetched.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn add_products(&self, x: MatRef<'_, f32>, y: MatMut<'_, f64>, ahead: usize) {
        let found = (self.depth, y.rows(), y.cols());
        let expected = (x.cols(), x.rows(), self.count);
        assert_eq!(found, expected, "products of {} x {}", x.rows(), x.cols());
        add_all(self, x, y, ahead);
    }
}

/// Rows of `x` and of `w` of a tile, for this number of rows of `w`: sums, and numbers of `w`, stay
/// in 32 registers of all lanes, or sums in sixteen shorter ones.
fn tile_for(rows: usize) -> [usize; 2] {
    #[cfg(target_arch = "x86_64")]
    if Instructions::here() == Instructions::Avx512 {
        return match rows {
            1 => [12, 1],
            2 => [6, 2],
            3..=6 => [6, 4],
            _ => [2, 8],
        };
    }
    if rows == 1 { [4, 1] } else { [1, 4] }
}

vectorised! {
    fn add_all<const FUSED: bool>(
        of: &WideRows,
        x: MatRef<'_, f32>,
        y: MatMut<'_, f64>,
        ahead: usize,
    ) {
        let mut y = y;
        for group in &of.groups {
            // The next numbers are prefetched once.
            let ahead = if group.first == 0 { ahead } else { 0 };
            match group.tile {
                [12, 1] => group.add::<FUSED, 12, 1>(x, &mut y, ahead),
                [6, 2] => group.add::<FUSED, 6, 2>(x, &mut y, ahead),
                [6, 4] => group.add::<FUSED, 6, 4>(x, &mut y, ahead),
                [2, 8] => group.add::<FUSED, 2, 8>(x, &mut y, ahead),
                [4, 1] => group.add::<FUSED, 4, 1>(x, &mut y, ahead),
                _ => group.add::<FUSED, 1, 4>(x, &mut y, ahead),
            }
        }
    }
}

impl Group {
    #[inline(always)]
    fn add<const FUSED: bool, const R: usize, const Q: usize>(
        &self,
        x: MatRef<'_, f32>,
        y: &mut MatMut<'_, f64>,
        ahead: usize,
    ) {
        let w = self.numbers.as_chunks::<Q>().0;
        let whole = x.cols() / LANES;
        for first in (0..x.rows()).step_by(ROWS) {
            let height = ROWS.min(x.rows() - first);
            let mut sums: Sums = [[[0.0; LANES]; WIDE]; ROWS];
            for start in (0..whole).step_by(PANEL) {
                let panel = start..whole.min(start + PANEL);
                for row in (0..height).step_by(R) {
                    // A missing row repeats an existing one; its sums are not used.
                    let mut rows: [&[[f32; LANES]]; R] = [&[]; R];
                    for (i, to) in rows.iter_mut().enumerate() {
                        let numbers = x.row(first + (row + i).min(height - 1));
                        *to = &numbers.as_chunks::<LANES>().0[panel.clone()];
                    }
                    tile::<FUSED, R, Q>(rows, &w[panel.clone()], &mut sums[row..], ahead);
                }
            }
            for (i, sums) in sums.iter_mut().enumerate().take(height) {
                if whole < w.len() {
                    let rest = &x.row(first + i)[whole * LANES..];
                    let mut last = [0.0; LANES];
                    last[..rest.len()].copy_from_slice(rest);
                    tile::<FUSED, 1, Q>([&[last]], &w[whole..], std::slice::from_mut(sums), 0);
                }
                let y = &mut y.row_mut(first + i)[self.first..self.first + self.count];
                for (y, [a, b, c, d, e, f, g, h]) in y.iter_mut().zip(sums.iter()) {
                    *y += ((a + b) + (c + d)) + ((e + f) + (g + h));
                }
            }
        }
    }
}

/// Adds the products of a panel of some rows with some rows of `w`. Loops are counted by hand: with
/// iterators the compiler does not keep the sums in registers.
#[inline(always)]
fn tile<const FUSED: bool, const R: usize, const Q: usize>(
    x: [&[[f32; LANES]]; R],
    w: &[[Lanes; Q]],
    sums: &mut [[Lanes; WIDE]],
    ahead: usize,
) {
    let mut lanes = [[[0.0f64; LANES]; Q]; R];
    for i in 0..R {
        lanes[i].copy_from_slice(&sums[i][..Q]);
    }
    for (at, w) in w.iter().enumerate() {
        let mut i = 0;
        while i < R {
            if ahead > 0 && at % 2 == 0 {
                fetch(x[i][at].as_ptr().wrapping_add(ahead));
            }
            let wide = widened(&x[i][at]);
            let mut q = 0;
            while q < Q {
                add_products::<FUSED>(&mut lanes[i][q], &wide, &w[q]);
                q += 1;
            }
            i += 1;
        }
    }
    for i in 0..R {
        sums[i][..Q].copy_from_slice(&lanes[i]);
    }
}

/// Fetches a line into the second-level cache.
#[inline(always)]
#[allow(unsafe_code, reason = "an address that is only fetched need not exist")]
fn fetch(place: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: fetching reads nothing, so that any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[inline(always)]
fn widened(x: &[f32; LANES]) -> Lanes {
    let (mut wide, mut lane) = ([0.0; LANES], 0);
    while lane < LANES {
        wide[lane] = f64::from(x[lane]);
        lane += 1;
    }
    wide
}

#[inline(always)]
fn add_products<const FUSED: bool>(sums: &mut Lanes, x: &Lanes, w: &Lanes) {
    let mut lane = 0;
    while lane < LANES {
        sums[lane] = if FUSED {
            x[lane].mul_add(w[lane], sums[lane])
        } else {
            sums[lane] + x[lane] * w[lane]
        };
        lane += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    fn draw(rows: usize, cols: usize, seed: u64) -> Mat<f64> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    #[test]
    fn products_equal_their_naive_twin() {
        for (rows, queries, depth) in [
            (1, 1, 1),
            (4, 4, 8),
            (5, 3, 17),
            (9, 6, 64),
            (13, 7, 300),
            (25, 2, 264),
            (12, 17, 33),
            (3, 9, 100),
            (2, 1, 5),
            (0, 2, 3),
            (2, 2, 0),
        ] {
            let (x, w) = (draw(rows, depth, 1).cast::<f32>(), draw(queries, depth, 2));
            let mut y: Mat<f64> = draw(rows, queries + 3, 3);
            let before = y.clone();
            WideRows::new(w.view()).add_products(x.view(), y.view_mut().columns(2, queries), rows);
            for (i, j) in (0..rows).flat_map(|i| (0..queries + 3).map(move |j| (i, j))) {
                let Some(q) = j.checked_sub(2).filter(|q| *q < queries) else {
                    assert_eq!(y.at(i, j), before.at(i, j), "beside the result");
                    continue;
                };
                let sum: f64 = (0..depth).map(|k| f64::from(x.at(i, k)) * w.at(q, k)).sum();
                let want = before.at(i, j) + sum;
                assert!((y.at(i, j) - want).abs() < 1e-12, "({i}, {q}) of {rows} x {depth}");
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_other_rows() {
        let (x, w) = (draw(7, 77, 1).cast::<f32>(), draw(5, 77, 2));
        let mut all = Mat::zeros(7, 5);
        WideRows::new(w.view()).add_products(x.view(), all.view_mut(), 0);
        for (i, q) in (0..7).flat_map(|i| (0..5).map(move |q| (i, q))) {
            let mut one = Mat::zeros(1, 1);
            let (x, w) = (x.view().rows_range(i, 1), w.view().rows_range(q, 1));
            WideRows::new(w).add_products(x, one.view_mut(), 0);
            assert_eq!(one.at(0, 0), all.at(i, q));
        }
    }

    #[test]
    #[should_panic(expected = "products of 2 x 3")]
    fn other_depths_are_refused() {
        let (x, w) = (Mat::zeros(2, 3), Mat::zeros(1, 4));
        WideRows::new(w.view()).add_products(x.view(), Mat::zeros(2, 1).view_mut(), 0);
    }
}
