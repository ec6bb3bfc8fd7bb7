//! Singular values without vectors, faster and more accurate than a decomposition in single
//! precision.
//!
//! For W (m, n) of `f32` with m >= n, the singular values are the square roots of the eigenvalues
//! of the Gram matrix `G = Wᵀ W` (n, n), of `W Wᵀ` for m < n. Products of two `f32` are exact in
//! `f64`, in which all sums run. `G` is reduced to a band (`symmetric/band.rs`), the band to a
//! tridiagonal matrix, and that to its eigenvalues (`symmetric/tridiagonal.rs`).
//!
//! Accuracy: the squares of singular values have an error of a small multiple of `ε s₁²`, ε =
//! 1.1e-16. A singular value s therefore has an error of `s₁² ε / s`, and at worst, near zero, of
//! `s₁ √ε`, about 1e-8 of the largest. On trained and random matrices up to 2048 rows the worst was
//! 4e-8; values below [`RESOLUTION`] of the largest are noise. A decomposition in `f32` has an
//! error of 1e-7 to 1e-6 of the largest everywhere.
//!
//! Cost: m n² multiply-adds for the Gram matrix (half of them are symmetric) and 2/3 n³ for the
//! band. Memory: n² numbers and a panel.
//!
//! Bits do not depend on the number of threads: blocks are fixed by the shape, and each is computed
//! by one thread.

use super::symmetric::BLOCK;
use super::{NoConvergence, eigenvalues};
use crate::kernels::gemm::{Arg, Write, product_on_this_thread};
use crate::{Mat, MatRef, parallel};

/// Share of the largest singular value below which [`singular_values`] does not distinguish a value
/// from zero.
pub const RESOLUTION: f64 = 1e-7;
/// Rows of a tall matrix, or columns of a wide one, that are converted to `f64` at a time.
const PANEL: usize = 512;

/// All singular values of a matrix, descending; min(rows, cols) of them.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
pub fn singular_values(a: MatRef<'_, f32>) -> Result<Vec<f64>, NoConvergence> {
    let squares = eigenvalues(gram(a, None))?;
    // A Gram matrix has no negative eigenvalues; those found are rounding errors.
    Ok(squares.into_iter().map(|square| square.max(0.0).sqrt()).collect())
}

/// `Wᵀ W` or `W Wᵀ`, whichever is smaller, in `f64`, with row i of W scaled by `row_scale[i]` if
/// given. Lower triangle; the strict upper triangle is unspecified.
///
/// # Panics
/// If `row_scale` has another length than `a` has rows.
#[must_use]
#[track_caller]
pub fn gram(a: MatRef<'_, f32>, row_scale: Option<&[f64]>) -> Mat<f64> {
    let (m, n) = (a.rows(), a.cols());
    let scale = |i: usize| row_scale.map_or(1.0, |scale| scale[i]);
    assert!(row_scale.is_none_or(|scale| scale.len() == m), "a scale for each of {m} rows");
    let side = m.min(n);
    let mut gram = Mat::zeros(side, side);
    if m >= n {
        let mut panel = Mat::zeros(PANEL.min(m), n);
        for start in (0..m).step_by(PANEL) {
            let count = PANEL.min(m - start);
            parallel::for_each_chunk(&mut panel.data_mut()[..count * n], n, |i, row| {
                widen(a.row(start + i), scale(start + i), row);
            });
            let panel = panel.view().rows_range(0, count);
            add_gram(&mut gram, |rows, cols| {
                let columns = |(from, to): (usize, usize)| panel.columns(from, to - from);
                (Arg::Transposed(columns(rows)), Arg::Plain(columns(cols)))
            });
        }
    } else {
        let mut panel = Mat::zeros(m, PANEL.min(n));
        for start in (0..n).step_by(PANEL) {
            let count = PANEL.min(n - start);
            panel.reset(m, count);
            parallel::for_each_chunk(panel.data_mut(), count, |i, row| {
                widen(&a.row(i)[start..start + count], scale(i), row);
            });
            let panel = panel.view();
            add_gram(&mut gram, |rows, cols| {
                let part = |(from, to): (usize, usize)| panel.rows_range(from, to - from);
                (Arg::Plain(part(rows)), Arg::Transposed(part(cols)))
            });
        }
    }
    gram
}

fn widen(from: &[f32], scale: f64, to: &mut [f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f64::from(*from) * scale;
    }
}

