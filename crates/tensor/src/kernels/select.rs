//! Some columns of a matrix.
//!
//! `y[i, j] = x[i, columns[j]]`. The column after the last one is that of a bias: it is 1 in every
//! row.

use super::instructions::vectorised;
use crate::{MatMut, MatRef, parallel};

/// Writes some columns of `x` (rows, inp) to `y` (rows, `columns.len()`), in the order given and as
/// often as they occur. Column `inp` is 1 in every row.
///
/// # Panics
/// If the shapes do not match, or a column is larger than `inp`.
#[track_caller]
pub fn select_columns(x: MatRef<'_, f32>, columns: &[u32], y: MatMut<'_, f32>) {
    let ones = check(x, columns, &y);
    parallel::for_each(y.row_blocks(parallel::ROW_BLOCK), |block, y| {
        let rows = y.rows();
        select(x.rows_range(block * parallel::ROW_BLOCK, rows), columns, &ones, y);
    });
}

/// [`select_columns`] for callers that are themselves parallel work items.
///
/// # Panics
/// As [`select_columns`].
#[track_caller]
pub fn select_columns_on_this_thread(x: MatRef<'_, f32>, columns: &[u32], y: MatMut<'_, f32>) {
    let ones = check(x, columns, &y);
    select(x, columns, &ones, y);
}

/// Checks shapes and columns, and finds the columns of ones.
#[track_caller]
fn check(x: MatRef<'_, f32>, columns: &[u32], y: &MatMut<'_, f32>) -> Vec<usize> {
    let (rows, inp) = (x.rows(), x.cols());
    assert_eq!((y.rows(), y.cols()), (rows, columns.len()), "columns of {rows} x {inp}");
    let most = columns.iter().copied().max().unwrap_or(0);
    assert!(most as usize <= inp, "column {most} of {inp}");
    columns.iter().enumerate().filter(|&(_, &c)| c as usize == inp).map(|(j, _)| j).collect()
}

fn select(x: MatRef<'_, f32>, columns: &[u32], ones: &[usize], mut y: MatMut<'_, f32>) {
    if x.cols() == 0 {
        return y.fill(1.0);
    }
    gather(x, columns, y.reborrow());
    if !ones.is_empty() {
        for i in 0..y.rows() {
            let row = y.row_mut(i);
            ones.iter().for_each(|&j| row[j] = 1.0);
        }
    }
}

/// Rows that are gathered alternately, a few columns of each: they are far apart in memory, so
/// several are fetched at a time.
const ROWS: usize = 8;
/// Columns per row before the next row.
const COLUMNS: usize = 16;

vectorised! {
    /// `y[i, j] = x[i, columns[j]]`, with the last number of a row for columns beyond it: without a
    /// branch in the loop.
    fn gather<const FUSED: bool>(x: MatRef<'_, f32>, columns: &[u32], y: MatMut<'_, f32>) {
        let (mut y, last) = (y, x.cols() - 1);
        for first in (0..x.rows()).step_by(ROWS) {
            let end = x.rows().min(first + ROWS);
            for (turn, chosen) in columns.chunks(COLUMNS).enumerate() {
                for i in first..end {
                    let row = x.row(i);
                    let into = &mut y.row_mut(i)[turn * COLUMNS..][..chosen.len()];
                    for (y, &column) in into.iter_mut().zip(chosen) {
                        *y = row[(column as usize).min(last)];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn columns_equal_their_naive_twin() {
        for (rows, inp, count) in [(1, 1, 3), (3, 0, 2), (70, 19, 40), (200, 300, 33), (2, 5, 0)] {
            let x: Mat<f32> =
                Mat::from_vec(rows, inp, RngKey::new(1).stream().normals(rows * inp, 1.0));
            let mut stream = RngKey::new(2).stream();
            let columns: Vec<u32> = (0..count).map(|_| stream.below(inp + 1) as u32).collect();
            let mut y = Mat::from_vec(rows, count, vec![7.0; rows * count]);
            select_columns(x.view(), &columns, y.view_mut());
            let mut alone = Mat::from_vec(rows, count, vec![7.0; rows * count]);
            select_columns_on_this_thread(x.view(), &columns, alone.view_mut());
            assert_eq!(alone, y);
            for i in 0..rows {
                for (j, &column) in columns.iter().enumerate() {
                    let column = column as usize;
                    let want = if column == inp { 1.0 } else { x.at(i, column) };
                    assert_eq!(y.at(i, j), want, "({i}, {j}) of {rows} x {inp}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "column 4 of 3")]
    fn columns_beyond_the_bias_are_refused() {
        select_columns(Mat::zeros(1, 3).view(), &[4], Mat::zeros(1, 1).view_mut());
    }
}
