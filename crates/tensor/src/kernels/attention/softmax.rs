//! Online softmax: scores become exponentials, with one query per lane.

use crate::kernels::instructions::vectorised;
use crate::kernels::lanes::multiply_add;
use std::f32::consts::{LN_2, LOG2_E};

/// Queries per column.
pub(super) const WIDTH: usize = 32;
/// Queries per register of AVX-512.
const LANES: usize = 16;
const PARTS: usize = WIDTH / LANES;
/// Initial maximum: below every score, and finite, so that its distance to itself is zero.
const NO_SCORE: f32 = -1e30;

/// The maximum is updated lazily: exponentials relative to an earlier maximum may grow up to this,
/// so sums over earlier keys are rarely rescaled.
const STEP: f32 = 8.0;

/// Running maximum and sum of the softmax of a column of queries.
#[derive(Clone, Debug)]
pub(super) struct RunningSoftmax {
    /// Binary logarithm of about the largest exponential.
    max: [f32; WIDTH],
    /// Sum of the exponentials, divided by the largest.
    sum: [f32; WIDTH],
}

impl RunningSoftmax {
    pub(super) fn empty() -> Self {
        Self { max: [NO_SCORE; WIDTH], sum: [0.0; WIDTH] }
    }

    /// Final factors of the weighted sums of values.
    pub(super) fn shares(&self) -> [f32; WIDTH] {
        self.sum.map(|sum| if sum > 0.0 { 1.0 / sum } else { 0.0 })
    }

    /// Logarithm of the sum of the exponentials of one query's scores.
    pub(super) fn log_sum(&self, column: usize) -> f32 {
        log_sum(self.max[column], self.sum[column])
    }
}

/// Natural logarithm of `sum` times two to the power of `max`.
pub(super) fn log_sum(max: f32, sum: f32) -> f32 {
    if sum > 0.0 { max * LN_2 + sum.ln() } else { f32::NEG_INFINITY }
}

/// `2^x` for `x <= 100` to 1.5 units in the last place; zero below -126, where results would be
/// subnormal; NaN stays NaN.
///
/// `2^x = 2^n 2^r` with the integer n nearest to x. `2^r` is the minimax polynomial of degree 5 (in
/// relative error, |r| <= 1/2) that is exact at zero.
#[allow(clippy::approx_constant, reason = "a fitted coefficient lies near ln 2")]
#[inline(always)]
pub(super) fn power<const FUSED: bool>(x: f32) -> f32 {
    /// Adding and subtracting 1.5 * 2^23 rounds to an integer, whose bits are the low bits of the
    /// sum.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let p = multiply_add::<FUSED>(1.326_472_3e-3, r, 9.671_513e-3);
    let p = multiply_add::<FUSED>(p, r, 5.550_733_6e-2);
    let p = multiply_add::<FUSED>(p, r, 2.402_224_2e-1);
    let p = multiply_add::<FUSED>(p, r, 6.931_47e-1);
    let p = multiply_add::<FUSED>(p, r, 1.0);
    let power = f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x < -126.0 { 0.0 } else { power }
}

