//! Products of butterfly factors: sparse n x n matrices, n a power of two, that mix pairs of
//! features by 2 x 2 matrices.
//!
//! Factor k pairs the features whose indices differ in bit `k mod log2 n`; with `half` the value of
//! that bit, pair p is (i, i + half), `i = ⌊p / half⌋ · 2 half + p mod half`. The matrix [a, b, c,
//! d] of a pair computes `y_i = a x_i + b x_j`, `y_j = c x_i + d x_j`. Batches are columns of
//! features: sample `b` of feature `i` is at `i · width + b`.
//!
//! Consecutive levels are fused: k levels mix groups of 2^k features, and such a group, for as many
//! samples as a register has lanes, stays in registers. The backward pass recomputes a group in the
//! first-level cache to get the inputs of its k levels.

#![allow(
    unsafe_code,
    reason = "registers are loaded and stored through raw pointers; bounds are checked here"
)]

use super::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::{Scalar, Scratch};

/// Levels per fused stage of the backward pass: their group is a few kilobytes, recomputed from its
/// input.
const LEVELS_BACK: usize = 4;

/// The matrix of a pair, row-major.
type Pair<T> = [T; 4];

/// Factors of a butterfly, in the order of application.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a, T> {
    /// Features n.
    size: usize,
    /// (factors, n / 2).
    pairs: &'a [Pair<T>],
}

impl<'a, T: Scalar> Factors<'a, T> {
    /// Builds from the matrices of all pairs, (factors, n / 2, 2, 2).
    ///
    /// # Panics
    /// If `size` is not a power of two, or `weights` are not those of whole factors.
    #[must_use]
    #[track_caller]
    pub fn new(size: usize, weights: &'a [T]) -> Self {
        assert!(size.is_power_of_two(), "a butterfly of {size} features");
        let whole = if size > 1 { weights.len() % (2 * size) } else { weights.len() };
        assert_eq!(whole, 0, "{} numbers in factors of {} features", weights.len(), size);
        Self { size, pairs: weights.as_chunks().0 }
    }

    /// Number of factors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pairs.len() / (self.size / 2).max(1)
    }

    /// All factors, in fused stages of at most `levels` levels.
    fn stages(&self, most: usize) -> Vec<Stage<'a, T>> {
        let (size, levels) = (self.size, self.size.ilog2() as usize);
        let mut stages = Vec::new();
        for run in (0..self.count()).step_by(levels.max(1)) {
            let len = levels.min(self.count() - run);
            let parts = len.div_ceil(most);
            for part in 0..parts {
                let (level, end) = (len * part / parts, len * (part + 1) / parts);
                let first = (run + level) * size / 2;
                let pairs = &self.pairs[first..][..(end - level) * size / 2];
                stages.push(Stage { size, first, levels: end - level, step: 1 << level, pairs });
            }
        }
        stages
    }
}

/// A fused stage of consecutive factors. They mix groups of 2^levels features that are `step`
/// apart, independently of each other.
#[derive(Clone, Copy)]
struct Stage<'a, T> {
    size: usize,
    /// Index of the first pair.
    first: usize,
    levels: usize,
    step: usize,
    /// (levels, n / 2).
    pairs: &'a [Pair<T>],
}

impl<T: Scalar> Stage<'_, T> {
    /// First feature of each group, and its first pair in every factor.
    #[inline(always)]
    fn groups(self) -> impl Iterator<Item = (usize, usize)> {
        let within = self.step.ilog2() as usize;
        (0..self.size >> self.levels).map(move |group| {
            let (high, low) = (group >> within, group & (self.step - 1));
            ((high << (within + self.levels)) + low, (high << (within + self.levels - 1)) + low)
        })
    }
}

/// The two members of a group that pair `s` mixes at this level.
#[inline(always)]
fn members(s: usize, level: usize) -> (usize, usize) {
    let low = (s >> level << (level + 1)) | (s & ((1 << level) - 1));
    (low, low + (1 << level))
}

/// Applies all factors in place to `columns` (n, width).
///
/// # Panics
/// If `columns` are not those of n features.
#[track_caller]
pub fn apply<T: Scalar>(factors: Factors<'_, T>, columns: &mut [T]) {
    mix(factors, Sequence::FirstToLast, columns);
}

