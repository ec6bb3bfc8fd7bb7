//! Elementwise operations on whole matrices.

use super::functions::tanh;
use super::instructions::vectorised;
use super::lanes::{each, map};
use crate::parallel::rows_of_piece;
use crate::{MatMut, MatRef, Scalar, parallel};
use std::any::TypeId;

/// Numbers per work item.
const PIECE: usize = 1 << 15;

/// `a += b`.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add<T: Scalar>(a: &mut [T], b: &[T]) {
    assert_eq!(a.len(), b.len(), "sum of slices");
    parallel::for_each_chunk(a, PIECE, |piece, a| {
        let at = piece * PIECE;
        add_slice(a, &b[at..at + a.len()]);
    });
}

/// `a += b` of matrices.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn add_rows<T: Scalar>(a: MatMut<'_, T>, b: MatRef<'_, T>) {
    assert_eq!((a.rows(), a.cols()), (b.rows(), b.cols()), "sum of matrices");
    let block = rows_of_piece(a.cols());
    parallel::for_each(a.row_blocks(block), |k, mut a| {
        for i in 0..a.rows() {
            add_slice(a.row_mut(i), b.row(k * block + i));
        }
    });
}

/// `a *= b`, elementwise.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn multiply<T: Scalar>(a: MatMut<'_, T>, b: MatRef<'_, T>) {
    assert_eq!((a.rows(), a.cols()), (b.rows(), b.cols()), "product of matrices");
    let block = rows_of_piece(a.cols());
    parallel::for_each(a.row_blocks(block), |k, mut a| {
        for i in 0..a.rows() {
            multiply_slice(a.row_mut(i), b.row(k * block + i));
        }
    });
}

/// `a *= factor`.
pub fn scale<T: Scalar>(a: MatMut<'_, T>, factor: T) {
    let block = rows_of_piece(a.cols());
    parallel::for_each(a.row_blocks(block), |_, mut a| {
        for i in 0..a.rows() {
            scale_slice(a.row_mut(i), factor);
        }
    });
}

/// Soft cap: `x -> cap tanh(x / cap)`, in place. Source: Gemma Team 2024, arXiv:2408.00118, section
/// 2.
///
/// `slope`, if given, receives the derivative `1 - tanh²(x / cap)`, by which [`multiply`] converts
/// the gradient of the output to that of the input.
///
/// # Panics
/// If the shapes differ.
#[track_caller]
pub fn softcap(x: MatMut<'_, f32>, cap: f32, slope: Option<MatMut<'_, f32>>) {
    let block = rows_of_piece(x.cols());
    let Some(slope) = slope else {
        return parallel::for_each(x.row_blocks(block), |_, mut x| {
            for i in 0..x.rows() {
                softcap_slice(x.row_mut(i), cap);
            }
        });
    };
    assert_eq!((x.rows(), x.cols()), (slope.rows(), slope.cols()), "numbers and their slopes");
    let pieces = x.row_blocks(block).into_iter().zip(slope.row_blocks(block)).collect();
    parallel::for_each(pieces, |_, (mut x, mut slope): (MatMut<'_, f32>, MatMut<'_, f32>)| {
        for i in 0..x.rows() {
            softcap_slice_with_slope(x.row_mut(i), slope.row_mut(i), cap);
        }
    });
}

/// Whether no number is infinite or NaN.
#[must_use]
pub fn all_finite<T: Scalar>(a: &[T]) -> bool {
    let finite = |piece: &[T]| match as_f32(piece) {
        Some(piece) => finite_slice(piece),
        None => piece.iter().all(|a| a.is_finite()),
    };
    let pieces = a.chunks(PIECE).collect();
    parallel::map(pieces, |_, piece| finite(piece)).into_iter().all(|finite| finite)
}

/// The slice itself, if its numbers are `f32`.
fn as_f32<T: Scalar>(a: &[T]) -> Option<&[f32]> {
    (TypeId::of::<T>() == TypeId::of::<f32>()).then(|| bytemuck::cast_slice(a))
}

vectorised! {
    fn add_slice<const FUSED: bool, T: Scalar>(a: &mut [T], b: &[T]) {
        for (a, &b) in a.iter_mut().zip(b) {
            *a += b;
        }
    }
}

vectorised! {
    fn multiply_slice<const FUSED: bool, T: Scalar>(a: &mut [T], b: &[T]) {
        for (a, &b) in a.iter_mut().zip(b) {
            *a *= b;
        }
    }
}