/// Adds to each block row, up to its diagonal block, the product of the factors that `factors`
/// returns for a range of rows and one of columns.
fn add_gram<'a>(
    gram: &mut Mat<f64>,
    factors: impl Fn((usize, usize), (usize, usize)) -> (Arg<'a, f64>, Arg<'a, f64>) + Sync,
) {
    let side = gram.rows();
    let blocks = gram.view_mut().row_blocks(BLOCK);
    // The longest first, so that the last work items are small.
    let blocks: Vec<_> = blocks.into_iter().enumerate().rev().collect();
    parallel::for_each(blocks, |_, (index, rows)| {
        let (start, end) = (index * BLOCK, side.min((index + 1) * BLOCK));
        let (a, b) = factors((start, end), (0, end));
        product_on_this_thread(1.0, a, b, rows.columns(0, end), Write::Add);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::linalg::svd;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    /// Largest difference to the decomposition in double precision, relative to the largest value.
    fn error(a: &Mat<f32>) -> f64 {
        let wide: Mat<f64> = a.cast();
        let exact = svd(wide.view()).unwrap().s;
        let found = singular_values(a.view()).unwrap();
        assert_eq!(found.len(), exact.len());
        assert!(found.is_sorted_by(|a, b| a >= b));
        let differences = found.iter().zip(&exact).map(|(f, e)| (f - e).abs());
        differences.fold(0.0, f64::max) / exact.first().copied().unwrap_or(1.0).max(1e-300)
    }

    #[test]
    fn they_equal_those_of_the_decomposition_at_every_shape() {
        let sides = [1, 2, 3, 5, 16, 17, 31, 32, 33, 34, 63, 64, 65, 66, 100, 129, 300];
        for (seed, &m) in (0..).zip(&sides) {
            for &n in &sides {
                let error = error(&random(m, n, seed));
                assert!(error < 1e-9 || m == n, "{m} x {n}: {error}");
                // The smallest value of a square matrix is small, and its square a difference.
                assert!(error < RESOLUTION / 4.0, "{m} x {n}: {error}");
            }
        }
    }

    #[test]
    fn panels_and_blocks_are_joined() {
        for (m, n) in [(1100, 290), (290, 1100), (520, 513)] {
            let error = error(&random(m, n, 3));
            assert!(error < RESOLUTION / 4.0, "{m} x {n}: {error}");
        }
    }

    #[test]
    fn a_matrix_of_low_rank_has_zeros_within_the_resolution() {
        let (u, v) = (random(90, 7, 1), random(7, 70, 2));
        let product = |i: usize, j: usize| (0..7).map(|k| u.at(i, k) * v.at(k, j)).sum();
        let a = Mat::from_fn(90, 70, product);
        let found = singular_values(a.view()).unwrap();
        assert!(found[6] > 0.1 * found[0]);
        assert!(found[7] < RESOLUTION * found[0], "{}", found[7] / found[0]);
    }

    #[test]
    fn numbers_whose_squares_underflow_change_nothing() {
        // Eigenvalues 1, 2, ..., with neighbours far too small to matter.
        for tiny in [1e-150, 1e-160, 1e-162, 1e-200, 1e-308] {
            let n = 80;
            let a = Mat::from_fn(n, n, |i, j| if i == j { (i + 1) as f64 } else { tiny });
            let found = eigenvalues(a).unwrap();
            for (k, value) in found.iter().enumerate() {
                assert!((value - (n - k) as f64).abs() < 1e-12, "{tiny:e}: {value}");
            }
        }
    }

    #[test]
    fn diagonal_and_extreme_matrices() {
        let a = Mat::from_fn(40, 40, |i, j| if i == j { (i + 1) as f32 } else { 0.0 });
        let found = singular_values(a.view()).unwrap();
        for (k, value) in found.iter().enumerate() {
            assert!((value - (40 - k) as f64).abs() < 1e-12, "{value}");
        }
        for size in [1e-40f32, 1e38] {
            let row = Mat::from_fn(1, 9, |_, _| size);
            let found = singular_values(row.view()).unwrap();
            assert!((found[0] / f64::from(size) - 3.0).abs() < 1e-12, "{found:?}");
        }
        assert_eq!(singular_values(Mat::zeros(3, 50).view()).unwrap(), [0.0; 3]);
        assert!(singular_values(Mat::zeros(0, 5).view()).unwrap().is_empty());
        assert!(singular_values(Mat::zeros(5, 0).view()).unwrap().is_empty());
        let mut bad = Mat::zeros(4, 3);
        *bad.at_mut(2, 1) = f32::NAN;
        assert_eq!(singular_values(bad.view()), Err(NoConvergence));
        *bad.at_mut(2, 1) = f32::INFINITY;
        assert_eq!(singular_values(bad.view()), Err(NoConvergence));
    }

    #[test]
    fn repeated_values_are_found_as_often_as_they_are_there() {
        // A block that is four times an orthogonal matrix, and one that is zero.
        let reflection =
            |n: usize, i: usize, j: usize| 4.0 * (if i == j { 1.0 } else { 0.0 } - 2.0 / n as f32);
        let a =
            Mat::from_fn(80, 80, |i, j| if i < 64 && j < 64 { reflection(64, i, j) } else { 0.0 });
        let found = singular_values(a.view()).unwrap();
        assert!(found[..64].iter().all(|value| (value - 4.0).abs() < 1e-6), "{found:?}");
        assert!(found[64..].iter().all(|&value| value < 4.0 * RESOLUTION), "{found:?}");
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        for (m, n) in [(700, 530), (300, 900)] {
            let a = random(m, n, 5);
            let with = |threads| {
                parallel::with_threads(threads, || singular_values(a.view()).unwrap()).unwrap()
            };
            assert_eq!(with(1), with(3), "{m} x {n}");
        }
    }

    #[test]
    fn rows_are_scaled_on_either_side() {
        for (m, n) in [(20, 9), (9, 20)] {
            let a = random(m, n, 6);
            let scale: Vec<f64> = (0..m).map(|i| 0.5 + i as f64).collect();
            let scaled = Mat::from_fn(m, n, |i, j| f64::from(a.at(i, j)) * scale[i]);
            let exact = svd(scaled.view()).unwrap().s;
            let found = eigenvalues(gram(a.view(), Some(&scale))).unwrap();
            for (f, e) in found.iter().zip(&exact) {
                assert!((f.sqrt() - e).abs() < 1e-7 * exact[0], "{f} {e}");
            }
        }
    }
}
