//! Transposition between rows of samples and columns of features, tile by tile.

use crate::{MatMut, MatRef, Scalar};

/// Side of a tile that is transposed in registers.
const TILE: usize = 8;

/// Number `b` of feature `k` becomes `columns[k * rows + b]`.
///
/// # Panics
/// If `columns` does not hold as many numbers as `x` (rows, features).
#[track_caller]
pub fn to_columns<T: Scalar>(x: MatRef<'_, T>, columns: &mut [T]) {
    let (rows, features) = (x.rows(), x.cols());
    assert_eq!(columns.len(), rows * features, "numbers of the columns");
    transpose((x.data(), x.stride()), (columns, rows), rows, features);
}

/// The inverse of [`to_columns`].
///
/// # Panics
/// If `columns` does not hold as many numbers as `y` (rows, features).
#[track_caller]
pub fn from_columns<T: Scalar>(columns: &[T], y: &mut MatMut<'_, T>) {
    let (rows, features, stride) = (y.rows(), y.cols(), y.stride());
    assert_eq!(columns.len(), rows * features, "numbers of the columns");
    transpose((columns, rows), (y.data_mut(), stride), features, rows);
}

/// Writes the transpose of `from` (rows, cols) to `to` (cols, rows), each with its row stride.
fn transpose<T: Scalar>(
    (from, from_stride): (&[T], usize),
    (to, to_stride): (&mut [T], usize),
    rows: usize,
    cols: usize,
) {
    let (whole_rows, whole_cols) = (rows - rows % TILE, cols - cols % TILE);
    for first in (0..whole_rows).step_by(TILE) {
        for col in (0..whole_cols).step_by(TILE) {
            let mut tile = [[T::ZERO; TILE]; TILE];
            for (row, line) in tile.iter_mut().enumerate() {
                line.copy_from_slice(&from[(first + row) * from_stride + col..][..TILE]);
            }
            for k in 0..TILE {
                let line: [T; TILE] = std::array::from_fn(|row| tile[row][k]);
                to[(col + k) * to_stride + first..][..TILE].copy_from_slice(&line);
            }
        }
        for col in whole_cols..cols {
            for row in first..first + TILE {
                to[col * to_stride + row] = from[row * from_stride + col];
            }
        }
    }
    for row in whole_rows..rows {
        for col in 0..cols {
            to[col * to_stride + row] = from[row * from_stride + col];
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