/// Applies the transposed factors in place to `columns` (n, width), the last one first.
///
/// # Panics
/// As [`apply`].
#[track_caller]
pub fn apply_reversed<T: Scalar>(factors: Factors<'_, T>, columns: &mut [T]) {
    mix(factors, Sequence::LastToFirst, columns);
}

#[track_caller]
fn mix<T: Scalar>(factors: Factors<'_, T>, sequence: Sequence, columns: &mut [T]) {
    assert!(columns.len().is_multiple_of(factors.size), "columns of {} features", factors.size);
    if !columns.is_empty() {
        dispatch_columns(columns.len() / factors.size, Mix { factors, sequence, columns });
    }
}

/// Converts the gradient `d` (n, width) of the result of [`apply`] on `x` (n, width) to that of
/// `x`, and adds the gradients of all pairs to `grad` (factors, n / 2, 2, 2).
///
/// # Panics
/// If the lengths do not match.
#[track_caller]
pub fn back<T: Scalar>(factors: Factors<'_, T>, x: &[T], d: &mut [T], grad: &mut [T]) {
    assert!(d.len().is_multiple_of(factors.size), "columns of {} features", factors.size);
    assert_eq!(x.len(), d.len(), "inputs and gradients");
    assert_eq!(grad.len(), 4 * factors.pairs.len(), "gradients of all pairs");
    if !d.is_empty() {
        let grad = grad.as_chunks_mut().0;
        dispatch_columns(d.len() / factors.size, Back { factors, x, d, grad });
    }
}

/// A singular pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingularPair {
    /// Index of the pair.
    pub index: usize,
    /// Its determinant: zero or not finite.
    pub determinant: f64,
}

/// The determinant of every pair.
fn determinants<T: Scalar>(weights: &[T]) -> impl Iterator<Item = Result<f64, SingularPair>> {
    weights.as_chunks::<4>().0.iter().enumerate().map(|(index, pair)| {
        let [a, b, c, d] = pair.map(T::to_f64);
        let determinant = a * d - b * c;
        let fine = determinant.is_finite() && determinant != 0.0;
        if fine { Ok(determinant) } else { Err(SingularPair { index, determinant }) }
    })
}

/// Writes the inverse of every pair.
///
/// # Errors
/// [`SingularPair`], the first one.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn inverses<T: Scalar>(weights: &[T], inverses: &mut [T]) -> Result<(), SingularPair> {
    assert_eq!(weights.len(), inverses.len(), "numbers of pairs");
    let pairs = weights.as_chunks::<4>().0.iter().zip(inverses.as_chunks_mut::<4>().0);
    for ((pair, inverse), determinant) in pairs.zip(determinants(weights)) {
        let (determinant, [a, b, c, d]) = (determinant?, pair.map(T::to_f64));
        *inverse = [d, -b, -c, a].map(|value| T::from_f64(value / determinant));
    }
    Ok(())
}

/// `Σ log|det|` over all pairs, and the product of the signs.
///
/// # Errors
/// [`SingularPair`], the first one.
pub fn log_abs_det<T: Scalar>(weights: &[T]) -> Result<(f64, f64), SingularPair> {
    determinants(weights).try_fold((0.0, 1.0), |(log_abs, sign), determinant| {
        determinant.map(|d| (log_abs + d.abs().ln(), sign * d.signum()))
    })
}

/// Writes the rotation by each angle as a pair: [cos, -sin, sin, cos].
///
/// # Panics
/// If there are not four numbers for each angle.
#[track_caller]
pub fn turns<T: Scalar>(angles: &[T], weights: &mut [T]) {
    assert_eq!(weights.len(), 4 * angles.len(), "numbers of turns");
    for (pair, angle) in weights.as_chunks_mut().0.iter_mut().zip(angles) {
        let (sin, cos) = angle.to_f64().sin_cos();
        *pair = [cos, -sin, sin, cos].map(T::from_f64);
    }
}

