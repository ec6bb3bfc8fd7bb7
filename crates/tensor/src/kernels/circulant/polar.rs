//! Vectorised complex numbers from log-magnitudes and phases.
//!
//! Numerical notes: relative errors are below 1e-15. Arguments too large for the reductions here,
//! and non-finite ones, go one by one through the standard library.

use crate::kernels::instructions::vectorised;
use std::f64::consts::{FRAC_2_PI, LOG2_E};

/// Adding and subtracting 1.5 · 2^52 rounds to an integer, whose bits are the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Exponents up to here neither overflow nor lose bits.
const MAX_EXPONENT: f64 = 700.0;
/// Largest angles for which the split π / 2 is exact.
const MAX_ANGLE: f64 = 1e5;
/// ln 2 and π / 2 split into parts, all but the last of so few bits that products with integers are
/// exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
const QUARTER: [f64; 3] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];

/// `e^x` in place of each x.
pub fn exponentials(x: &mut [f64]) {
    if within(x, MAX_EXPONENT) {
        exponentials_within(x);
    } else {
        x.iter_mut().for_each(|x| *x = x.exp());
    }
}

/// `size · e^(i angle)` for each size and angle.
///
/// # Panics
/// If there are not as many of both.
#[must_use]
#[track_caller]
pub fn from_polar(sizes: &[f64], angles: &[f64]) -> Vec<[f64; 2]> {
    assert_eq!(sizes.len(), angles.len(), "angles of {} numbers", sizes.len());
    let mut numbers: Vec<[f64; 2]> = sizes.iter().map(|&size| [size, 0.0]).collect();
    if within(angles, MAX_ANGLE) {
        turn_within(&mut numbers, angles);
    } else {
        for (number, angle) in numbers.iter_mut().zip(angles) {
            let (sin, cos) = angle.sin_cos();
            *number = [number[0] * cos, number[0] * sin];
        }
    }
    numbers
}

fn within(numbers: &[f64], most: f64) -> bool {
    // No early exit, so that the loop is a vector loop.
    numbers.iter().fold(true, |within, number| within & (number.abs() <= most))
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `Σ_k coefficients[k] x^k`, by Horner's rule.
#[inline(always)]
fn series<const FUSED: bool, const TERMS: usize>(x: f64, coefficients: [f64; TERMS]) -> f64 {
    let mut sum = coefficients[TERMS - 1];
    for k in (0..TERMS - 1).rev() {
        sum = multiply_add::<FUSED>(sum, x, coefficients[k]);
    }
    sum
}

/// `sign^k / (first + step · k)!` for k from 0: the coefficients of Taylor series.
const fn inverse_factorials<const TERMS: usize>(
    first: usize,
    step: usize,
    sign: f64,
) -> [f64; TERMS] {
    let mut all = [0.0; TERMS];
    let (mut k, mut signs) = (0, 1.0);
    while k < TERMS {
        let (mut factorial, mut factor) = (1.0, 2);
        while factor <= first + step * k {
            factorial *= factor as f64;
            factor += 1;
        }
        all[k] = signs / factorial;
        signs *= sign;
        k += 1;
    }
    all
}

vectorised! {
    fn exponentials_within<const FUSED: bool>(x: &mut [f64]) {
        const SERIES: [f64; 14] = inverse_factorials(0, 1, 1.0);
        for x in x {
            let shifted = multiply_add::<FUSED>(*x, LOG2_E, ROUND);
            let n = shifted - ROUND;
            let rest = multiply_add::<FUSED>(n, -LN_2[0], *x);
            let rest = multiply_add::<FUSED>(n, -LN_2[1], rest);
            let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
            *x = series::<FUSED, 14>(rest, SERIES) * power;
        }
    }
}

vectorised! {
    fn turn_within<const FUSED: bool>(numbers: &mut [[f64; 2]], angles: &[f64]) {
        const SIN: [f64; 9] = inverse_factorials(1, 2, -1.0);
        const COS: [f64; 9] = inverse_factorials(0, 2, -1.0);
        for (number, &angle) in numbers.iter_mut().zip(angles) {
            let shifted = multiply_add::<FUSED>(angle, FRAC_2_PI, ROUND);
            let quarters = shifted - ROUND;
            let rest = multiply_add::<FUSED>(quarters, -QUARTER[0], angle);
            let rest = multiply_add::<FUSED>(quarters, -QUARTER[1], rest);
            let rest = multiply_add::<FUSED>(quarters, -QUARTER[2], rest);
            let square = rest * rest;
            let sin = rest * series::<FUSED, 9>(square, SIN);
            let cos = series::<FUSED, 9>(square, COS);
            let quarter = shifted.to_bits();
            let odd = quarter & 1 == 1;
            let (re, im) = if odd { (sin, cos) } else { (cos, sin) };
            let signed = |value: f64, bit: u64| f64::from_bits(value.to_bits() ^ (bit & 2) << 62);
            let size = number[0];
            *number = [size * signed(re, quarter.wrapping_add(1)), size * signed(im, quarter)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        let mut stream = RngKey::new(1).stream();
        for scale in [1e-3, 1.0, 100.0, 250.0] {
            let x: Vec<f64> = stream.normals(1001, scale).into_iter().chain([0.0]).collect();
            let mut found = x.clone();
            exponentials(&mut found);
            for (found, x) in found.iter().zip(&x) {
                let want = x.exp();
                assert!((found - want).abs() <= 1e-15 * want, "exp({x}) = {found}, not {want}");
            }
            assert_eq!(found.last(), Some(&1.0));
        }
        let mut ends = [-1e300, 800.0, f64::NEG_INFINITY, f64::INFINITY, -745.0];
        exponentials(&mut ends);
        assert_eq!(ends, [0.0, f64::INFINITY, 0.0, f64::INFINITY, 5e-324]);
    }

    #[test]
    fn turned_numbers_are_those_of_the_standard_library() {
        let mut stream = RngKey::new(2).stream();
        for scale in [1e-3, 1.0, 100.0, 2e4, 1e7] {
            let quarters = (-9..=9).map(|k| f64::from(k) * std::f64::consts::FRAC_PI_2);
            let angles: Vec<f64> =
                stream.normals(999, scale).into_iter().chain(quarters).chain([0.0]).collect();
            let sizes: Vec<f64> = (0..angles.len()).map(|_| stream.uniform() + 0.1).collect();
            let found = from_polar(&sizes, &angles);
            for ((found, angle), size) in found.iter().zip(&angles).zip(&sizes) {
                let (sin, cos) = angle.sin_cos();
                for (found, want) in found.iter().zip([size * cos, size * sin]) {
                    let off = (found - want).abs();
                    assert!(off <= 1e-15 * size, "{angle}: {found}, expected {want}");
                }
            }
            let last = sizes.len() - 1;
            assert_eq!(found[last], [sizes[last], 0.0], "no angle");
        }
        assert!(from_polar(&[1.0], &[f64::NAN])[0][0].is_nan());
    }
}
