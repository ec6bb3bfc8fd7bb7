//! Normalisation by the root of the mean square.
//!
//! `y_i = w_i x_i / sqrt(mean(x²) + epsilon)` for every row. Source: Zhang and Sennrich 2019,
//! arXiv:1910.07467, eq. 4.

use super::instructions::vectorised;
use super::lanes;
use crate::parallel::{self, ROW_BLOCK};
use crate::{MatMut, MatRef};

/// Normalises the rows of `x` (rows, features) into `y`.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn rms_norm(x: MatRef<'_, f32>, weight: &[f32], epsilon: f64, y: MatMut<'_, f32>) {
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "norm between shapes");
    assert_eq!(weight.len(), x.cols(), "weight of the norm");
    parallel::for_each(y.row_blocks(ROW_BLOCK), |block, mut y| {
        for i in 0..y.rows() {
            normalise_row(x.row(block * ROW_BLOCK + i), weight, epsilon as f32, y.row_mut(i));
        }
    });
}

/// The gradient: adds that with respect to `x` into `dx` (rows, features), and that with respect to
/// the weight into `dweight`.
///
/// With r = 1 / sqrt(mean(x²) + epsilon) and g = w dy: `dx = r g - r³ mean(g x) x` and
/// `dw = Σ r x dy` over rows.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn rms_norm_backward(
    (x, weight, epsilon): (MatRef<'_, f32>, &[f32], f64),
    dy: MatRef<'_, f32>,
    dx: MatMut<'_, f32>,
    dweight: &mut [f32],
) {
    assert_eq!((x.rows(), x.cols()), (dx.rows(), dx.cols()), "gradient of the norm");
    assert_eq!((x.rows(), x.cols()), (dy.rows(), dy.cols()), "gradient of the norm");
    assert_eq!((weight.len(), dweight.len()), (x.cols(), x.cols()), "weight of the norm");
    // Every block sums its own part of the weight's gradient; parts are added in a fixed order.
    let parts = parallel::map(dx.row_blocks(ROW_BLOCK), |block, mut dx| {
        let mut part = vec![0.0; weight.len()];
        for i in 0..dx.rows() {
            let row = block * ROW_BLOCK + i;
            let (x, dy) = (x.row(row), dy.row(row));
            normalise_row_backward(x, weight, epsilon as f32, dy, dx.row_mut(i), &mut part);
        }
        part
    });
    for part in parts {
        dweight.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
}

vectorised! {
    fn normalise_row<const FUSED: bool>(x: &[f32], weight: &[f32], epsilon: f32, y: &mut [f32]) {
        let scale = 1.0 / (lanes::dot::<FUSED>(x, x) / x.len() as f32 + epsilon).sqrt();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * w;
        }
    }
}

vectorised! {
    fn normalise_row_backward<const FUSED: bool>(
        x: &[f32],
        weight: &[f32],
        epsilon: f32,
        dy: &[f32],
        dx: &mut [f32],
        dweight: &mut [f32],
    ) {
        let count = x.len() as f32;
        let scale = 1.0 / (lanes::dot::<FUSED>(x, x) / count + epsilon).sqrt();
        let pull = scale * scale * scale * lanes::dot3::<FUSED>(dy, weight, x) / count;
        for ((((dx, dw), x), w), dy) in dx.iter_mut().zip(dweight).zip(x).zip(weight).zip(dy) {
            *dx += scale * w * dy - pull * x;
            *dw += scale * x * dy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    const EPSILON: f64 = 1e-2;

    fn naive(x: &Mat<f64>, weight: &[f64]) -> Mat<f64> {
        Mat::from_fn(x.rows(), x.cols(), |i, j| {
            let mean = x.row(i).iter().map(|v| v * v).sum::<f64>() / x.cols() as f64;
            weight[j] * x.at(i, j) / (mean + EPSILON).sqrt()
        })
    }

    fn problem() -> (Mat<f32>, Vec<f32>, Mat<f32>) {
        let mut stream = RngKey::new(3).stream();
        let mut mat = |scale| Mat::from_vec(70, 21, stream.normals(70 * 21, scale));
        let (x, dy) = (mat(0.3), mat(1.0));
        (x, RngKey::new(4).stream().normals(21, 1.0), dy)
    }

    #[test]
    fn equals_its_naive_twin() {
        let (x, weight, _) = problem();
        let mut y = Mat::zeros(70, 21);
        rms_norm(x.view(), &weight, EPSILON, y.view_mut());
        let wide: Vec<f64> = weight.iter().map(|&w| f64::from(w)).collect();
        for (y, want) in y.data().iter().zip(naive(&x.cast(), &wide).data()) {
            assert!((f64::from(*y) - want).abs() < 1e-6, "{y} is not {want}");
        }
    }

    #[test]
    fn gradient_equals_central_differences() {
        let (x, weight, dy) = problem();
        let (mut dx, mut dweight) = (Mat::from_fn(70, 21, |_, _| 1.0f32), vec![2.0f32; 21]);
        rms_norm_backward((x.view(), &weight, EPSILON), dy.view(), dx.view_mut(), &mut dweight);
        let loss = |x: &Mat<f64>, weight: &[f64]| -> f64 {
            let y = naive(x, weight);
            y.data().iter().zip(dy.data()).map(|(y, d)| y * f64::from(*d)).sum()
        };
        let wide: Vec<f64> = weight.iter().map(|&w| f64::from(w)).collect();
        let step = 1e-5;
        for at in [0, 5, 20, 700, 1469] {
            let moved = |by: f64| {
                let mut x = x.cast::<f64>();
                x.data_mut()[at] += by;
                loss(&x, &wide)
            };
            let want = 1.0 + (moved(step) - moved(-step)) / (2.0 * step);
            assert!((f64::from(dx.data()[at]) - want).abs() < 1e-4, "dx {at}");
        }
        for at in 0..21 {
            let moved = |by: f64| {
                let mut weight = wide.clone();
                weight[at] += by;
                loss(&x.cast(), &weight)
            };
            let want = 2.0 + (moved(step) - moved(-step)) / (2.0 * step);
            assert!((f64::from(dweight[at]) - want).abs() < 1e-4, "dweight {at}");
        }
    }
}