/// Adds the gradients of the angles of rotations, from those of their pairs, to `grad`.
///
/// # Panics
/// If there are not four numbers for each angle.
#[track_caller]
pub fn add_gradient_of_turns<T: Scalar>(turns: &[T], d_turns: &[T], grad: &mut [T]) {
    assert_eq!((turns.len(), d_turns.len()), (4 * grad.len(), 4 * grad.len()), "numbers of turns");
    let pairs = turns.as_chunks::<4>().0.iter().zip(d_turns.as_chunks::<4>().0);
    for (([cos, _, sin, _], [a, b, c, d]), grad) in pairs.zip(grad) {
        *grad += *cos * (*c - *b) - *sin * (*a + *d);
    }
}

/// Order and transposition of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
    FirstToLast,
    LastToFirst,
}

/// The product of a pair with two features.
#[inline(always)]
fn pair_of<V: Lanes>([a, b, c, d]: [V; 4], x: V, y: V) -> [V; 2] {
    [x.times_plus(a, y.times(b)), x.times_plus(c, y.times(d))]
}

/// [`apply`] in registers whose lanes divide the width.
struct Mix<'a, T> {
    factors: Factors<'a, T>,
    sequence: Sequence,
    columns: &'a mut [T],
}

impl<T: Scalar> Job<T> for Mix<'_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        let Self { factors, sequence, columns } = self;
        let mut stages = factors.stages(V::LEVELS);
        if sequence == Sequence::LastToFirst {
            stages.reverse();
        }
        let (at, width) = (columns.as_mut_ptr(), columns.len() / factors.size);
        stages.into_iter().for_each(|stage| through::<V>(stage, sequence, at, at, width));
    }
}

/// Applies a fused stage to columns, in place or to another buffer.
fn through<V: Lanes>(
    stage: Stage<'_, V::Number>,
    sequence: Sequence,
    from: *const V::Number,
    into: *mut V::Number,
    width: usize,
) {
    let pass = Through { stage, sequence, from, into, width };
    match stage.levels {
        1 => V::run(OfRadix::<_, 2>(pass)),
        2 => V::run(OfRadix::<_, 4>(pass)),
        3 => V::run(OfRadix::<_, 8>(pass)),
        4 => V::run(OfRadix::<_, 16>(pass)),
        levels => unreachable!("no stage has {levels} levels"),
    }
}

/// A stage whose groups stay in registers. Both places hold n columns of the width, which the lanes
/// divide.
struct Through<'a, T> {
    stage: Stage<'a, T>,
    sequence: Sequence,
    from: *const T,
    into: *mut T,
    width: usize,
}

/// A pass whose radix is a constant.
struct OfRadix<P, const R: usize>(P);

impl<V: Lanes, const R: usize> Pass<V> for OfRadix<Through<'_, V::Number>, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Through { stage, sequence, from, into, width } = self.0;
        for (feature, pair) in stage.groups() {
            for at in (0..width).step_by(V::WIDTH) {
                let place = |r: usize| (feature + r * stage.step) * width + at;
                // SAFETY: features of a group are below n, and so are their numbers within the
                // columns.
                let mut v: [V; R] = std::array::from_fn(|r| unsafe { V::load(from.add(place(r))) });
                // Every level is a call of its own, so that places in the array are constants.
                match sequence {
                    Sequence::FirstToLast => {
                        level::<V, R, 0>(stage, pair, &mut v);
                        level::<V, R, 1>(stage, pair, &mut v);
                        level::<V, R, 2>(stage, pair, &mut v);
                        level::<V, R, 3>(stage, pair, &mut v);
                    }
                    Sequence::LastToFirst => {
                        level::<V, R, 3>(stage, pair, &mut v);
                        level::<V, R, 2>(stage, pair, &mut v);
                        level::<V, R, 1>(stage, pair, &mut v);
                        level::<V, R, 0>(stage, pair, &mut v);
                    }
                }
                for (r, v) in v.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { v.store(into.add(place(r))) };
                }
            }
        }
    }
}

