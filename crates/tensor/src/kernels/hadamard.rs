//! The Walsh-Hadamard transform `H`, `H[i, j] = (-1)^popcount(i & j)`, without a scale.
//!
//! `H` is symmetric and `H H = size · 1`, so the transform is its own gradient and, divided by the
//! size, its own inverse.

use crate::{MatMut, Scalar, parallel};

/// Transforms every row in place.
///
/// # Panics
/// If the number of columns is not a power of two.
#[track_caller]
pub fn rows<T: Scalar>(x: MatMut<'_, T>) {
    assert!(x.cols().is_power_of_two(), "{} columns", x.cols());
    parallel::for_each(x.row_blocks(parallel::ROW_BLOCK), |_, mut block| {
        for i in 0..block.rows() {
            columns(block.row_mut(i), 1);
        }
    });
}

/// Transforms `width` interleaved vectors in place: number `k` of vector `b` is
/// `data[k * width + b]`.
///
/// # Panics
/// If the vectors' length is not a power of two.
#[track_caller]
pub fn columns<T: Scalar>(data: &mut [T], width: usize) {
    if data.is_empty() {
        return;
    }
    let size = data.len() / width;
    assert!(
        size.is_power_of_two() && size * width == data.len(),
        "vectors of length {size} in {} numbers",
        data.len()
    );
    let mut half = width;
    while half < data.len() {
        for pair in data.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn agrees_with_the_definition_for_rows_and_for_interleaved_vectors() {
        let mut stream = RngKey::new(3).stream();
        for size in [1usize, 2, 8, 32] {
            let x: Mat<f64> = Mat::from_fn(5, size, |_, _| stream.normal());
            let want = Mat::from_fn(5, size, |r, i| {
                let sign = |j: usize| {
                    if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
                };
                (0..size).map(|j| sign(j) * x.at(r, j)).sum::<f64>()
            });
            let (mut by_rows, mut by_columns) = (x.clone(), x.transpose());
            rows(by_rows.view_mut());
            columns(by_columns.data_mut(), 5);
            for (k, want) in want.data().iter().enumerate() {
                assert!((by_rows.data()[k] - want).abs() < 1e-12);
                assert!((by_columns.transpose().data()[k] - want).abs() < 1e-12);
            }
        }
    }
}
