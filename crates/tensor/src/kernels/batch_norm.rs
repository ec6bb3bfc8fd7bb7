//! Normalisation of columns over a batch, and of rows, in any scalar.
//!
//! For `n` numbers with mean `m` and variance `v` (divided by `n`): `h = (x - m) / sqrt(v + eps)`.
//! The gradient of `x` is `(g - mean(g) - h mean(g h)) / sqrt(v + eps)` for the gradient `g` of
//! `h`.

use crate::{Mat, MatRef, Scalar};

/// Mean and variance of each column; the variance is divided by the number of rows.
#[must_use]
pub fn column_moments<T: Scalar>(x: MatRef<'_, T>) -> (Vec<T>, Vec<T>) {
    let count = x.rows().max(1) as f64;
    let sums = |of: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
        let mut sums = vec![0.0; x.cols()];
        for i in 0..x.rows() {
            let row = sums.iter_mut().zip(x.row(i)).enumerate();
            row.for_each(|(j, (sum, value))| *sum += of(j, value.to_f64()));
        }
        sums.iter().map(|sum| sum / count).collect()
    };
    let means = sums(&|_, value| value);
    let variances = sums(&|j, value| (value - means[j]).powi(2));
    let rounded = |values: Vec<f64>| values.into_iter().map(T::from_f64).collect();
    (rounded(means.clone()), rounded(variances))
}

/// Subtracts the mean of each column and multiplies by its scale, in place.
pub fn normalise_columns<T: Scalar>(x: &mut Mat<T>, means: &[T], scales: &[T]) {
    for i in 0..x.rows() {
        for ((x, mean), scale) in x.row_mut(i).iter_mut().zip(means).zip(scales) {
            *x = (*x - *mean) * *scale;
        }
    }
}

/// Gradient of columns that were normalised by their own moments, in place of that of `h`.
pub fn columns_backward<T: Scalar>(h: MatRef<'_, T>, scales: &[T], g: &mut Mat<T>) {
    let count = T::from_f64(h.rows() as f64);
    let (mut of_g, mut of_gh) = (vec![T::ZERO; h.cols()], vec![T::ZERO; h.cols()]);
    for i in 0..h.rows() {
        for (j, (g, h)) in g.row(i).iter().zip(h.row(i)).enumerate() {
            of_g[j] += *g;
            of_gh[j] += *g * *h;
        }
    }
    for i in 0..h.rows() {
        for (j, (g, h)) in g.row_mut(i).iter_mut().zip(h.row(i)).enumerate() {
            *g = (*g - of_g[j] / count - *h * (of_gh[j] / count)) * scales[j];
        }
    }
}

/// Normalises each row, in place; returns the scale of each.
pub fn normalise_rows<T: Scalar>(x: &mut Mat<T>, eps: f64) -> Vec<T> {
    let normalise = |row: &mut [T]| {
        let count = row.len() as f64;
        let mean = row.iter().map(|x| x.to_f64()).sum::<f64>() / count;
        let variance = row.iter().map(|x| (x.to_f64() - mean).powi(2)).sum::<f64>() / count;
        let scale = 1.0 / (variance + eps).sqrt();
        row.iter_mut().for_each(|x| *x = T::from_f64((x.to_f64() - mean) * scale));
        T::from_f64(scale)
    };
    (0..x.rows()).map(|i| normalise(x.row_mut(i))).collect()
}

/// Gradient of normalised rows, in place of that of `h`.
pub fn rows_backward<T: Scalar>(h: MatRef<'_, T>, scales: &[T], g: &mut Mat<T>) {
    let count = T::from_f64(h.cols() as f64);
    for (i, scale) in scales.iter().enumerate() {
        let (g, h) = (g.row_mut(i), h.row(i));
        let of_g = g.iter().copied().sum::<T>() / count;
        let of_gh = g.iter().zip(h).map(|(g, h)| *g * *h).sum::<T>() / count;
        g.iter_mut().zip(h).for_each(|(g, h)| *g = (*g - of_g - *h * of_gh) * *scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn columns_are_normalised_as_the_rows_of_the_transpose() {
        let random = |key| Mat::from_vec(7, 5, RngKey::new(key).stream().normals::<f64>(35, 2.0));
        let (mut x, mut g) = (random(1), random(2));
        let (mut rows, mut rows_g) = (x.transpose(), g.transpose());
        let (means, variances) = column_moments(x.view());
        let scales: Vec<f64> = variances.iter().map(|v| 1.0 / (v + 1e-3).sqrt()).collect();
        normalise_columns(&mut x, &means, &scales);
        columns_backward(x.view(), &scales, &mut g);
        let row_scales = normalise_rows(&mut rows, 1e-3);
        rows_backward(rows.view(), &row_scales, &mut rows_g);
        let close = |a: &Mat<f64>, b: &Mat<f64>| {
            a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(close(&x, &rows.transpose()) && close(&g, &rows_g.transpose()));
    }
}
