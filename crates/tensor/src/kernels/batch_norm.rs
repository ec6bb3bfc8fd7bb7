//! Normalisation of columns over a batch, and of rows, in any scalar.
//!
//! For `n` numbers with mean `m` and variance `v` (divided by `n`): `h = (x - m) / sqrt(v + eps)`.
//! The gradient of `x` is `(g - mean(g) - h mean(g h)) / sqrt(v + eps)` for the gradient `g` of
//! `h`.

use crate::parallel::{self, rows_of_piece};
use crate::{MatMut, MatRef, Scalar};

/// Rows of a partial sum, the same whatever the number of threads.
const ROWS: usize = 256;

/// Sums over rows, in f64: `add` adds the terms of one row, by column.
fn sums(rows: usize, cols: usize, add: impl Fn(usize, &mut [f64]) + Sync + Send) -> Vec<f64> {
    let starts = (0..rows).step_by(ROWS).collect();
    let parts = parallel::map(starts, |_, start| {
        let mut sums = vec![0.0; cols];
        (start..rows.min(start + ROWS)).for_each(|row| add(row, &mut sums));
        sums
    });
    let mut sums = vec![0.0; cols];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    sums
}

/// Runs `work` on every row, in parallel.
fn each_row<T: Scalar>(x: MatMut<'_, T>, work: impl Fn(usize, &mut [T]) + Sync + Send) {
    let block = rows_of_piece(x.cols());
    parallel::for_each(x.row_blocks(block), |k, mut x| {
        for i in 0..x.rows() {
            work(k * block + i, x.row_mut(i));
        }
    });
}

/// The sum of each column, added up in f64.
#[must_use]
pub fn column_sums<T: Scalar>(x: MatRef<'_, T>) -> Vec<f64> {
    sums(x.rows(), x.cols(), |i, sums| {
        sums.iter_mut().zip(x.row(i)).for_each(|(sum, x)| *sum += x.to_f64());
    })
}

/// The inner product of each column of `x` with that of `y`, added up in f64.
///
/// # Panics
/// If the shapes differ.
#[must_use]
#[track_caller]
pub fn column_dots<T: Scalar>(x: MatRef<'_, T>, y: MatRef<'_, T>) -> Vec<f64> {
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "products of columns");
    sums(x.rows(), x.cols(), |i, sums| {
        let pairs = sums.iter_mut().zip(x.row(i).iter().zip(y.row(i)));
        pairs.for_each(|(sum, (x, y))| *sum += (*x * *y).to_f64());
    })
}

/// Mean and variance of each column; the variance is divided by the number of rows.
#[must_use]
pub fn column_moments<T: Scalar>(x: MatRef<'_, T>) -> (Vec<T>, Vec<T>) {
    let count = x.rows().max(1) as f64;
    let means: Vec<f64> = column_sums(x).iter().map(|sum| sum / count).collect();
    let squares = sums(x.rows(), x.cols(), |i, sums| {
        let centred = sums.iter_mut().zip(x.row(i).iter().zip(&means));
        centred.for_each(|(sum, (x, mean))| *sum += (x.to_f64() - mean).powi(2));
    });
    let rounded = |values: &[f64], by: f64| values.iter().map(|v| T::from_f64(v / by)).collect();
    (rounded(&means, 1.0), rounded(&squares, count))
}

/// Subtracts the mean of each column and multiplies by its scale, in place.
pub fn normalise_columns<T: Scalar>(x: MatMut<'_, T>, means: &[T], scales: &[T]) {
    each_row(x, |_, row| {
        for ((x, mean), scale) in row.iter_mut().zip(means).zip(scales) {
            *x = (*x - *mean) * *scale;
        }
    });
}

/// Multiplies each column by its scale and adds its shift, in place.
pub fn scale_and_shift<T: Scalar>(x: MatMut<'_, T>, scales: &[T], shifts: &[T]) {
    each_row(x, |_, row| {
        for ((x, scale), shift) in row.iter_mut().zip(scales).zip(shifts) {
            *x = *x * *scale + *shift;
        }
    });
}

/// Multiplies each column by its scale, in place.
pub fn scale_columns<T: Scalar>(x: MatMut<'_, T>, scales: &[T]) {
    each_row(x, |_, row| row.iter_mut().zip(scales).for_each(|(x, scale)| *x *= *scale));
}

