//! Reductions in a fixed number of lanes, and the exponential: written so that the compiler turns
//! them into vector instructions inside a function compiled for them. The order of summation is the
//! same on every machine; only fused multiply-adds are not used, so bits agree too.

/// Numbers summed side by side: one AVX-512 register, two of AVX2, four of SSE.
const LANES: usize = 16;

/// Folds `combine` over `map` of the numbers, lane by lane, then over the lanes.
#[inline(always)]
fn reduce<const N: usize>(
    inputs: [&[f32]; N],
    start: f32,
    map: impl Fn([f32; N]) -> f32,
    combine: impl Fn(f32, f32) -> f32,
) -> f32 {
    let len = inputs[0].len();
    let inputs = inputs.map(|input| &input[..len]);
    let whole = len - len % LANES;
    let mut lanes = [start; LANES];
    for at in (0..whole).step_by(LANES) {
        let chunks = inputs.map(|input| &input[at..at + LANES]);
        for (lane, total) in lanes.iter_mut().enumerate() {
            *total = combine(*total, map(chunks.map(|chunk| chunk[lane])));
        }
    }
    for at in whole..len {
        lanes[at - whole] = combine(lanes[at - whole], map(inputs.map(|input| input[at])));
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// `Σ a_i`.
#[inline(always)]
pub(super) fn sum(a: &[f32]) -> f32 {
    reduce([a], 0.0, |[a]| a, |a, b| a + b)
}

/// `Σ a_i b_i`.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    reduce([a, b], 0.0, |[a, b]| a * b, |a, b| a + b)
}

/// `Σ a_i b_i c_i`.
#[inline(always)]
pub(super) fn dot3(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    reduce([a, b, c], 0.0, |[a, b, c]| a * b * c, |a, b| a + b)
}

/// The largest number; NaN are passed over, and of none it is minus infinity.
#[inline(always)]
pub(super) fn max(a: &[f32]) -> f32 {
    reduce([a], f32::NEG_INFINITY, |[a]| a, |a, b| if b > a { b } else { a })
}

/// `e^x` to two units in the last place; overflow gives infinity, underflow zero, NaN stays NaN.
///
/// With n the integer nearest to x / ln 2 and r = x - n ln 2, e^x = 2^n e^r, and e^r for
/// |r| <= ln 2 / 2 is a polynomial (coefficients of `expf` in Cephes, Moshier 1992). ln 2 is split
/// in two so that the product of n with its first part is exact. The power of two is applied in two
/// steps, since 2^128 is no f32 while e^88.7 is.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// Adding and taking away 1.5 * 2^23 rounds to an integer, whose bits stand in the sum.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HEAD: f32 = 355.0 / 512.0;
    const LN2_TAIL: f32 = -2.121_944_4e-4;
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HEAD) - n * LN2_TAIL;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5.0e-1;
    let p = (p * r * r + r) + 1.0;
    let exponent = shifted.to_bits() as i32 - ROUND.to_bits() as i32;
    let half = exponent >> 1;
    p * power_of_two(half) * power_of_two(exponent - half)
}

/// `2^n` for n from -126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn reductions_equal_their_naive_twins_at_every_length() {
        for len in 0..70 {
            let mut stream = RngKey::new(len as u64).stream();
            let (a, b): (Vec<f32>, Vec<f32>) = (stream.normals(len, 1.0), stream.normals(len, 1.0));
            let wide = |v: &f32| f64::from(*v);
            let total: f64 = a.iter().map(wide).sum();
            let product: f64 = a.iter().zip(&b).map(|(a, b)| wide(a) * wide(b)).sum();
            let triple: f64 = a.iter().zip(&b).map(|(a, b)| wide(a) * wide(b) * wide(b)).sum();
            assert!((f64::from(sum(&a)) - total).abs() < 1e-5);
            assert!((f64::from(dot(&a, &b)) - product).abs() < 1e-5);
            assert!((f64::from(dot3(&a, &b, &b)) - triple).abs() < 1e-5);
            assert_eq!(max(&a), a.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }

    #[test]
    fn exponential_equals_the_standard_one() {
        for step in -20_000..=20_000 {
            let x = step as f32 * 4.4e-3;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            let error = (found - expected).abs() / expected.max(1e-37);
            assert!(error < 2.5e-7, "exp({x}) = {found}, expected {expected}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }
}
