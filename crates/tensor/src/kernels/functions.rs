//! Branch-free elementary functions for nonlinearities, which vectorise in loops inside a
//! `vectorised` function.
//!
//! Each is built on the exponential of a non-positive number, which cannot overflow, and keeps its
//! relative precision in the tails, where `1 + erf` or `1 - sigmoid` would lose it.

use super::lanes::{MIN_EXPONENT, exp_less_one_near_zero, multiply_add, power_of_two, reduced};

/// `1 / (1 + e^-x)` and one minus it, each to three units in the last place.
#[inline(always)]
pub(super) fn sigmoid<const FUSED: bool>(x: f32) -> (f32, f32) {
    let small = exp_of_sum::<FUSED>(-x.abs(), 0.0);
    let above = reciprocal_from_one_to_two::<FUSED>(1.0 + small);
    let below = small * above;
    if x < 0.0 { (below, above) } else { (above, below) }
}

/// `e^x - 1` and `e^x` for x <= 0, to three units in the last place; constant below -86.
#[inline(always)]
pub(super) fn exp_less_one<const FUSED: bool>(x: f32) -> (f32, f32) {
    let (r, n) = reduced::<FUSED>(if x < MIN_EXPONENT { MIN_EXPONENT } else { x });
    let p = exp_less_one_near_zero::<FUSED>(r);
    let power = power_of_two(n, 0);
    // Near zero n is zero too, and the difference is p itself, with all its digits.
    (multiply_add::<FUSED>(p, power, power - 1.0), (p + 1.0) * power)
}

/// `tanh x` and its derivative `1 - tanh² x`, to four units in the last place.
///
/// With m = e^(-2|x|) - 1: tanh |x| = -m / (2 + m) and the slope is 4 e^(-2|x|) / (2 + m)².
#[inline(always)]
pub(super) fn tanh<const FUSED: bool>(x: f32) -> (f32, f32) {
    let (less_one, power) = exp_less_one::<FUSED>(-2.0 * x.abs());
    let share = reciprocal_from_one_to_two::<FUSED>(2.0 + less_one);
    ((-less_one * share).copysign(x), 4.0 * power * share * share)
}

/// Distribution function and density of the standard normal distribution at x, to four units in the
/// last place; below -13.1 both are zero.
///
/// For t = |x|, `Φ(-t) = e^(-t²/2) q(t)`, where q is a rational minimax fit in relative error on 0
/// .. 13.3, accurate to 5e-9. All coefficients are positive, so nothing cancels. The exponential
/// would amplify the rounding error of t² thirteen times at t = 5, so that error is passed as a
/// second part.
#[inline(always)]
pub(super) fn normal<const FUSED: bool>(x: f32) -> (f32, f32) {
    /// From here on the exponential is zero.
    const FAR: f32 = 13.2;
    const ABOVE: [f32; 5] = [0.5, 0.435_685_96, 0.181_306_5, 0.039_984_08, 0.004_020_177];
    const BELOW: [f32; 6] =
        [1.0, 1.669_256_8, 1.194_483_2, 0.464_379_64, 0.100_232_61, 0.010_076_946];
    let t = x.abs();
    let t = if t > FAR { FAR } else { t };
    let (square, rest) = exact_square::<FUSED>(t);
    let power = exp_of_sum::<FUSED>(-0.5 * square, -0.5 * rest);
    let above = polynomial::<FUSED, 5>(ABOVE, t);
    let below = polynomial::<FUSED, 6>(BELOW, t);
    let tail = power * (above / below);
    let density = power * 0.398_942_3;
    (if x < 0.0 { tail } else { 1.0 - tail }, density)
}

/// `1 / d` for 1 <= d <= 2, to two units in the last place, in a third of the time of a vector
/// division.
///
/// The quadratic polynomial of smallest relative error, 1 / 99 (it is `(1 - T_3(3 - 2d) / 99) / d`
/// with the Chebyshev polynomial T_3), then two Newton steps, each of which squares the error:
/// 1e-8.
#[inline(always)]
fn reciprocal_from_one_to_two<const FUSED: bool>(d: f32) -> f32 {
    let r = multiply_add::<FUSED>(32.0 / 99.0, d, -144.0 / 99.0);
    let r = multiply_add::<FUSED>(r, d, 210.0 / 99.0);
    let error = multiply_add::<FUSED>(-d, r, 1.0);
    let r = multiply_add::<FUSED>(r, error, r);
    let error = multiply_add::<FUSED>(-d, r, 1.0);
    multiply_add::<FUSED>(r, error, r)
}

/// `t²`, rounded, and its rounding error.
#[inline(always)]
fn exact_square<const FUSED: bool>(t: f32) -> (f32, f32) {
    if FUSED {
        let square = t * t;
        (square, t.mul_add(t, -square))
    } else {
        // The square of the twelve leading bits is exact.
        let head = f32::from_bits(t.to_bits() & 0xffff_f000);
        (head * head, (t - head) * (t + head))
    }
}