/// Gradient of columns that were normalised by their own moments, in place of that of `h`.
pub fn columns_backward<T: Scalar>(h: MatRef<'_, T>, scales: &[T], g: MatMut<'_, T>) {
    let count = h.rows() as f64;
    let means = |sums: Vec<f64>| -> Vec<T> {
        sums.into_iter().map(|sum| T::from_f64(sum / count)).collect()
    };
    let (of_g, of_gh) = (means(column_sums(g.as_ref())), means(column_dots(g.as_ref(), h)));
    each_row(g, |i, g| {
        for (j, (g, h)) in g.iter_mut().zip(h.row(i)).enumerate() {
            *g = (*g - of_g[j] - *h * of_gh[j]) * scales[j];
        }
    });
}

/// Normalises each row, in place; returns the scale of each.
pub fn normalise_rows<T: Scalar>(x: MatMut<'_, T>, eps: f64) -> Vec<T> {
    let normalise = |row: &mut [T]| {
        let count = row.len() as f64;
        let mean = row.iter().map(|x| x.to_f64()).sum::<f64>() / count;
        let variance = row.iter().map(|x| (x.to_f64() - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + eps).sqrt();
        row.iter_mut().for_each(|x| *x = T::from_f64((x.to_f64() - mean) * scale));
        T::from_f64(scale)
    };
    let blocks = x.row_blocks(ROWS);
    let scales = parallel::map(blocks, |_, mut x| {
        (0..x.rows()).map(|i| normalise(x.row_mut(i))).collect::<Vec<T>>()
    });
    scales.concat()
}

/// Gradient of normalised rows, in place of that of `h`.
pub fn rows_backward<T: Scalar>(h: MatRef<'_, T>, scales: &[T], g: MatMut<'_, T>) {
    let count = T::from_f64(h.cols() as f64);
    each_row(g, |i, g| {
        let h = h.row(i);
        let of_g = g.iter().copied().sum::<T>() / count;
        let of_gh = g.iter().zip(h).map(|(g, h)| *g * *h).sum::<T>() / count;
        g.iter_mut().zip(h).for_each(|(g, h)| *g = (*g - of_g - *h * of_gh) * scales[i]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn columns_are_normalised_as_the_rows_of_the_transpose() {
        let random = |key| Mat::from_vec(7, 5, RngKey::new(key).stream().normals::<f64>(35, 2.0));
        let (mut x, mut g) = (random(1), random(2));
        let (mut rows, mut rows_g) = (x.transpose(), g.transpose());
        let (means, variances) = column_moments(x.view());
        let scales: Vec<f64> = variances.iter().map(|v| 1.0 / (v + 1e-3).sqrt()).collect();
        normalise_columns(x.view_mut(), &means, &scales);
        columns_backward(x.view(), &scales, g.view_mut());
        let row_scales = normalise_rows(rows.view_mut(), 1e-3);
        rows_backward(rows.view(), &row_scales, rows_g.view_mut());
        let close = |a: &Mat<f64>, b: &Mat<f64>| {
            a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(close(&x, &rows.transpose()) && close(&g, &rows_g.transpose()));
    }

    #[test]
    fn sums_over_many_rows_are_those_of_the_definition() {
        let random =
            |key| Mat::from_vec(700, 3, RngKey::new(key).stream().normals::<f64>(2100, 1.0));
        let (x, y) = (random(4), random(5));
        let (sums, dots) = (column_sums(x.view()), column_dots(x.view(), y.view()));
        let mut scaled = x.clone();
        scale_and_shift(scaled.view_mut(), &[1.0, 2.0, 3.0], &[0.5; 3]);
        scale_columns(scaled.view_mut(), &[2.0, 1.0, 0.0]);
        for j in 0..3 {
            let sum: f64 = (0..700).map(|i| x.at(i, j)).sum();
            let dot: f64 = (0..700).map(|i| x.at(i, j) * y.at(i, j)).sum();
            assert!((sums[j] - sum).abs() < 1e-11 && (dots[j] - dot).abs() < 1e-11);
        }
        for i in 0..700 {
            let want = [2.0 * (x.at(i, 0) + 0.5), 2.0 * x.at(i, 1) + 0.5, 0.0];
            assert_eq!(scaled.row(i), want);
        }
    }
}
