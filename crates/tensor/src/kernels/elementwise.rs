//! Passes over whole matrices, number by number.

use super::instructions::vectorised;
use crate::{MatMut, MatRef, Scalar, parallel};

/// Numbers handled as one piece.
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
    let block = (PIECE / a.cols().max(1)).max(1);
    parallel::for_each(a.row_blocks(block), |k, mut a| {
        for i in 0..a.rows() {
            add_slice(a.row_mut(i), b.row(k * block + i));
        }
    });
}

/// Whether no number is infinite or NaN.
#[must_use]
pub fn all_finite(a: &[f32]) -> bool {
    let pieces = a.chunks(PIECE).collect();
    parallel::map(pieces, |_, piece| finite_slice(piece)).into_iter().all(|finite| finite)
}

vectorised! {
    fn add_slice<const FUSED: bool, T: Scalar>(a: &mut [T], b: &[T]) {
        for (a, &b) in a.iter_mut().zip(b) {
            *a += b;
        }
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
    fn one_bad_number_is_found_wherever_it_stands() {
        let mut a = vec![f32::MAX; 40_000];
        assert!(all_finite(&a) && all_finite(&[]));
        for (at, bad) in [(0, f32::NAN), (39_999, f32::INFINITY), (20_000, f32::NEG_INFINITY)] {
            a[at] = bad;
            assert!(!all_finite(&a), "{bad} at {at}");
            a[at] = 0.0;
        }
    }
}