/// `e^(x + rest)` for x <= 0 and a rest that is small beside it; zero below -86.
#[inline(always)]
fn exp_of_sum<const FUSED: bool>(x: f32, rest: f32) -> f32 {
    let (r, n) = reduced::<FUSED>(x);
    let power = (exp_less_one_near_zero::<FUSED>(r + rest) + 1.0) * power_of_two(n, 0);
    if x < MIN_EXPONENT { 0.0 } else { power }
}

/// `Σ c_k x^k`.
#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    coefficients.into_iter().rev().fold(0.0, |sum, c| multiply_add::<FUSED>(sum, x, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest relative error of `found` against `wanted` over a grid, in units of 2^-24.
    fn worst(
        (from, to): (f32, f32),
        found: impl Fn(f32) -> f32,
        wanted: impl Fn(f64) -> f64,
    ) -> f64 {
        const STEPS: usize = 200_003;
        let error = |k: usize| {
            let x = from + (to - from) * (k as f32 / STEPS as f32);
            let want = wanted(f64::from(x));
            let off = (f64::from(found(x)) - want).abs();
            if off == 0.0 { 0.0 } else { off / want.abs() * f64::from(1 << 24) }
        };
        (0..=STEPS).map(error).fold(0.0, f64::max)
    }

    /// Runs a check with and without fused multiply-adds.
    macro_rules! both {
        ($check:ident) => {
            $check::<false>();
            $check::<true>();
        };
    }

    #[test]
    fn reciprocals_equal_divisions() {
        fn check<const FUSED: bool>() {
            let error = worst((1.0, 2.0), reciprocal_from_one_to_two::<FUSED>, |d| 1.0 / d);
            assert!(error < 3.0, "off by {error}");
            assert_eq!([1.0, 2.0].map(reciprocal_from_one_to_two::<FUSED>), [1.0, 0.5]);
        }
        both!(check);
    }

    #[test]
    fn sigmoid_is_precise_on_both_sides() {
        fn check<const FUSED: bool>() {
            let by_libm = |x: f64| 1.0 / (1.0 + libm::exp(-x));
            for range in [(-85.0, 85.0), (-2.0, 2.0)] {
                let above = worst(range, |x| sigmoid::<FUSED>(x).0, by_libm);
                let below = worst(range, |x| sigmoid::<FUSED>(x).1, |x| by_libm(-x));
                assert!(above < 6.0 && below < 6.0, "off by {above} and {below}");
            }
            assert_eq!(sigmoid::<FUSED>(f32::INFINITY), (1.0, 0.0));
            assert_eq!(sigmoid::<FUSED>(f32::NEG_INFINITY), (0.0, 1.0));
            assert!(sigmoid::<FUSED>(f32::NAN).0.is_nan());
        }
        both!(check);
    }

    #[test]
    fn exponential_less_one_keeps_its_digits_near_zero() {
        fn check<const FUSED: bool>() {
            for range in [(-85.0, 0.0), (-1.0, 0.0), (-1e-6, 0.0)] {
                let less_one = worst(range, |x| exp_less_one::<FUSED>(x).0, libm::expm1);
                let power = worst(range, |x| exp_less_one::<FUSED>(x).1, libm::exp);
                assert!(less_one < 6.0 && power < 6.0, "off by {less_one} and {power}");
            }
            assert_eq!(exp_less_one::<FUSED>(f32::NEG_INFINITY).0, -1.0);
            assert!(exp_less_one::<FUSED>(f32::NAN).0.is_nan());
        }
        both!(check);
    }

    #[test]
    fn tanh_and_its_slope_equal_those_of_libm() {
        fn check<const FUSED: bool>() {
            let slope = |x: f64| 1.0 / libm::cosh(x).powi(2);
            for range in [(-42.0, 42.0), (-3.0, 3.0), (-1e-6, 1e-6)] {
                let value = worst(range, |x| tanh::<FUSED>(x).0, libm::tanh);
                let slope = worst(range, |x| tanh::<FUSED>(x).1, slope);
                assert!(value < 8.0 && slope < 8.0, "off by {value} and {slope}");
            }
            assert_eq!(tanh::<FUSED>(f32::NEG_INFINITY).0, -1.0);
            assert_eq!(tanh::<FUSED>(-0.0).0.to_bits(), (-0.0f32).to_bits());
            assert!(tanh::<FUSED>(f32::NAN).0.is_nan());
        }
        both!(check);
    }

    #[test]
    fn normal_distribution_equals_that_of_libm_far_into_the_tail() {
        fn check<const FUSED: bool>() {
            let value = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            let density = |x: f64| libm::exp(-0.5 * x * x) / std::f64::consts::TAU.sqrt();
            for range in [(-13.0, 13.0), (-1.0, 1.0)] {
                let value = worst(range, |x| normal::<FUSED>(x).0, value);
                let density = worst(range, |x| normal::<FUSED>(x).1, density);
                assert!(value < 8.0 && density < 8.0, "off by {value} and {density}");
            }
            assert_eq!(normal::<FUSED>(f32::INFINITY), (1.0, 0.0));
            assert_eq!(normal::<FUSED>(-1e30), (0.0, 0.0));
            assert!(normal::<FUSED>(f32::NAN).0.is_nan());
        }
        both!(check);
    }
}
