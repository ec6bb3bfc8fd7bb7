//! Products with a diagonal matrix: every feature times its own number.

use super::instructions::vectorised;
use crate::{MatMut, MatRef, Scalar, parallel};

/// Adds `x[:, k] d[k]` to `y[:, k]` for every k of the diagonal; `x` and `y` may have more columns.
///
/// # Panics
/// If the rows differ, or a matrix has fewer columns than the diagonal numbers.
#[track_caller]
pub fn add_scaled<T: Scalar>(x: MatRef<'_, T>, d: &[T], y: MatMut<'_, T>) {
    assert_eq!(x.rows(), y.rows(), "rows of a product with a diagonal");
    let y = y.columns(0, d.len());
    let x = x.columns(0, d.len());
    let block = parallel::ROW_BLOCK;
    parallel::for_each(y.row_blocks(block), |k, mut y| {
        for i in 0..y.rows() {
            add_products(x.row(k * block + i), d, y.row_mut(i));
        }
    });
}

/// Adds the gradient of the diagonal, `Σ dy[:, k] x[:, k]` over rows, to `grad[k]`.
///
/// # Panics
/// As [`add_scaled`].
#[track_caller]
pub fn add_gradient<T: Scalar>(dy: MatRef<'_, T>, x: MatRef<'_, T>, grad: &mut [T]) {
    assert_eq!(x.rows(), dy.rows(), "rows of the gradient of a diagonal");
    let (x, dy) = (x.columns(0, grad.len()), dy.columns(0, grad.len()));
    let block = 4 * parallel::ROW_BLOCK;
    let starts = (0..x.rows()).step_by(block).collect();
    let parts = parallel::map(starts, |_, start| {
        let mut sums = vec![T::ZERO; x.cols()];
        for i in start..x.rows().min(start + block) {
            add_products(x.row(i), dy.row(i), &mut sums);
        }
        sums
    });
    for part in parts {
        grad.iter_mut().zip(part).for_each(|(g, p)| *g += p);
    }
}

vectorised! {
    /// `c[k] += a[k] b[k]`.
    fn add_products<const FUSED: bool, T: Scalar>(a: &[T], b: &[T], c: &mut [T]) {
        for ((&a, &b), c) in a.iter().zip(b).zip(c) {
            *c = if FUSED { a.mul_add(b, *c) } else { a * b + *c };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn products_and_gradients_equal_their_naive_twins() {
        for (rows, out, inp) in [(0, 3, 2), (1, 1, 1), (300, 5, 21), (70, 19, 17)] {
            let draw = |rows, cols, seed| -> Mat<f64> {
                Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
            };
            let (x, y, d) = (draw(rows, inp, 1), draw(rows, out, 2), draw(1, out.min(inp), 3));
            let mut found = y.clone();
            add_scaled(x.view(), d.data(), found.view_mut());
            for i in 0..rows {
                for j in 0..out {
                    let scaled = if j < d.cols() { x.at(i, j) * d.at(0, j) } else { 0.0 };
                    assert!((found.at(i, j) - y.at(i, j) - scaled).abs() < 1e-12);
                }
            }
            let mut grad = vec![1.0; d.cols()];
            add_gradient(y.view(), x.view(), &mut grad);
            for (k, grad) in grad.into_iter().enumerate() {
                let expected: f64 = (0..rows).map(|i| y.at(i, k) * x.at(i, k)).sum();
                assert!((grad - 1.0 - expected).abs() < 1e-10);
            }
        }
    }
}
