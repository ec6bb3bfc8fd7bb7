//! Transposition between rows of samples and columns of features, tile by tile.

#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

use super::instructions::{Instructions, vectorised};
use crate::{MatMut, MatRef, Scalar};
use std::any::TypeId;

/// Side of a tile for types without a vector path: a cache line of `f64`.
const TILE: usize = 8;

/// Feature `k` of sample `b` becomes `columns[k * width + b]`, where `width` is at least the number
/// of rows of `x` (rows, features); the remaining entries are unchanged.
///
/// # Panics
/// If `columns` does not hold `width` numbers of each feature, or `width` is less than the rows.
#[track_caller]
pub fn to_columns<T: Scalar>(x: MatRef<'_, T>, width: usize, columns: &mut [T]) {
    assert_eq!(columns.len(), width * x.cols(), "numbers of the columns");
    assert!(width >= x.rows(), "{} rows in columns of {width}", x.rows());
    transpose(x.data(), x.stride(), columns, width, x.rows(), x.cols());
}

/// The inverse of [`to_columns`].
///
/// # Panics
/// As [`to_columns`].
#[track_caller]
pub fn from_columns<T: Scalar>(columns: &[T], width: usize, y: &mut MatMut<'_, T>) {
    let (rows, features, stride) = (y.rows(), y.cols(), y.stride());
    assert_eq!(columns.len(), width * features, "numbers of the columns");
    assert!(width >= rows, "{rows} rows in columns of {width}");
    transpose(columns, width, y.data_mut(), stride, features, rows);
}

/// Writes the transpose of `from` (rows, cols) to `to` (cols, rows), each with its row stride.
#[allow(unsafe_code, reason = "instructions are used where they are found")]
fn transpose<T: Scalar>(
    from: &[T],
    from_stride: usize,
    to: &mut [T],
    to_stride: usize,
    rows: usize,
    cols: usize,
) {
    if TypeId::of::<T>() == TypeId::of::<f32>() && Instructions::here() > Instructions::Common {
        let (from, to) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
        // SAFETY: this machine has the instructions.
        return unsafe { in_registers(from, from_stride, to, to_stride, rows, cols) };
    }
    in_tiles(from, from_stride, to, to_stride, rows, cols);
}

vectorised! {
    /// [`transpose`] in squares whose sides are constants.
    fn in_tiles<const FUSED: bool, T: Scalar>(
        from: &[T],
        from_stride: usize,
        to: &mut [T],
        to_stride: usize,
        rows: usize,
        cols: usize,
    ) {
        let [whole_rows, whole_cols] = [rows, cols].map(|count| count - count % TILE);
        let mut tile = [[T::ZERO; TILE]; TILE];
        for col in (0..whole_cols).step_by(TILE) {
            for row in (0..whole_rows).step_by(TILE) {
                for (k, line) in tile.iter_mut().enumerate() {
                    line.copy_from_slice(&from[(row + k) * from_stride + col..][..TILE]);
                }
                for k in 0..TILE {
                    let line = &mut to[(col + k) * to_stride + row..][..TILE];
                    for (number, row) in line.iter_mut().zip(&tile) {
                        *number = row[k];
                    }
                }
            }
        }
        for col in 0..cols {
            let first = if col < whole_cols { whole_rows } else { 0 };
            for row in first..rows {
                to[col * to_stride + row] = from[row * from_stride + col];
            }
        }
    }
}

/// [`transpose`] in registers.
///
/// # Safety
/// This machine has more than [`Instructions::Common`].
#[allow(unsafe_code, reason = "the caller has found the instructions")]
unsafe fn in_registers(
    from: &[f32],
    from_stride: usize,
    to: &mut [f32],
    to_stride: usize,
    rows: usize,
    cols: usize,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract.
    unsafe {
        x86::transpose(from, from_stride, to, to_stride, rows, cols);
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!(
        "{from:?} {from_stride} {to:?} {to_stride} {rows} {cols}: this architecture has no other \
         instructions"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mat;

    #[test]
    fn columns_are_the_transpose_and_come_back() {
        for (rows, features) in
            [(3, 21), (16, 8), (19, 24), (8, 5), (1, 1), (16, 37), (32, 64), (19, 50)]
        {
            for width in [rows, rows + 3] {
                columns_and_back::<f64>(rows, features, width);
                columns_and_back::<f32>(rows, features, width);
            }
        }
    }

    fn columns_and_back<T: Scalar>(rows: usize, features: usize, width: usize) {
        let x: Mat<T> = Mat::from_fn(rows, features, |i, j| T::from_f64((100 * i + j) as f64));
        let mut columns = vec![T::ONE; width * features];
        to_columns(x.view(), width, &mut columns);
        let expected =
            |k: usize| if k % width < rows { x.at(k % width, k / width) } else { T::ONE };
        assert!(columns.iter().enumerate().all(|(k, &number)| number == expected(k)));
        let mut y = Mat::zeros(rows, features);
        from_columns(&columns, width, &mut y.view_mut());
        assert_eq!(x, y);
    }
}
