//! Products of butterfly factors: sparse n x n matrices, n a power of two, that mix features in
//! pairs by 2 x 2 matrices.
//!
//! Factor k pairs the features whose numbers differ in the bit `k mod log2 n`; with `half` its
//! value, pair p is (i, i + half), `i = ⌊p / half⌋ · 2 half + p mod half`. The matrix [a, b, c, d]
//! of a pair makes `y_i = a x_i + b x_j`, `y_j = c x_i + d x_j`. Batches are columns of features:
//! number `b` of feature `i` stands at `i · width + b`.

use super::instructions::vectorised;
use crate::Scalar;

/// Numbers handled side by side: a register of AVX-512.
const LANES: usize = 16;
/// Factors that are applied to a part of the features before the next part is read, which then
/// stays in the first-level cache.
const LOCAL: usize = 7;

/// The matrix of a pair, row-major.
type Pair<T> = [T; 4];

/// Factors of a butterfly, first applied first.
#[derive(Clone, Copy, Debug)]
pub struct Factors<'a, T> {
    /// Features n.
    size: usize,
    /// (factors, n / 2).
    pairs: &'a [Pair<T>],
}

impl<'a, T: Scalar> Factors<'a, T> {
    /// From the matrices of all pairs, (factors, n / 2, 2, 2).
    ///
    /// # Panics
    /// If `size` is no power of two, or `weights` are not those of whole factors.
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

    fn level(&self, factor: usize) -> usize {
        factor % self.size.ilog2() as usize
    }

    fn factor(&self, factor: usize) -> &'a [Pair<T>] {
        &self.pairs[factor * self.size / 2..][..self.size / 2]
    }
}

/// Applies all factors in place to `columns` (n, width).
///
/// # Panics
/// If `columns` are not those of n features.
#[track_caller]
pub fn apply<T: Scalar>(factors: Factors<'_, T>, columns: &mut [T]) {
    assert!(columns.len().is_multiple_of(factors.size), "columns of {} features", factors.size);
    if !columns.is_empty() {
        apply_all(factors, Order::FirstToLast, columns);
    }
}

/// Applies all factors in place to `columns` (n, width), the last one first.
///
/// # Panics
/// As [`apply`].
#[track_caller]
pub fn apply_reversed<T: Scalar>(factors: Factors<'_, T>, columns: &mut [T]) {
    assert!(columns.len().is_multiple_of(factors.size), "columns of {} features", factors.size);
    if !columns.is_empty() {
        apply_all(factors, Order::LastToFirst, columns);
    }
}

/// A pair without an inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingularPair {
    /// Which pair of all.
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

/// Applies all factors to the first `n · width` numbers of `inputs`, and leaves there the inputs of
/// every factor and then the result: (factors + 1, n, width).
///
/// # Panics
/// If the lengths do not match.
#[track_caller]
pub fn apply_and_keep<T: Scalar>(factors: Factors<'_, T>, inputs: &mut [T]) {
    let slabs = (factors.count() + 1) * factors.size;
    assert!(inputs.len().is_multiple_of(slabs), "{} numbers in {slabs} columns", inputs.len());
    if !inputs.is_empty() {
        keep_all(factors, inputs);
    }
}

/// Turns the gradient `d` (n, width) of the result into that of the input, and adds the gradients of
/// all pairs to `grad` (factors, n / 2, 2, 2). `inputs` are what [`apply_and_keep`] left.
///
/// # Panics
/// If the lengths do not match.
#[track_caller]
pub fn back<T: Scalar>(factors: Factors<'_, T>, inputs: &[T], d: &mut [T], grad: &mut [T]) {
    assert_eq!(inputs.len(), (factors.count() + 1) * d.len(), "inputs of all factors");
    assert_eq!(grad.len(), 4 * factors.pairs.len(), "gradients of all pairs");
    if !d.is_empty() {
        back_all(factors, inputs, d, grad);
    }
}

/// Writes the turn by each angle as a pair: [cos, -sin, sin, cos].
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

/// Adds the gradients of the angles of `turns`, given those of their numbers, to `grad`.
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

vectorised! {
    fn apply_all<const FUSED: bool, T: Scalar>(
        factors: Factors<'_, T>, order: Order, columns: &mut [T],
    ) {
        let size = factors.size;
        let width = columns.len() / size;
        let levels = size.ilog2() as usize;
        // Runs of rising levels, the last of which may be shorter.
        let runs = factors.count().div_ceil(levels.max(1));
        for run in 0..runs {
            let run = if order == Order::FirstToLast { run } else { runs - 1 - run };
            let first = run * levels;
            let last = factors.count().min(first + levels);
            let middle = last.min(first + LOCAL);
            if order == Order::LastToFirst {
                neighbours::<FUSED, T>(factors, middle..last, order, 0, (columns, width));
            }
            let features = 1 << (middle - first);
            for (part, columns) in columns.chunks_exact_mut(features * width).enumerate() {
                let columns = (columns, width);
                neighbours::<FUSED, T>(factors, first..middle, order, part * features, columns);
            }
            if order == Order::FirstToLast {
                neighbours::<FUSED, T>(factors, middle..last, order, 0, (columns, width));
            }
        }
    }
}