vectorised! {
    fn scale_slice<const FUSED: bool, T: Scalar>(a: &mut [T], factor: T) {
        for a in a {
            *a *= factor;
        }
    }
}

vectorised! {
    fn softcap_slice<const FUSED: bool>(x: &mut [f32], cap: f32) {
        let share = 1.0 / cap;
        map(x, |x| cap * tanh::<FUSED>(x * share).0);
    }
}

vectorised! {
    fn softcap_slice_with_slope<const FUSED: bool>(x: &mut [f32], slope: &mut [f32], cap: f32) {
        let share = 1.0 / cap;
        each([x, slope], [], |[x, _], []| {
            let (value, slope) = tanh::<FUSED>(x * share);
            [cap * value, slope]
        });
    }
}

vectorised! {
    fn finite_slice<const FUSED: bool>(a: &[f32]) -> bool {
        /// The bits of the exponent, all set in infinities and NaN.
        const EXPONENT: u32 = 0x7f80_0000;
        // No early exit, so that the loop is a vector loop.
        a.iter().fold(0, |bad, a| bad | u32::from(a.to_bits() & EXPONENT == EXPONENT)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mat;

    #[test]
    fn sum_goes_over_every_number() {
        let mut a: Vec<f32> = (0..70_001).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..70_001).map(|i| -(i as f32)).collect();
        add(&mut a, &b);
        assert!(a.iter().all(|&a| a == 0.0));
    }

    #[test]
    fn sum_of_matrices_leaves_alone_what_is_beside_them() {
        let mut a: Mat<f64> = Mat::from_fn(20_000, 5, |i, j| (i + j) as f64);
        let b = Mat::from_fn(20_000, 3, |i, j| -((i + j + 1) as f64));
        add_rows(a.view_mut().columns(1, 3), b.view());
        for (k, &a) in a.data().iter().enumerate() {
            let expected = if (1..4).contains(&(k % 5)) { 0.0 } else { (k / 5 + k % 5) as f64 };
            assert_eq!(a, expected, "number {k}");
        }
    }

    #[test]
    fn products_and_factors_leave_alone_what_is_beside_them() {
        let mut a: Mat<f64> = Mat::from_fn(20_000, 5, |i, j| (i + j) as f64);
        let b = Mat::from_fn(20_000, 3, |i, j| (i % 7 + j) as f64);
        multiply(a.view_mut().columns(1, 3), b.view());
        scale(a.view_mut().columns(2, 2), 0.5);
        for (k, &a) in a.data().iter().enumerate() {
            let (i, j) = (k / 5, k % 5);
            let factor = if (1..4).contains(&j) { (i % 7 + j - 1) as f64 } else { 1.0 };
            let half = if (2..4).contains(&j) { 0.5 } else { 1.0 };
            assert_eq!(a, (i + j) as f64 * factor * half, "number {k}");
        }
    }

    #[test]
    fn soft_bounds_equal_their_naive_twin_and_slopes_central_differences() {
        const CAP: f32 = 30.0;
        let naive = |x: f64| f64::from(CAP) * (x / f64::from(CAP)).tanh();
        let numbers = crate::RngKey::new(1).stream().normals::<f32>(9_000 * 5, 40.0);
        let x = Mat::from_vec(9_000, 5, numbers);
        let (mut y, mut alone, mut slope) = (x.clone(), x.clone(), Mat::zeros(9_000, 5));
        softcap(y.view_mut(), CAP, Some(slope.view_mut()));
        softcap(alone.view_mut(), CAP, None);
        assert_eq!(y, alone);
        for ((&x, &y), &slope) in x.data().iter().zip(y.data()).zip(slope.data()) {
            let x = f64::from(x);
            assert!((f64::from(y) - naive(x)).abs() < 1e-5, "{y} is not {}", naive(x));
            let difference = (naive(x + 1e-4) - naive(x - 1e-4)) / 2e-4;
            assert!((f64::from(slope) - difference).abs() < 1e-6, "slope at {x}: {slope}");
        }
    }

    #[test]
    fn one_bad_number_is_found_wherever_it_stands() {
        let mut a = vec![f32::MAX; 40_000];
        assert!(all_finite(&a) && all_finite::<f32>(&[]));
        assert!(all_finite(&[f64::MAX]) && !all_finite(&[0.0, f64::NAN]));
        for (at, bad) in [(0, f32::NAN), (39_999, f32::INFINITY), (20_000, f32::NEG_INFINITY)] {
            a[at] = bad;
            assert!(!all_finite(&a), "{bad} at {at}");
            a[at] = 0.0;
        }
    }
}