/// `tanh(x)` to three units in the last place: near zero by a polynomial (coefficients of `tanhf`
/// in Cephes, Moshier 1992), elsewhere by the exponential of `-2 |x|`.
#[inline(always)]
pub(super) fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let square = x * x;
    let p = multiply_add::<FUSED>(-5.704_988_7e-3, square, 2.063_909e-2);
    let p = multiply_add::<FUSED>(p, square, -5.373_971_6e-2);
    let p = multiply_add::<FUSED>(p, square, 1.333_144_2e-1);
    let p = multiply_add::<FUSED>(p, square, -3.333_328e-1);
    let near = multiply_add::<FUSED>(p * square, x, x);
    let power = power::<FUSED>(-2.0 * LOG2_E * x.abs());
    let far = ((1.0 - power) / (1.0 + power)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

vectorised! {
    /// Converts `s / cap` to the binary logarithm of the exponential of `cap tanh(s / cap)`.
    pub(super) fn cap<const FUSED: bool>(scores: &mut [f32], cap: f32) {
        let cap = cap * LOG2_E;
        for score in scores {
            *score = cap * tanh::<FUSED>(*score);
        }
    }
}

vectorised! {
    /// Masks scores of keys that a query does not attend to: row k of `scores` belongs to key
    /// `first + k`, and a query attends to keys from its `from` to before its `to`.
    pub(super) fn hide<const FUSED: bool>(
        scores: &mut [f32],
        first: usize,
        from: &[i32; WIDTH],
        to: &[i32; WIDTH],
    ) {
        for (key, row) in (first as i32..).zip(scores.as_chunks_mut::<WIDTH>().0) {
            for ((score, from), to) in row.iter_mut().zip(from).zip(to) {
                *score = if key < *from || key >= *to { f32::NEG_INFINITY } else { *score };
            }
        }
    }
}

vectorised! {
    /// Replaces scores (keys, WIDTH) by powers of two of their distance to about the largest score
    /// so far, updates the running maximum and sum, and returns the factors by which earlier sums
    /// over keys must be rescaled.
    pub(super) fn powers<const FUSED: bool>(scores: &mut [f32], seen: &mut RunningSoftmax) -> [f32; WIDTH] {
        let rows = scores.as_chunks_mut::<LANES>().0;
        let mut changes = [1.0; WIDTH];
        for part in 0..PARTS {
            let lanes = part * LANES..(part + 1) * LANES;
            // Four maxima, since a single one would be a dependency chain.
            let mut maxima = [[NO_SCORE; LANES]; 4];
            maxima[0].copy_from_slice(&seen.max[lanes.clone()]);
            let fours = rows.chunks_exact(4 * PARTS);
            for row in fours.remainder().iter().skip(part).step_by(PARTS) {
                maxima[0] = larger(maxima[0], *row);
            }
            for four in fours {
                maxima = std::array::from_fn(|k| larger(maxima[k], four[k * PARTS + part]));
            }
            let [a, b, c, d] = maxima;
            let max = larger(larger(a, b), larger(c, d));
            let before = &seen.max[lanes.clone()];
            let max: [f32; LANES] = std::array::from_fn(|lane| {
                if max[lane] > before[lane] + STEP { max[lane] } else { before[lane] }
            });
            let mut change = [0.0; LANES];
            for ((change, before), max) in change.iter_mut().zip(before).zip(max) {
                *change = power::<FUSED>(before - max);
            }
            let mut sum = [0.0; LANES];
            for row in rows.iter_mut().skip(part).step_by(PARTS) {
                *row = std::array::from_fn(|lane| power::<FUSED>(row[lane] - max[lane]));
                sum = std::array::from_fn(|lane| sum[lane] + row[lane]);
            }
            for ((total, sum), change) in seen.sum[lanes.clone()].iter_mut().zip(sum).zip(change) {
                *total = multiply_add::<FUSED>(*total, change, sum);
            }
            seen.max[lanes.clone()].copy_from_slice(&max);
            changes[lanes].copy_from_slice(&change);
        }
        changes
    }
}

#[inline(always)]
fn larger(a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
    std::array::from_fn(|lane| if b[lane] > a[lane] { b[lane] } else { a[lane] })
}

vectorised! {
    /// Multiplies each column of `rows` (any, WIDTH) by its factor.
    pub(super) fn multiply<const FUSED: bool>(rows: &mut [f32], factors: &[f32; WIDTH]) {
        for row in rows.as_chunks_mut::<WIDTH>().0 {
            for (number, factor) in row.iter_mut().zip(factors) {
                *number *= factor;
            }
        }
    }
}

vectorised! {
    /// `to = factor from`.
    pub(super) fn scaled<const FUSED: bool>(from: &[f32], factor: f32, to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = factor * from;
        }
    }
}
