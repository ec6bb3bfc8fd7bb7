//! Rotors as multivectors: products of rotors of simple bivectors, and the exponential series.
//!
//! `exp(b) = Π_k (cos |b_k| + sin |b_k| / |b_k| b_k)` for commuting simple bivectors `b_k` with sum
//! b. For parts that are not simple or do not commute the product differs from `exp(b)`, which
//! measures the error of an inexact decomposition.
//!
//! | | multiply-adds |
//! | --- | --- |
//! | each factor of the product | 2^(n-1) (n (n-1) / 2 + 1) |
//! | the series | the same for each of about 20 terms, for each unit of the sum of all angles |
//!
//! Maps use [`super::SpinRotor`]; these functions are for inspection and tests.

use super::{bivector_pairs, graded_blades};

/// Terms of the series for an argument of norm at most one: 1 / 21! is below rounding.
const TERMS: usize = 21;

/// The product of the rotors of simple bivectors, in order: 2^n numbers, blades by grade, then
/// lexicographically. A part has n (n - 1) / 2 coefficients in lexicographic order of i < j.
///
/// # Panics
/// If a part has a wrong number of coefficients.
#[must_use]
#[track_caller]
pub fn product_of_simple_rotors(n: usize, parts: &[Vec<f64>]) -> Vec<f64> {
    let mut rotor = one(n);
    for part in parts {
        let length = part.iter().map(|b| b * b).sum::<f64>().sqrt();
        let quotient = if length > 0.0 { length.sin() / length } else { 1.0 };
        let turned = times_bivector(n, &rotor, part);
        for (r, t) in rotor.iter_mut().zip(turned) {
            *r = length.cos() * *r + quotient * t;
        }
    }
    graded(n, &rotor)
}

/// `exp(b)` by its series, `exp(b / m)` m times, blades as in [`product_of_simple_rotors`]: exact
/// to rounding for any bivector, and slow.
///
/// # Panics
/// If there are not n (n - 1) / 2 coefficients.
#[must_use]
#[track_caller]
pub fn rotor_by_series(n: usize, bivector: &[f64]) -> Vec<f64> {
    // The sum of all angles is at most √(n/2) times the norm.
    let norm = bivector.iter().map(|b| b * b).sum::<f64>().sqrt();
    let parts = (norm * (n as f64 / 2.0).sqrt()).ceil().max(1.0);
    let small: Vec<f64> = bivector.iter().map(|b| b / parts).collect();
    let mut rotor = one(n);
    for _ in 0..parts as usize {
        let mut term = rotor.clone();
        for k in 1..=TERMS {
            term = times_bivector(n, &term, &small);
            term.iter_mut().for_each(|t| *t /= k as f64);
            rotor.iter_mut().zip(&term).for_each(|(r, t)| *r += t);
        }
    }
    graded(n, &rotor)
}

/// The scalar one; blade at its bit mask.
fn one(n: usize) -> Vec<f64> {
    let mut one = vec![0.0; 1 << n];
    one[0] = 1.0;
    one
}

/// `r b` for an even multivector r, blades by bit mask.
fn times_bivector(n: usize, r: &[f64], bivector: &[f64]) -> Vec<f64> {
    assert_eq!(bivector.len(), n * n.saturating_sub(1) / 2, "bivector coefficients for n = {n}");
    let mut product = vec![0.0; r.len()];
    for ((i, j), &b) in bivector_pairs(n).zip(bivector).filter(|(_, b)| **b != 0.0) {
        let pair = 1usize << i | 1 << j;
        // e_i passes the generators of the blade above i, e_j those above j.
        let passed = (!0usize << (i + 1)) ^ (!0usize << (j + 1));
        for (blade, &r) in
            r.iter().enumerate().filter(|(blade, _)| blade.count_ones().is_multiple_of(2))
        {
            // Above j both pass, which cancels; between them, and at j, e_i passes alone.
            let swaps = (blade & passed).count_ones();
            let sign = if swaps.is_multiple_of(2) { 1.0 } else { -1.0 };
            product[blade ^ pair] += sign * r * b;
        }
    }
    product
}

/// Reorders from bit masks to grades.
fn graded(n: usize, rotor: &[f64]) -> Vec<f64> {
    graded_blades(n).into_iter().map(|blade| rotor[blade as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::kernels::spin::skew_matrix;
    use crate::linalg::{SkewPlane, skew_eigen};

    /// Product of multivectors by bit mask, pair by pair.
    fn naive_product(x: &[f64], y: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; x.len()];
        for (a, x) in x.iter().enumerate() {
            for (b, y) in y.iter().enumerate() {
                let swaps: u32 =
                    (1..usize::BITS).map(|k| (a.wrapping_shr(k) & b).count_ones()).sum();
                product[a ^ b] += if swaps.is_multiple_of(2) { x * y } else { -x * y };
            }
        }
        product
    }

    fn bivector(n: usize, seed: u64) -> Vec<f64> {
        RngKey::new(seed).stream().normals(n * n.saturating_sub(1) / 2, 1.0)
    }

    #[track_caller]
    fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < tolerance, "{a}, expected {b}");
        }
    }

    #[test]
    fn products_with_bivectors_agree_with_the_naive_twin() {
        for n in 2..=6 {
            let b = bivector(n, 1);
            let mut whole = vec![0.0; 1 << n];
            for ((i, j), value) in bivector_pairs(n).zip(&b) {
                whole[1 << i | 1 << j] = *value;
            }
            let draws: Vec<f64> = RngKey::new(2).stream().normals(1 << n, 1.0);
            let even =
                |(k, v): (usize, &f64)| if k.count_ones().is_multiple_of(2) { *v } else { 0.0 };
            let r: Vec<f64> = draws.iter().enumerate().map(even).collect();
            close(&times_bivector(n, &r, &b), &naive_product(&r, &whole), 1e-12);
        }
    }

    #[test]
    fn exact_planes_give_the_exponential() {
        for n in 0..=9 {
            let b = bivector(n, 3 + n as u64);
            let eigen = skew_eigen(skew_matrix(&b, n).view()).unwrap();
            let parts: Vec<Vec<f64>> = eigen.planes().iter().map(SkewPlane::bivector).collect();
            let rotor = product_of_simple_rotors(n, &parts);
            close(&rotor, &rotor_by_series(n, &b), 1e-12);
            let norm: f64 = rotor.iter().map(|r| r * r).sum();
            assert!((norm - 1.0).abs() < 1e-12, "n {n}");
        }
    }

    #[test]
    fn one_plane_turns_by_cosine_and_sine() {
        let rotor = rotor_by_series(3, &[0.7, 0.0, 0.0]);
        let expected = [0.7f64.cos(), 0.0, 0.0, 0.0, 0.7f64.sin(), 0.0, 0.0, 0.0];
        close(&rotor, &expected, 1e-15);
    }
}