/// One level of a group in registers, if the radix includes it.
#[inline(always)]
fn level<V: Lanes, const R: usize, const LEVEL: usize>(
    stage: Stage<'_, V::Number>,
    first: usize,
    v: &mut [V; R],
) {
    if R >> LEVEL < 2 {
        return;
    }
    let pairs = &stage.pairs[LEVEL * stage.size / 2..][..stage.size / 2];
    for s in 0..R / 2 {
        let (i, j) = members(s, LEVEL);
        // SAFETY: the group has R / 2 pairs `step` apart, the last below n / 2.
        let pair = unsafe { pairs.get_unchecked(first + s * stage.step) };
        [v[i], v[j]] = pair_of(pair.map(V::splat), v[i], v[j]);
    }
}

/// [`back`] in registers whose lanes divide the width.
struct Back<'a, T> {
    factors: Factors<'a, T>,
    x: &'a [T],
    d: &'a mut [T],
    grad: &'a mut [Pair<T>],
}

impl<T: Scalar> Job<T> for Back<'_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        let Self { factors, x, d, grad } = self;
        let (len, width) = (x.len(), x.len() / factors.size);
        let stages = factors.stages(LEVELS_BACK);
        // The inputs of all stages but the first.
        let mut inputs = Scratch::new(stages.len().saturating_sub(1) * len);
        for k in 1..stages.len() {
            let (before, here) = inputs.split_at_mut((k - 1) * len);
            let from = if k == 1 { x } else { &before[(k - 2) * len..] };
            let (from, into) = (from.as_ptr(), here.as_mut_ptr());
            through::<V>(stages[k - 1], Sequence::FirstToLast, from, into, width);
        }
        let group = width << LEVELS_BACK;
        let mut memory = Scratch::new((LEVELS_BACK + 1) * group);
        for (k, &stage) in stages.iter().enumerate().rev() {
            let input = if k == 0 { x } else { &inputs[(k - 1) * len..][..len] };
            let grad = &mut grad[stage.first..][..stage.pairs.len()];
            let (d, (d_group, inputs)) = (&mut *d, memory.split_at_mut(group));
            V::run(StageBack { stage, input, d, grad, d_group, inputs, width });
        }
    }
}

/// Backward pass of a fused stage, group by group in the first-level cache.
struct StageBack<'a, T> {
    stage: Stage<'a, T>,
    input: &'a [T],
    d: &'a mut [T],
    grad: &'a mut [Pair<T>],
    /// Memory for the gradient of a group.
    d_group: &'a mut [T],
    /// Memory for the inputs of a group at all levels.
    inputs: &'a mut [T],
    width: usize,
}

impl<V: Lanes> Pass<V> for StageBack<'_, V::Number> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { stage, input, d, grad, d_group, inputs, width } = self;
        let (pairs, len) = (1 << (stage.levels - 1), width << stage.levels);
        let d_group = &mut d_group[..len];
        for (feature, first) in stage.groups() {
            let place = |r: usize| (feature + r * stage.step) * width;
            let into = inputs.chunks_exact_mut(width).zip(d_group.chunks_exact_mut(width));
            for (r, (x_group, d_group)) in into.take(2 * pairs).enumerate() {
                x_group.copy_from_slice(&input[place(r)..][..width]);
                d_group.copy_from_slice(&d[place(r)..][..width]);
            }
            let pair = |level: usize, s: usize| level * stage.size / 2 + first + s * stage.step;
            for level in 0..stage.levels - 1 {
                let (from, into) = inputs[level * len..][..2 * len].split_at_mut(len);
                for s in 0..pairs {
                    let pair = &stage.pairs[pair(level, s)];
                    let (i, j) = members(s, level);
                    forth::<V>(pair, i, j, from, into, width);
                }
            }
            for level in (0..stage.levels).rev() {
                let x = &inputs[level * len..][..len];
                for s in 0..pairs {
                    let (at, (i, j)) = (pair(level, s), members(s, level));
                    let pulled = pulled_back::<V>(&stage.pairs[at], i, j, x, d_group, width);
                    grad[at].iter_mut().zip(pulled).for_each(|(grad, pulled)| *grad += pulled);
                }
            }
            for (r, d_group) in d_group.chunks_exact(width).enumerate() {
                d[place(r)..][..width].copy_from_slice(d_group);
            }
        }
    }
}