vectorised! {
    fn keep_all<const FUSED: bool, T: Scalar>(factors: Factors<'_, T>, inputs: &mut [T]) {
        let len = inputs.len() / (factors.count() + 1);
        let width = len / factors.size;
        for factor in 0..factors.count() {
            let (from, into) = inputs[factor * len..][..2 * len].split_at_mut(len);
            let half = width << factors.level(factor);
            let mut pairs = factors.factor(factor).iter();
            for (from, into) in from.chunks_exact(2 * half).zip(into.chunks_exact_mut(2 * half)) {
                let ((low, high), (to_low, to_high)) =
                    (from.split_at(half), into.split_at_mut(half));
                let from = low.chunks_exact(width).zip(high.chunks_exact(width));
                let into = to_low.chunks_exact_mut(width).zip(to_high.chunks_exact_mut(width));
                for (((a, b), (to_a, to_b)), pair) in from.zip(into).zip(&mut pairs) {
                    copied::<FUSED, T>(pair, (a, b), (to_a, to_b));
                }
            }
        }
    }
}

vectorised! {
    fn back_all<const FUSED: bool, T: Scalar>(
        factors: Factors<'_, T>, inputs: &[T], d: &mut [T], grad: &mut [T],
    ) {
        let len = d.len();
        let width = len / factors.size;
        let grads = grad.as_chunks_mut::<4>().0;
        for factor in (0..factors.count()).rev() {
            let half = width << factors.level(factor);
            let first = factor * factors.size / 2;
            let mut pairs = factors.factor(factor).iter().zip(&mut grads[first..]);
            let inputs = inputs[factor * len..][..len].chunks_exact(2 * half);
            for (input, d) in inputs.zip(d.chunks_exact_mut(2 * half)) {
                let ((low, high), (d_low, d_high)) = (input.split_at(half), d.split_at_mut(half));
                let inputs = low.chunks_exact(width).zip(high.chunks_exact(width));
                let d = d_low.chunks_exact_mut(width).zip(d_high.chunks_exact_mut(width));
                for ((x, d), (pair, grad)) in inputs.zip(d).zip(&mut pairs) {
                    turned_back::<FUSED, T>(pair, x, d, grad);
                }
            }
        }
    }
}

/// `a b + c`.
#[inline(always)]
fn multiply_add<const FUSED: bool, T: Scalar>(a: T, b: T, c: T) -> T {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn pair_of<const FUSED: bool, T: Scalar>([a, b, c, d]: Pair<T>, x: T, y: T) -> (T, T) {
    (multiply_add::<FUSED, T>(a, x, b * y), multiply_add::<FUSED, T>(c, x, d * y))
}

/// Which way factors are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    FirstToLast,
    LastToFirst,
}

/// Applies factors of neighbouring levels in place to the features from `start` on; two at a time
/// are done while the numbers are in registers.
#[inline(always)]
fn neighbours<const FUSED: bool, T: Scalar>(
    factors: Factors<'_, T>,
    range: std::ops::Range<usize>,
    order: Order,
    start: usize,
    columns: (&mut [T], usize),
) {
    let (columns, width) = columns;
    let twos = range.len() / 2;
    let alone = (range.len() % 2 == 1).then(|| range.end - 1);
    match order {
        Order::FirstToLast => {
            for two in 0..twos {
                two_levels::<FUSED, T>(
                    factors,
                    (range.start + 2 * two, order),
                    start,
                    width,
                    columns,
                );
            }
            if let Some(factor) = alone {
                one_level::<FUSED, T>(factors, factor, start, width, columns);
            }
        }
        Order::LastToFirst => {
            if let Some(factor) = alone {
                one_level::<FUSED, T>(factors, factor, start, width, columns);
            }
            for two in (0..twos).rev() {
                two_levels::<FUSED, T>(
                    factors,
                    (range.start + 2 * two, order),
                    start,
                    width,
                    columns,
                );
            }
        }
    }
}

#[inline(always)]
fn one_level<const FUSED: bool, T: Scalar>(
    factors: Factors<'_, T>,
    factor: usize,
    start: usize,
    width: usize,
    columns: &mut [T],
) {
    let half = 1 << factors.level(factor);
    let pairs = &factors.factor(factor)[start / 2..];
    for (group, columns) in columns.chunks_exact_mut(2 * half * width).enumerate() {
        let (low, high) = columns.split_at_mut(half * width);
        let both = low.chunks_exact_mut(width).zip(high.chunks_exact_mut(width));
        for ((a, b), &pair) in both.zip(&pairs[group * half..]) {
            in_place::<FUSED, T>(pair, a, b);
        }
    }
}

