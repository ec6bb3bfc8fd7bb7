//! Passes over whole matrices, number by number.

use super::instructions::vectorised;
use crate::parallel;

/// Numbers handled as one piece.
const PIECE: usize = 1 << 15;

/// `a += b`.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add(a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "sum of slices");
    parallel::for_each_chunk(a, PIECE, |piece, a| {
        let at = piece * PIECE;
        add_slice(a, &b[at..at + a.len()]);
    });
}

/// Whether no number is infinite or NaN.
#[must_use]
pub fn all_finite(a: &[f32]) -> bool {
    let pieces = a.chunks(PIECE).collect();
    parallel::map(pieces, |_, piece| finite_slice(piece)).into_iter().all(|finite| finite)
}

vectorised! {
    fn add_slice<const FUSED: bool>(a: &mut [f32], b: &[f32]) {
        for (a, b) in a.iter_mut().zip(b) {
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

    #[test]
    fn sum_goes_over_every_number() {
        let mut a: Vec<f32> = (0..70_001).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..70_001).map(|i| -(i as f32)).collect();
        add(&mut a, &b);
        assert!(a.iter().all(|&a| a == 0.0));
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
