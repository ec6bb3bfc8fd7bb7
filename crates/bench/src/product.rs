//! A quick check of matrix products on this machine: correctness and speed in a fifth of a second.

use linwright_tensor::kernels::gemm::{Write, linear};
use linwright_tensor::{Mat, RngKey};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Rows, output features and input features of the compared products: not multiples of the kernels'
/// tiles, and the second one uses tiles.
const COMPARED: [[usize; 3]; 2] = [[5, 67, 129], [67, 141, 131]];
/// Largest allowed difference, relative to the largest output: twenty times the rounding error in
/// f32, and less than one wrong product.
const TOLERANCE: f64 = 2e-5;
/// Rows and columns of the timed matrices.
const TIMED: usize = 512;

/// Result of a check of f32 matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProductCheck {
    /// Largest difference from plain loops in f64, relative to the largest output.
    pub largest_error: f64,
    /// Whether that is rounding error.
    pub is_right: bool,
    /// Rows and columns of the timed matrices.
    pub side: usize,
    /// Billions of floating-point operations per second, in the fastest round.
    pub gflops: f64,
}

/// Compares products with plain loops, then times one for about `time`.
#[must_use]
pub fn check_product(time: Duration) -> ProductCheck {
    let errors = COMPARED.map(|shape| largest_error(shape, product));
    let largest_error = errors.into_iter().fold(0.0, f64::max);
    let seconds = fastest(time);
    let work = 2.0 * (TIMED as f64).powi(3);
    ProductCheck {
        largest_error,
        is_right: largest_error <= TOLERANCE,
        side: TIMED,
        gflops: work / seconds / 1e9,
    }
}

fn product(x: &Mat<f32>, w: &Mat<f32>, y: &mut Mat<f32>) {
    linear(x.view(), w.view(), y.view_mut(), Write::Set);
}

fn drawn(name: &str, rows: usize, cols: usize) -> Mat<f32> {
    Mat::from_vec(rows, cols, RngKey::new(0).fold(name).stream().normals(rows * cols, 1.0))
}

fn largest_error(
    [rows, out, inp]: [usize; 3],
    product: impl Fn(&Mat<f32>, &Mat<f32>, &mut Mat<f32>),
) -> f64 {
    let (x, w) = (drawn("rows", rows, inp), drawn("weight", out, inp));
    let mut y = Mat::zeros(rows, out);
    product(&x, &w, &mut y);
    let (mut error, mut largest) = (0.0f64, 0.0f64);
    for (given, x) in y.data().chunks(out).zip(x.data().chunks(inp)) {
        for (given, w) in given.iter().zip(w.data().chunks(inp)) {
            let right: f64 = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let off = (f64::from(*given) - right).abs();
            // NaN is the largest error.
            error = if off.is_nan() { f64::INFINITY } else { error.max(off) };
            largest = largest.max(right.abs());
        }
    }
    error / largest
}

/// Seconds of the fastest round.
fn fastest(time: Duration) -> f64 {
    let (x, w) = (drawn("rows", TIMED, TIMED), drawn("weight", TIMED, TIMED));
    let mut y = Mat::zeros(TIMED, TIMED);
    product(&x, &w, &mut y);
    let (all, mut best) = (Instant::now(), f64::INFINITY);
    loop {
        let round = Instant::now();
        product(&x, &w, &mut y);
        best = best.min(round.elapsed().as_secs_f64());
        if all.elapsed() >= time {
            return best.max(1e-9);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_right_and_take_about_the_time_they_are_given() {
        let found = check_product(Duration::from_millis(1));
        assert!(found.is_right && found.gflops > 0.0 && found.gflops.is_finite(), "{found:?}");
        assert!(found.largest_error > 0.0 && found.largest_error < TOLERANCE / 10.0, "{found:?}");
    }

    #[test]
    fn one_wrong_product_is_noticed() {
        for shape in COMPARED {
            let lacks_one = largest_error(shape, |x, w, y| {
                product(x, w, y);
                let last = x.cols() - 1;
                let lost = x.data()[last] * w.data()[last];
                y.data_mut()[0] -= lost;
            });
            assert!(lacks_one > TOLERANCE, "{lacks_one}");
            let broken = largest_error(shape, |x, w, y| {
                product(x, w, y);
                y.data_mut()[3] = f32::NAN;
            });
            assert!(broken > TOLERANCE, "{broken}");
        }
    }
}