/// `factor` and the one after it, in this order or the other.
#[inline(always)]
fn two_levels<const FUSED: bool, T: Scalar>(
    factors: Factors<'_, T>,
    (factor, order): (usize, Order),
    start: usize,
    width: usize,
    columns: &mut [T],
) {
    let half = 1 << factors.level(factor);
    let pairs = &factors.factor(factor)[start / 2..];
    let next = &factors.factor(factor + 1)[start / 2..];
    for (group, columns) in columns.chunks_exact_mut(4 * half * width).enumerate() {
        let at = 2 * half * group;
        let (low, high) = columns.split_at_mut(2 * half * width);
        let (a, b) = low.split_at_mut(half * width);
        let (c, d) = high.split_at_mut(half * width);
        let [a, b, c, d] = [a, b, c, d].map(|quarter| quarter.chunks_exact_mut(width));
        for (j, (((a, b), c), d)) in a.zip(b).zip(c).zip(d).enumerate() {
            let here = [pairs[at + j], pairs[at + half + j]];
            let then = [next[at + j], next[at + half + j]];
            match order {
                Order::FirstToLast => two_in_place::<FUSED, T>(here, then, [a, b, c, d]),
                // With b and c exchanged, the pairs of both levels are, too.
                Order::LastToFirst => two_in_place::<FUSED, T>(then, here, [a, c, b, d]),
            }
        }
    }
}

#[inline(always)]
fn in_place<const FUSED: bool, T: Scalar>(pair: Pair<T>, a: &mut [T], b: &mut [T]) {
    let ((a, a_end), (b, b_end)) = (a.as_chunks_mut::<LANES>(), b.as_chunks_mut::<LANES>());
    for (a, b) in a.iter_mut().zip(b) {
        for (a, b) in a.iter_mut().zip(b) {
            (*a, *b) = pair_of::<FUSED, T>(pair, *a, *b);
        }
    }
    for (a, b) in a_end.iter_mut().zip(b_end) {
        (*a, *b) = pair_of::<FUSED, T>(pair, *a, *b);
    }
}

/// Pairs (a, b) and (c, d), then (a, c) and (b, d).
#[inline(always)]
fn two_in_place<const FUSED: bool, T: Scalar>(
    here: [Pair<T>; 2],
    then: [Pair<T>; 2],
    columns: [&mut [T]; 4],
) {
    let four = |[a, b, c, d]: [T; 4]| {
        let (a, b) = pair_of::<FUSED, T>(here[0], a, b);
        let (c, d) = pair_of::<FUSED, T>(here[1], c, d);
        let (a, c) = pair_of::<FUSED, T>(then[0], a, c);
        let (b, d) = pair_of::<FUSED, T>(then[1], b, d);
        [a, b, c, d]
    };
    let [(a, a_end), (b, b_end), (c, c_end), (d, d_end)] =
        columns.map(|column| column.as_chunks_mut::<LANES>());
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        for lane in 0..LANES {
            [a[lane], b[lane], c[lane], d[lane]] = four([a[lane], b[lane], c[lane], d[lane]]);
        }
    }
    for (((a, b), c), d) in a_end.iter_mut().zip(b_end).zip(c_end).zip(d_end) {
        [*a, *b, *c, *d] = four([*a, *b, *c, *d]);
    }
}

#[inline(always)]
fn copied<const FUSED: bool, T: Scalar>(
    pair: &Pair<T>,
    (a, b): (&[T], &[T]),
    (to_a, to_b): (&mut [T], &mut [T]),
) {
    for ((&a, &b), (to_a, to_b)) in a.iter().zip(b).zip(to_a.iter_mut().zip(to_b)) {
        (*to_a, *to_b) = pair_of::<FUSED, T>(*pair, a, b);
    }
}

/// The gradients of a pair's matrix and of its inputs.
#[inline(always)]
fn turned_back<const FUSED: bool, T: Scalar>(
    &[a, b, c, d]: &Pair<T>,
    (x, y): (&[T], &[T]),
    (dx, dy): (&mut [T], &mut [T]),
    grad: &mut Pair<T>,
) {
    let mut sums = [[T::ZERO; LANES]; 4];
    let len = x.len();
    let (y, dx, dy) = (&y[..len], &mut dx[..len], &mut dy[..len]);
    for first in (0..len).step_by(LANES) {
        for k in first..len.min(first + LANES) {
            let products = [(dx[k], x[k]), (dx[k], y[k]), (dy[k], x[k]), (dy[k], y[k])];
            for (sums, (d, x)) in sums.iter_mut().zip(products) {
                sums[k - first] = multiply_add::<FUSED, T>(d, x, sums[k - first]);
            }
            (dx[k], dy[k]) = pair_of::<FUSED, T>([a, c, b, d], dx[k], dy[k]);
        }
    }
    for (grad, mut lanes) in grad.iter_mut().zip(sums) {
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        *grad += lanes[0];
    }
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
        let mut inputs = x.data().to_vec();
        inputs.resize((count + 1) * size * width, T::ZERO);
        apply_and_keep(factors, &mut inputs);
        for (inputs, expected) in inputs.chunks((size * width).max(1)).zip(&expected) {
            close(inputs, expected);
        }
        let d = random::<T>(size, width, 5);
        let (mut found_d, mut grad) = (d.data().to_vec(), vec![T::ONE; weights.data().len()]);
        back(factors, &inputs, &mut found_d, &mut grad);
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
            for width in [0, 1, 5, 16, 35] {
                agrees::<f64>(size, count, width);
            }
        }
        agrees::<f32>(256, 9, 32);
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
