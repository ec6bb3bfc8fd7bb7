//! Products of numbers in single precision with rows in double precision, summed in double.
//!
//! `y[i, q] += Σ_j x[i, j] w[q, j]` for x in `f32`, w and y in `f64`: few rows of `w` against many
//! of `x`, which are read once. A tile of few rows of both is in registers; a sum has eight lanes,
//! added up at the end, so its bits do not depend on the other rows.

use super::instructions::vectorised;
use crate::{MatMut, MatRef};

/// Lanes of a sum: a register of AVX-512.
const LANES: usize = 8;
/// Rows of a tile of several queries, and queries.
const SIDE: usize = 4;
/// Rows of a tile of one query: as many sums that do not wait for each other.
const TALL: usize = 8;

/// Adds the products of the rows of `x` (rows, depth) and `w` (queries, depth) to `y` (rows,
/// queries), on the calling thread.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn add_wide_products(x: MatRef<'_, f32>, w: MatRef<'_, f64>, y: MatMut<'_, f64>) {
    let found = (w.cols(), y.rows(), y.cols());
    assert_eq!(found, (x.cols(), x.rows(), w.rows()), "products of {} x {}", x.rows(), x.cols());
    tiles(x, w, y);
}

vectorised! {
    fn tiles<const FUSED: bool>(x: MatRef<'_, f32>, w: MatRef<'_, f64>, y: MatMut<'_, f64>) {
        let mut y = y;
        for query in (0..w.rows()).step_by(SIDE) {
            match w.rows() - query {
                1 => of_queries::<FUSED, TALL, 1>(x, w, query, &mut y),
                _ => of_queries::<FUSED, SIDE, SIDE>(x, w, query, &mut y),
            }
        }
    }
}

/// Adds the products with the queries from one on, up to the columns of a tile.
#[inline(always)]
fn of_queries<const FUSED: bool, const R: usize, const Q: usize>(
    x: MatRef<'_, f32>,
    w: MatRef<'_, f64>,
    query: usize,
    y: &mut MatMut<'_, f64>,
) {
    let count = Q.min(w.rows() - query);
    // A missing row is one that is there, whose result is not written.
    let queries = std::array::from_fn(|q| w.row(query + q.min(count - 1)));
    for first in (0..x.rows()).step_by(R) {
        let height = R.min(x.rows() - first);
        let rows = std::array::from_fn(|i| x.row(first + i.min(height - 1)));
        let sums = tile::<FUSED, R, Q>(rows, queries);
        for (i, sums) in sums.iter().enumerate().take(height) {
            let y = &mut y.row_mut(first + i)[query..query + count];
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum);
        }
    }
}

/// The products of some rows with some queries. Loops are counted by hand: with iterators the
/// compiler does not keep the sums in registers.
#[inline(always)]
fn tile<const FUSED: bool, const R: usize, const Q: usize>(
    x: [&[f32]; R],
    w: [&[f64]; Q],
) -> [[f64; Q]; R] {
    let depth = x[0].len();
    let whole = depth / LANES;
    let x_parts = x.map(|x| &x.as_chunks::<LANES>().0[..whole]);
    let w_parts = w.map(|w| &w.as_chunks::<LANES>().0[..whole]);
    let mut lanes = [[[0.0f64; LANES]; Q]; R];
    for at in 0..whole {
        let mut i = 0;
        while i < R {
            let wide = widened(&x_parts[i][at]);
            let mut q = 0;
            while q < Q {
                add_products::<FUSED>(&mut lanes[i][q], &wide, &w_parts[q][at]);
                q += 1;
            }
            i += 1;
        }
    }
    let mut sums = [[0.0; Q]; R];
    for i in 0..R {
        for q in 0..Q {
            let [a, b, c, d, e, f, g, h] = lanes[i][q];
            let mut sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
            for j in whole * LANES..depth {
                sum = multiply_add::<FUSED>(f64::from(x[i][j]), w[q][j], sum);
            }
            sums[i][q] = sum;
        }
    }
    sums
}

#[inline(always)]
fn widened(x: &[f32; LANES]) -> [f64; LANES] {
    let (mut wide, mut lane) = ([0.0; LANES], 0);
    while lane < LANES {
        wide[lane] = f64::from(x[lane]);
        lane += 1;
    }
    wide
}

#[inline(always)]
fn add_products<const FUSED: bool>(sums: &mut [f64; LANES], x: &[f64; LANES], w: &[f64; LANES]) {
    let mut lane = 0;
    while lane < LANES {
        sums[lane] = multiply_add::<FUSED>(x[lane], w[lane], sums[lane]);
        lane += 1;
    }
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, sum: f64) -> f64 {
    if FUSED { a.mul_add(b, sum) } else { sum + a * b }
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
            (3, 9, 100),
            (2, 1, 5),
            (0, 2, 3),
            (2, 2, 0),
        ] {
            let (x, w) = (draw(rows, depth, 1).cast::<f32>(), draw(queries, depth, 2));
            let mut y: Mat<f64> = draw(rows, queries + 3, 3);
            let before = y.clone();
            add_wide_products(x.view(), w.view(), y.view_mut().columns(2, queries));
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
        add_wide_products(x.view(), w.view(), all.view_mut());
        for (i, q) in (0..7).flat_map(|i| (0..5).map(move |q| (i, q))) {
            let mut one = Mat::zeros(1, 1);
            let (x, w) = (x.view().rows_range(i, 1), w.view().rows_range(q, 1));
            add_wide_products(x, w, one.view_mut());
            assert_eq!(one.at(0, 0), all.at(i, q));
        }
    }

    #[test]
    #[should_panic(expected = "products of 2 x 3")]
    fn other_depths_are_refused() {
        let (x, w) = (Mat::zeros(2, 3), Mat::zeros(1, 4));
        add_wide_products(x.view(), w.view(), Mat::zeros(2, 1).view_mut());
    }
}