/// One pair of a group, from one place in memory to another.
#[inline(always)]
fn forth<V: Lanes>(
    pair: &Pair<V::Number>,
    i: usize,
    j: usize,
    from: &[V::Number],
    into: &mut [V::Number],
    width: usize,
) {
    let (pair, end) = (pair.map(V::splat), (j + 1) * width);
    assert!(i < j && end <= from.len() && end <= into.len(), "members of a group");
    for at in (0..width).step_by(V::WIDTH) {
        // SAFETY: by the assertion; the lanes divide the width.
        unsafe {
            let load = |member: usize| V::load(from.as_ptr().add(member * width + at));
            let [x, y] = pair_of(pair, load(i), load(j));
            x.store(into.as_mut_ptr().add(i * width + at));
            y.store(into.as_mut_ptr().add(j * width + at));
        }
    }
}

/// Gradients of a pair's inputs, in place, and of the pair.
#[inline(always)]
fn pulled_back<V: Lanes>(
    pair: &Pair<V::Number>,
    i: usize,
    j: usize,
    x: &[V::Number],
    d: &mut [V::Number],
    width: usize,
) -> Pair<V::Number> {
    let ([a, b, c, d_of_y], end) = (pair.map(V::splat), (j + 1) * width);
    assert!(i < j && end <= x.len() && end <= d.len(), "members of a group");
    let mut sums = [V::splat(V::Number::ZERO); 4];
    for at in (0..width).step_by(V::WIDTH) {
        // SAFETY: by the assertion; the lanes divide the width.
        unsafe {
            let (x_i, x_j) = (x.as_ptr().add(i * width + at), x.as_ptr().add(j * width + at));
            let (d_i, d_j) =
                (d.as_mut_ptr().add(i * width + at), d.as_mut_ptr().add(j * width + at));
            let (x, y, dx, dy) = (V::load(x_i), V::load(x_j), V::load(d_i), V::load(d_j));
            sums = [
                dx.times_plus(x, sums[0]),
                dx.times_plus(y, sums[1]),
                dy.times_plus(x, sums[2]),
                dy.times_plus(y, sums[3]),
            ];
            let [dx, dy] = pair_of([a, c, b, d_of_y], dx, dy);
            dx.store(d_i);
            dy.store(d_j);
        }
    }
    V::sums(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    fn random<T: Scalar>(rows: usize, cols: usize, seed: u64) -> Mat<T> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    fn naive_product(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(a.rows(), b.cols(), |i, j| {
            (0..a.cols()).map(|k| a.at(i, k) * b.at(k, j)).sum()
        })
    }

    /// One factor as a dense matrix, from the definition.
    fn dense_factor(size: usize, level: usize, pairs: &[f64]) -> Mat<f64> {
        let (half, mut dense) = (1 << level, Mat::zeros(size, size));
        for (p, pair) in pairs.as_chunks::<4>().0.iter().enumerate() {
            let i = p / half * 2 * half + p % half;
            for (k, &value) in pair.iter().enumerate() {
                *dense.at_mut(i + k / 2 * half, i + k % 2 * half) = value;
            }
        }
        dense
    }

    fn naive(size: usize, weights: &[f64], x: &Mat<f64>) -> Vec<Mat<f64>> {
        let mut all = vec![x.clone()];
        for (k, pairs) in weights.chunks(2 * size).enumerate() {
            let factor = dense_factor(size, k % size.ilog2() as usize, pairs);
            all.push(naive_product(&factor, &all[k]));
        }
        all
    }

    fn agrees<T: Scalar>(size: usize, count: usize, width: usize) {
        let weights = random::<T>(count, 2 * size, 3);
        let factors = Factors::new(size, weights.data());
        assert_eq!(factors.count(), count);
        let x = random::<T>(size, width, 4);
        let (wide, wide_x) = (weights.cast::<f64>(), x.cast::<f64>());
        let expected = naive(size, wide.data(), &wide_x);
        let tolerance = 100.0 * T::EPSILON.to_f64();
        let close = |found: &[T], expected: &Mat<f64>| {
            let largest = expected.data().iter().fold(1.0_f64, |m, v| m.max(v.abs()));
            for (found, expected) in found.iter().zip(expected.data()) {
                let off = (found.to_f64() - expected).abs();
                assert!(off < tolerance * largest, "{found} is not {expected}, {size} x {count}");
            }
        };
        let mut y = x.clone();
        apply(factors, y.data_mut());
        close(y.data(), &expected[count]);
        let mut backwards = x.data().to_vec();
        apply_reversed(factors, &mut backwards);
        let reversed = (0..count).rev().fold(wide_x.clone(), |x, k| {
            let level = k % size.ilog2() as usize;
            naive_product(&dense_factor(size, level, wide.row(k)), &x)
        });
        close(&backwards, &reversed);
        let d = random::<T>(size, width, 5);
        let (mut found_d, mut grad) = (d.data().to_vec(), vec![T::ONE; weights.data().len()]);
        back(factors, x.data(), &mut found_d, &mut grad);
        let mut d = d.cast::<f64>();
        for k in (0..count).rev() {
            let level = k % size.ilog2() as usize;
            let (whole, half) = (naive_product(&d, &expected[k].transpose()), 1 << level);
            let pairs = Mat::from_fn(1, 2 * size, |_, at| {
                let i = at / 4 / half * 2 * half + at / 4 % half;
                1.0 + whole.at(i + at % 4 / 2 * half, i + at % 2 * half)
            });
            close(&grad[k * 2 * size..][..2 * size], &pairs);
            d = naive_product(&dense_factor(size, level, wide.row(k)).transpose(), &d);
        }
        close(&found_d, &d);
    }

    #[test]
    fn products_and_gradients_equal_their_naive_twins() {
        for (size, count) in [(2, 1), (2, 3), (4, 2), (8, 3), (8, 8), (16, 2), (16, 5)] {
            for width in [0, 1, 4, 5, 8, 16, 35, 48] {
                agrees::<f64>(size, count, width);
            }
        }
        agrees::<f32>(256, 9, 32);
        agrees::<f32>(128, 7, 8);
        agrees::<f64>(256, 8, 1);
    }

    #[test]
    fn one_feature_has_no_factors() {
        let mut x = [2.0, 3.0];
        apply(Factors::new(1, &[]), &mut x);
        back(Factors::new(1, &[]), &[2.0, 3.0], &mut x, &mut []);
        assert_eq!(x, [2.0, 3.0]);
    }

    #[test]
    fn inverses_undo_pairs_and_singular_ones_are_found() {
        let mut weights = vec![1.0, 2.0, 3.0, 4.0, 0.0, -2.0, 1.0, 0.0];
        let mut found = vec![0.0; 8];
        inverses(&weights, &mut found).unwrap();
        assert_eq!(found, [-2.0, 1.0, 1.5, -0.5, 0.0, 1.0, -0.5, 0.0]);
        let (log_abs, sign) = log_abs_det(&weights).unwrap();
        assert!((log_abs - 4.0_f64.ln()).abs() < 1e-15 && sign == -1.0);
        weights[5] = 0.0;
        let singular = SingularPair { index: 1, determinant: 0.0 };
        assert_eq!(inverses(&weights, &mut found), Err(singular));
        assert_eq!(log_abs_det(&weights), Err(singular));
        weights[5] = f64::NAN;
        assert!(log_abs_det(&weights).is_err());
    }

    #[test]
    fn turns_are_rotations_and_their_gradients_are_differences() {
        let (angles, d) = ([0.3, -1.2], random::<f64>(1, 8, 6));
        let of = |angles: &[f64]| {
            let mut weights = vec![0.0; 8];
            turns(angles, &mut weights);
            weights
        };
        let weights = of(&angles);
        assert_eq!(weights[..4], [0.3_f64.cos(), -0.3_f64.sin(), 0.3_f64.sin(), 0.3_f64.cos()]);
        let mut grad = [1.0, 1.0];
        add_gradient_of_turns(&weights, d.data(), &mut grad);
        for k in 0..2 {
            let moved = |by: f64| {
                let mut angles = angles;
                angles[k] += by;
                of(&angles).iter().zip(d.data()).map(|(w, d)| w * d).sum::<f64>()
            };
            let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((grad[k] - 1.0 - slope).abs() < 1e-8);
        }
    }
}
