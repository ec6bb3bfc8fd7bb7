//! Layer normalisation without affine parameters, forward and backward.
//!
//! `y = (x - mean) / sqrt(variance + epsilon)` over the features of a row, with the biased variance.
//! Sums are accumulated in f64.

use crate::{MatMut, MatRef, Scalar, parallel};

/// Normalises every row of `x` (rows, features) into `y`, and leaves `1 / sqrt(variance + epsilon)`
/// of each row in `scale`.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn forward<T: Scalar>(x: MatRef<'_, T>, y: MatMut<'_, T>, scale: &mut [T], epsilon: f64) {
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "x and y of a layer norm");
    assert_eq!(scale.len(), x.rows(), "scales of a layer norm");
    let block = parallel::ROW_BLOCK;
    let pieces = y.row_blocks(block).into_iter().zip(scale.chunks_mut(block)).collect();
    parallel::for_each(pieces, |k, (mut y, scale): (MatMut<'_, T>, &mut [T])| {
        for (i, scale) in scale.iter_mut().enumerate() {
            let x = x.row(k * block + i);
            let count = x.len().max(1) as f64;
            let mean = sum_lanes(x, x, |v, _| v) / count;
            let variance = sum_lanes(x, x, |v, _| (v - mean) * (v - mean)) / count;
            *scale = T::from_f64(1.0 / (variance + epsilon).sqrt());
            let mean = T::from_f64(mean);
            y.row_mut(i).iter_mut().zip(x).for_each(|(y, &x)| *y = (x - mean) * *scale);
        }
    });
}

/// Turns `d`, the gradient with respect to the output `y` of [`forward`], into that with respect to
/// its input: `scale (d - mean(d) - y mean(d y))`.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn backward<T: Scalar>(y: MatRef<'_, T>, scale: &[T], d: MatMut<'_, T>) {
    assert_eq!((y.rows(), y.cols()), (d.rows(), d.cols()), "output and gradient of a layer norm");
    assert_eq!(scale.len(), y.rows(), "scales of a layer norm");
    let block = parallel::ROW_BLOCK;
    parallel::for_each(d.row_blocks(block), |k, mut d| {
        for i in 0..d.rows() {
            let (y, scale) = (y.row(k * block + i), scale[k * block + i]);
            let d = d.row_mut(i);
            let count = y.len().max(1) as f64;
            let mean = sum_lanes(d, d, |d, _| d) / count;
            let along = sum_lanes(d, y, |d, y| d * y) / count;
            let (mean, along) = (T::from_f64(mean), T::from_f64(along));
            d.iter_mut().zip(y).for_each(|(d, &y)| *d = scale * (*d - mean - y * along));
        }
    });
}

/// `Σ term(a_i, b_i)` in f64, in a fixed number of lanes, which the compiler turns into vectors.
#[inline(always)]
fn sum_lanes<T: Scalar>(a: &[T], b: &[T], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += term(a[lane].to_f64(), b[lane].to_f64());
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| term(a.to_f64(), b.to_f64()));
    sums.into_iter().sum::<f64>() + rest.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn rows_have_mean_zero_and_variance_one_and_gradients_are_central_differences() {
        let mut stream = RngKey::new(5).stream();
        let x: Mat<f64> = Mat::from_fn(3, 7, |_, _| stream.normal() + 2.0);
        let weight: Mat<f64> = Mat::from_fn(3, 7, |_, _| stream.normal());
        let run = |x: &Mat<f64>| {
            let (mut y, mut scale) = (Mat::zeros(3, 7), vec![0.0; 3]);
            forward(x.view(), y.view_mut(), &mut scale, 1e-5);
            (y, scale)
        };
        let loss = |x: &Mat<f64>| {
            run(x).0.data().iter().zip(weight.data()).map(|(y, w)| y * w).sum::<f64>()
        };
        let (y, scale) = run(&x);
        for i in 0..3 {
            let mean = y.row(i).iter().sum::<f64>() / 7.0;
            let variance = y.row(i).iter().map(|v| v * v).sum::<f64>() / 7.0;
            assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-4);
        }
        let mut d = weight.clone();
        backward(y.view(), &scale, d.view_mut());
        for k in 0..x.data().len() {
            let (mut up, mut down) = (x.clone(), x.clone());
            up.data_mut()[k] += 1e-5;
            down.data_mut()[k] -= 1e-5;
            let slope = (loss(&up) - loss(&down)) / 2e-5;
            assert!((slope - d.data()[k]).abs() < 1e-8, "{k}: {slope}, {}", d.data()[k]);
        }
    }
}
