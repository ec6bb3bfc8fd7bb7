//! Transposition between rows of samples and columns of features, tile by tile.

use crate::{MatMut, MatRef, Scalar};

/// Side of a tile: a cache line of `f32`.
const TILE: usize = 16;

/// Number `b` of feature `k` becomes `columns[k * rows + b]`.
///
/// # Panics
/// If `columns` does not hold as many numbers as `x` (rows, features).
#[track_caller]
pub fn to_columns<T: Scalar>(x: MatRef<'_, T>, columns: &mut [T]) {
    let (rows, features) = (x.rows(), x.cols());
    assert_eq!(columns.len(), rows * features, "numbers of the columns");
    for first in (0..features).step_by(TILE) {
        let last = features.min(first + TILE);
        // Consecutive writes; the lines that are read are few enough to stay in cache.
        for k in first..last {
            for (b, value) in columns[k * rows..][..rows].iter_mut().enumerate() {
                *value = x.at(b, k);
            }
        }
    }
}

/// The inverse of [`to_columns`].
///
/// # Panics
/// If `columns` does not hold as many numbers as `y` (rows, features).
#[track_caller]
pub fn from_columns<T: Scalar>(columns: &[T], y: &mut MatMut<'_, T>) {
    let (rows, features) = (y.rows(), y.cols());
    assert_eq!(columns.len(), rows * features, "numbers of the columns");
    for first in (0..features).step_by(TILE) {
        let last = features.min(first + TILE);
        for b in 0..rows {
            for (k, value) in (first..last).zip(&mut y.row_mut(b)[first..last]) {
                *value = columns[k * rows + b];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mat;

    #[test]
    fn columns_are_the_transpose_and_come_back() {
        for (rows, features) in [(3, 21), (16, 8), (19, 24), (8, 5), (1, 1)] {
            let x: Mat<f64> = Mat::from_fn(rows, features, |i, j| (100 * i + j) as f64);
            let mut columns = vec![0.0; rows * features];
            to_columns(x.view(), &mut columns);
            assert_eq!(columns, x.transpose().data());
            let mut y = Mat::zeros(rows, features);
            from_columns(&columns, &mut y.view_mut());
            assert_eq!(x, y);
        }
    }
}
