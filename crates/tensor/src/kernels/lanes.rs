//! Loops in a fixed number of lanes (reductions, maps, and the exponential), written so that they
//! vectorise inside a `vectorised` function. The order of summation is the same on every machine;
//! only fused multiply-adds make bits differ.

/// Number of lanes: one AVX-512 register, two of AVX2, four of SSE.
pub(super) const LANES: usize = 16;

/// Independent accumulators, so that additions do not wait for each other.
const CHAINS: usize = 4;

/// Applies `function` to each element. `map` of arrays does the same, but compiles to much longer
/// code, and there are hundreds of uses.
#[inline(always)]
fn of_each<A: Copy, B: Copy, const N: usize>(
    from: [A; N],
    start: B,
    function: impl Fn(A) -> B,
) -> [B; N] {
    let mut to = [start; N];
    let mut at = 0;
    while at < N {
        to[at] = function(from[at]);
        at += 1;
    }
    to
}

/// Folds `step` over the numbers, lane by lane, then `merge` over the lanes.
#[inline(always)]
fn reduce<const N: usize>(
    inputs: [&[f32]; N],
    start: f32,
    step: impl Fn(f32, [f32; N]) -> f32,
    merge: impl Fn(f32, f32) -> f32,
) -> f32 {
    let (count, rest) = (inputs[0].len() / LANES, inputs[0].len() % LANES);
    let groups = of_each(inputs, &[][..], |input| &input.as_chunks::<LANES>().0[..count]);
    let ends = of_each(inputs, &[][..], |input| &input[count * LANES..][..rest]);
    // With a constant length the compiler keeps arrays in whole registers.
    let next = |mut lanes: [f32; LANES], at: usize| {
        let group = of_each(groups, [0.0; LANES], |groups| groups[at]);
        for (lane, total) in lanes.iter_mut().enumerate() {
            *total = step(*total, of_each(group, 0.0, |group| group[lane]));
        }
        lanes
    };
    let mut chains = [[start; LANES]; CHAINS];
    for at in 0..count / CHAINS {
        for (chain, lanes) in chains.iter_mut().enumerate() {
            *lanes = next(*lanes, CHAINS * at + chain);
        }
    }
    for at in count / CHAINS * CHAINS..count {
        chains[0] = next(chains[0], at);
    }
    let mut lanes = [0.0; LANES];
    for (lane, total) in lanes.iter_mut().enumerate() {
        let [a, b, c, d] = of_each(chains, 0.0, |chain| chain[lane]);
        *total = merge(merge(a, b), merge(c, d));
    }
    for (lane, total) in lanes.iter_mut().enumerate().take(rest) {
        *total = step(*total, of_each(ends, 0.0, |end| end[lane]));
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = merge(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Replaces every number by `function` of it.
#[inline(always)]
pub(super) fn map(numbers: &mut [f32], function: impl Fn(f32) -> f32) {
    each([numbers], [], |[number], []| [function(number)]);
}

/// Length of the pieces into which [`each`] splits a remainder: one iteration of the vectorised
/// loop, so that no number is processed alone, which would take as long as a register.
const TURN: usize = 4 * LANES;

/// Replaces the numbers of `changed`, one of each slice at a time, by the result of `function` on
/// them and those of `read`. All slices have the length of the first.
#[inline(always)]
pub(super) fn each<const M: usize, const N: usize>(
    mut changed: [&mut [f32]; M],
    read: [&[f32]; N],
    function: impl Fn([f32; M], [f32; N]) -> [f32; M],
) {
    let rest = changed[0].len() % TURN;
    let whole = changed[0].len() - rest;
    each_of_turns(&mut changed, read, whole, &function);
    if rest > 0 {
        let mut ends = [[0.0; TURN]; M];
        let mut turns: [&mut [f32]; M] = [(); M].map(|()| &mut [][..]);
        for ((turn, end), numbers) in turns.iter_mut().zip(&mut ends).zip(&changed) {
            end[..rest].copy_from_slice(&numbers[whole..][..rest]);
            *turn = end;
        }
        let read_ends = of_each(read, [0.0; TURN], |numbers| padded(&numbers[whole..][..rest]));
        let mut read_turns: [&[f32]; N] = [&[]; N];
        for (turn, end) in read_turns.iter_mut().zip(&read_ends) {
            *turn = end;
        }
        each_of_turns(&mut turns, read_turns, TURN, &function);
        for (numbers, end) in changed.into_iter().zip(ends) {
            numbers[whole..][..rest].copy_from_slice(&end[..rest]);
        }
    }
}

/// The first `len` of each slice.
#[inline(always)]
fn each_of_turns<const M: usize, const N: usize>(
    changed: &mut [&mut [f32]; M],
    read: [&[f32]; N],
    len: usize,
    function: &impl Fn([f32; M], [f32; N]) -> [f32; M],
) {
    let mut changed = changed.each_mut().map(|numbers| &mut numbers[..len]);
    let read = of_each(read, &[][..], |numbers| &numbers[..len]);
    for at in 0..len {
        let mut numbers = [0.0; M];
        for (number, changed) in numbers.iter_mut().zip(&changed) {
            *number = changed[at];
        }
        let results = function(numbers, of_each(read, 0.0, |numbers| numbers[at]));
        for (numbers, result) in changed.iter_mut().zip(results) {
            numbers[at] = result;
        }
    }
}

/// An iteration from this index on.
#[inline(always)]
fn padded(numbers: &[f32]) -> [f32; TURN] {
    let mut turn = [0.0; TURN];
    turn[..numbers.len()].copy_from_slice(numbers);
    turn
}

/// `a b + c`, in one rounding if `FUSED`.
#[inline(always)]
pub(super) fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `Σ a_i`.
#[inline(always)]
pub(super) fn sum(a: &[f32]) -> f32 {
    reduce([a], 0.0, |total, [a]| total + a, |a, b| a + b)
}

/// `Σ a_i b_i`.
#[inline(always)]
pub(super) fn dot<const FUSED: bool>(a: &[f32], b: &[f32]) -> f32 {
    let step = |total, [a, b]: [f32; 2]| multiply_add::<FUSED>(a, b, total);
    reduce([a, b], 0.0, step, |a, b| a + b)
}

/// `Σ f(a_i, b_i, ..)`.
#[inline(always)]
pub(super) fn sum_of<const N: usize>(inputs: [&[f32]; N], f: impl Fn([f32; N]) -> f32) -> f32 {
    reduce(inputs, 0.0, |total, numbers| total + f(numbers), |a, b| a + b)
}

/// `Σ (a_i - middle)` and `Σ (a_i - middle)²`.
#[inline(always)]
pub(super) fn moments_about<const FUSED: bool>(a: &[f32], middle: f32) -> (f32, f32) {
    let square = |total, [a]: [f32; 1]| multiply_add::<FUSED>(a - middle, a - middle, total);
    (sum_of([a], |[a]| a - middle), reduce([a], 0.0, square, |a, b| a + b))
}

/// The maximum; NaN are skipped, and of an empty slice it is minus infinity.
#[inline(always)]
pub(super) fn max(a: &[f32]) -> f32 {
    let larger = |a, b| if b > a { b } else { a };
    reduce([a], f32::NEG_INFINITY, |total, [a]| larger(total, a), larger)
}

/// `e^x` to two units in the last place; overflow gives infinity, NaN stays NaN, and below -86,
/// near the smallest normal number (1.2e-38), the result is zero: subnormal numbers are a hundred
/// times slower.
///
/// The power of two is applied in two steps, since 2^128 is no f32 while e^88.7 is.
#[inline(always)]
pub(super) fn exp<const FUSED: bool>(x: f32) -> f32 {
    const MOST: f32 = 89.0;
    let (r, n) = reduced::<FUSED>(if x > MOST { MOST } else { x });
    let p = exp_less_one_near_zero::<FUSED>(r) + 1.0;
    let power = p * power_of_two(n, -1) * 2.0;
    if x < MIN_EXPONENT { 0.0 } else { power }
}

/// Exponents below it give zero.
pub(super) const MIN_EXPONENT: f32 = -86.0;

/// `x = n ln 2 + r` with n the integer nearest to x / ln 2: r, and a number with n in its lowest
/// bits.
///
/// ln 2 is split in two so that the product of n with its first part is exact.
#[inline(always)]
pub(super) fn reduced<const FUSED: bool>(x: f32) -> (f32, u32) {
    /// Adding and subtracting 1.5 * 2^23 rounds to an integer, whose bits are the low bits of the
    /// sum.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HEAD: f32 = 355.0 / 512.0;
    const LN2_TAIL: f32 = -2.121_944_4e-4;
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FUSED>(n, -LN2_HEAD, x);
    (multiply_add::<FUSED>(n, -LN2_TAIL, r), shifted.to_bits())
}

/// `2^(n + more)`, n as from [`reduced`]: the exponent's field holds the sum plus 127, and the bits
/// above n are shifted out.
#[inline(always)]
pub(super) fn power_of_two(n: u32, more: i32) -> f32 {
    f32::from_bits((n << 23).wrapping_add(((127 + more) as u32) << 23))
}

/// `e^r - 1` for |r| <= ln 2 / 2: a polynomial (coefficients of `expf` in Cephes, Moshier 1992),
/// evaluated in pairs (Estrin 1960).
#[inline(always)]
pub(super) fn exp_less_one_near_zero<const FUSED: bool>(r: f32) -> f32 {
    let square = r * r;
    let high = multiply_add::<FUSED>(1.987_569_1e-4, r, 1.398_2e-3);
    let middle = multiply_add::<FUSED>(8.333_452e-3, r, 4.166_579_6e-2);
    let low = multiply_add::<FUSED>(1.666_666_5e-1, r, 5.0e-1);
    let p = multiply_add::<FUSED>(high, square, middle);
    let p = multiply_add::<FUSED>(p, square, low);
    multiply_add::<FUSED>(p, square, r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn reductions_equal_their_naive_twins_at_every_length() {
        for len in 0..200 {
            let mut stream = RngKey::new(len as u64).stream();
            let (a, b): (Vec<f32>, Vec<f32>) = (stream.normals(len, 1.0), stream.normals(len, 1.0));
            let wide = |v: &f32| f64::from(*v);
            let total: f64 = a.iter().map(wide).sum();
            let product: f64 = a.iter().zip(&b).map(|(a, b)| wide(a) * wide(b)).sum();
            let triple: f64 = a.iter().zip(&b).map(|(a, b)| wide(a) * wide(b) * wide(b)).sum();
            let squares: f64 = a.iter().map(|a| (wide(a) - 0.5).powi(2)).sum();
            assert!((f64::from(sum(&a)) - total).abs() < 1e-5);
            assert!((f64::from(dot::<false>(&a, &b)) - product).abs() < 1e-5);
            assert!((f64::from(sum_of([&a, &b], |[a, b]| a * b * b)) - triple).abs() < 1e-5);
            let (first, second) = moments_about::<false>(&a, 0.5);
            assert!((f64::from(first) - (total - 0.5 * len as f64)).abs() < 1e-5);
            assert!((f64::from(second) - squares).abs() < 1e-4);
            assert_eq!(max(&a), a.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }

    #[test]
    fn exponential_equals_the_standard_one() {
        fn check<const FUSED: bool>() {
            for step in -20_000..=20_000 {
                let x = step as f32 * 4.4e-3;
                let (found, expected) = (f64::from(exp::<FUSED>(x)), f64::from(x).exp());
                if x < -86.0 {
                    assert_eq!(found, 0.0, "exp({x})");
                } else {
                    let error = (found - expected).abs() / expected;
                    assert!(error < 2.5e-7, "exp({x}) = {found}, expected {expected}");
                }
            }
            assert_eq!(exp::<FUSED>(0.0), 1.0);
            assert_eq!(exp::<FUSED>(89.0), f32::INFINITY);
            assert_eq!(exp::<FUSED>(f32::INFINITY), f32::INFINITY);
            assert_eq!(exp::<FUSED>(f32::NEG_INFINITY), 0.0);
            assert!(exp::<FUSED>(f32::NAN).is_nan());
        }
        check::<false>();
        check::<true>();
    }

    #[test]
    fn maps_reach_every_number() {
        for len in 0..200 {
            let mut numbers: Vec<f32> = (0..len).map(|k| k as f32).collect();
            map(&mut numbers, |number| 2.0 * number + 1.0);
            assert!(numbers.iter().enumerate().all(|(k, &n)| n == 2.0 * k as f32 + 1.0));
        }
    }
}
