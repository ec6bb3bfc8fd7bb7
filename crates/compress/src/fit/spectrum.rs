//! One decomposition of a weight under the second moments of its input, from which every rank
//! follows.
//!
//! For a weight W (out, inp) and moments C of its input, the eigenvectors V of the moments of the
//! output, `W C Wᵀ = V diag(w) Vᵀ`, give for every rank r the map `V_r V_rᵀ W` with the least mean
//! of `|W x - A x|²`: the projection of the output on its r largest directions. What it leaves is
//! the sum of the other w. With centred moments and the free bias `(I - V_r V_rᵀ) E[W x]` the same
//! holds for maps with a bias. Identity or diagonal moments give the truncated singular value
//! decomposition of the weight, or of the weight with scaled columns.
//!
//! The decomposition has the smaller side. For out <= inp it is that of `W C Wᵀ`. For out > inp let
//! `W = Q R` with orthonormal columns Q (out, inp): then `R C Rᵀ = Z diag(w) Zᵀ` and `V = Q Z`.
//! Nothing is divided by roots of w or of C, so that singular moments are no special case, and the
//! directions without data come last.
//!
//! Source: principal components of the output (Jolliffe 2002, chapter 6); the released code of
//! Surgical Feature-Space Decomposition forms the (out, out) matrix for every shape.
//!
//! Numerical notes: all in `f64`, from the sums of `f64`, but the products of f32 factors with W.
//! Eigenvalues have errors of about 1e-16 of the largest, so directions below 1e-8 of the largest
//! standard deviation are mixed. R is the Cholesky factor of `Wᵀ W` if its diagonal spans less than
//! `EVEN`, otherwise that of Householder reflections.

use super::low_rank::balance;
use super::regression::{multiply, numerics};
use super::{check_finite, check_side};
use crate::FitError;
use linwright_measure::stats::InputStats;
use linwright_ops::Shape;
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::{
    Cholesky, Components, Leading, eigh_leading, gram, orthonormal_columns,
};
use linwright_tensor::{Mat, MatRef};

/// Least over largest diagonal entry of a Cholesky factor that is used. The columns of Q are
/// orthogonal to about ε over the square of this.
const EVEN: f64 = 1e-3;

/// Sums over samples of the input of a weight.
#[derive(Clone, Copy, Debug)]
pub struct Moments<'a> {
    /// Σ x xᵀ (inp, inp), not centred, both triangles.
    pub second: MatRef<'a, f64>,
    /// Σ x (inp).
    pub sum: &'a [f64],
    /// Number of samples.
    pub count: u64,
}

impl<'a> From<&'a InputStats> for Moments<'a> {
    fn from(stats: &'a InputStats) -> Self {
        Self { second: stats.sxx.view(), sum: &stats.sx, count: stats.count }
    }
}

impl Moments<'_> {
    /// Checks the moments of a number of features.
    fn check(&self, shape: Shape, features: usize) -> Result<(), FitError> {
        check_side(shape, "rows of the second moment", self.second.rows(), features)?;
        check_side(shape, "columns of the second moment", self.second.cols(), features)?;
        check_side(shape, "means of features", self.sum.len(), features)?;
        if self.count == 0 {
            return Err(FitError::TooFewSamples { found: 0, needed: 1 });
        }
        const OF: &str = "the inputs";
        check_finite("the sum", self.sum, OF)?;
        (0..features).try_for_each(|i| check_finite("the second moment", self.second.row(i), OF))
    }

    fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|x| x / self.count as f64).collect()
    }
}

/// A weight in the order of the directions of its output.
#[derive(Clone, Debug)]
pub struct Spectrum {
    /// What leaving a component out adds to the mean squared error, descending: min(out, inp)
    /// eigenvalues of the moments of the output.
    pub values: Vec<f64>,
    /// V (out, directions), orthonormal columns; of all values unless only the leading directions
    /// were asked for.
    pub left: Mat<f32>,
    /// `Vᵀ W` (directions, inp).
    pub right: Mat<f32>,
    /// Mean of `W x` (out), if the moments were centred.
    pub mean: Option<Vec<f64>>,
}

impl Spectrum {
    /// Decomposes a weight (out, inp). Centred moments are for slots with a bias.
    ///
    /// # Errors
    /// [`FitError`] if there are no samples, shapes differ, a number is not finite, or the
    /// decomposition fails.
    pub fn of(moments: Moments<'_>, weight: &Mat<f32>, centred: bool) -> Result<Self, FitError> {
        Self::leading(moments, weight, centred, usize::MAX)
    }

    /// The same with the directions of the `count` largest values alone.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn leading(
        moments: Moments<'_>,
        weight: &Mat<f32>,
        centred: bool,
        count: usize,
    ) -> Result<Self, FitError> {
        moments.check(Shape { out: weight.rows(), inp: weight.cols() }, weight.cols())?;
        check_finite("the weight", weight.data(), "the site")?;
        let span = Span::of(weight)?;
        let mean = moments.mean();
        let inside = span.moments(moments, centred.then_some(mean.as_slice()));
        let Leading { values, rows } = decomposed(inside, count)?;
        let right = multiply(rows.view().into(), span.rows.view().into()).cast();
        let left = span.turned(rows.transpose()).cast();
        Ok(Self { values, left, right, mean: centred.then(|| times(weight, &mean)) })
    }

    /// The same from moments of the output `W x` (out) instead of the input.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_outputs(
        moments: Moments<'_>,
        weight: &Mat<f32>,
        centred: bool,
        count: usize,
    ) -> Result<Self, FitError> {
        let (out, inp) = (weight.rows(), weight.cols());
        moments.check(Shape { out, inp }, out)?;
        check_finite("the weight", weight.data(), "the site")?;
        let mean = moments.mean();
        let scale = 1.0 / moments.count as f64;
        let shift = |i: usize, j: usize| if centred { mean[i] * mean[j] } else { 0.0 };
        let inside = Mat::from_fn(out, out, |i, j| scale * moments.second.at(i, j) - shift(i, j));
        let Leading { values, rows } = decomposed(inside, count.min(out.min(inp)))?;
        let right = multiply(rows.view().into(), weight.cast().view().into()).cast();
        let values = values.into_iter().take(out.min(inp)).collect();
        let left = rows.transpose().cast();
        Ok(Self { values, left, right, mean: centred.then_some(mean) })
    }

    /// Factors U (out, rank) and V (rank, inp) of the best map of this rank. Each column of U has
    /// the norm of its row of V, so that neither overflows in half precision.
    ///
    /// # Panics
    /// If the rank is above the number of directions.
    #[must_use]
    #[track_caller]
    pub fn factors(&self, rank: usize) -> (Mat<f32>, Mat<f32>) {
        assert!(rank <= self.left.cols(), "rank {rank} of {}", self.left.cols());
        let mut u = self.left.view().columns(0, rank).to_mat();
        let mut v = self.right.view().rows_range(0, rank).to_mat();
        balance(&mut u, &mut v);
        (u, v)
    }

    /// Change of the bias (out) beside the factors of this rank; none if moments were not centred.
    ///
    /// # Panics
    /// If the rank is above the number of directions.
    #[must_use]
    #[track_caller]
    pub fn bias(&self, rank: usize) -> Option<Vec<f32>> {
        assert!(rank <= self.left.cols(), "rank {rank} of {}", self.left.cols());
        let mean = self.mean.as_ref()?;
        let mut inside = vec![0.0f64; rank];
        for (i, mean) in mean.iter().enumerate() {
            let row = self.left.row(i).iter();
            inside.iter_mut().zip(row).for_each(|(sum, v)| *sum += mean * f64::from(*v));
        }
        let rest = |(i, mean): (usize, &f64)| {
            let row = self.left.row(i).iter().zip(&inside);
            (mean - row.map(|(v, inside)| f64::from(*v) * inside).sum::<f64>()) as f32
        };
        Some(mean.iter().enumerate().map(rest).collect())
    }

    /// Mean squared error of the factors of this rank with their bias, over the samples.
    #[must_use]
    pub fn error(&self, rank: usize) -> f64 {
        self.values.get(rank..).unwrap_or_default().iter().sum()
    }

    /// Errors of every rank from zero, over the mean square of `W x`.
    #[must_use]
    pub fn relative_errors(&self) -> Vec<f64> {
        let of_mean: f64 = self.mean.iter().flatten().map(|mean| mean * mean).sum();
        let power = self.values.iter().sum::<f64>() + of_mean;
        let over = |error: f64| if power > 0.0 { error / power } else { error };
        (0..=self.values.len()).map(|rank| over(self.error(rank))).collect()
    }

    /// The same as components of a matrix, whose values are the roots: norms of the output along
    /// its directions.
    #[must_use]
    pub fn components(self) -> Components {
        let Self { values, mut left, mut right, .. } = self;
        balance(&mut left, &mut right);
        Components { values: values.into_iter().map(f64::sqrt).collect(), left, right }
    }
}

/// Values and leading eigenvectors of moments of the output; values below zero are rounding.
fn decomposed(moments: Mat<f64>, count: usize) -> Result<Leading, FitError> {
    let found = eigh_leading(moments, count).map_err(numerics("moments of the output"))?;
    Ok(Leading { values: found.values.into_iter().map(|w| w.max(0.0)).collect(), ..found })
}

/// `W x` in double precision.
pub(crate) fn times(weight: &Mat<f32>, x: &[f64]) -> Vec<f64> {
    let row = |o: usize| weight.row(o).iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
    (0..weight.rows()).map(row).collect()
}

/// `W = Q R` on the smaller side k = min(out, inp).
struct Span {
    /// R (k, inp).
    rows: Mat<f64>,
    columns: Columns,
}

/// Q.
enum Columns {
    /// The identity, for out <= inp.
    Whole,
    /// `W L⁻ᵀ`, for `Wᵀ W = L Lᵀ`.
    Factor(Mat<f64>, Cholesky),
    /// Orthonormal columns (out, inp).
    Found(Mat<f64>),
}

impl Span {
    fn of(weight: &Mat<f32>) -> Result<Self, FitError> {
        let wide: Mat<f64> = weight.cast();
        if weight.rows() <= weight.cols() {
            return Ok(Self { rows: wide, columns: Columns::Whole });
        }
        if let Ok(factor) = Cholesky::of(gram(weight.view(), None).view())
            && factor.evenness() > EVEN
        {
            return Ok(Self {
                rows: factor.lower().transpose(),
                columns: Columns::Factor(wide, factor),
            });
        }
        let found = orthonormal_columns(wide.view()).map_err(numerics("columns of the weight"))?;
        let rows = multiply(Arg::Transposed(found.view()), wide.view().into());
        Ok(Self { rows, columns: Columns::Found(found) })
    }

    /// Mean of `(R x)(R x)ᵀ` (k, k), less the mean of x if given.
    fn moments(&self, moments: Moments<'_>, mean: Option<&[f64]>) -> Mat<f64> {
        let half = multiply(self.rows.view().into(), moments.second.into());
        let mut inside = multiply(half.view().into(), Arg::Transposed(self.rows.view()));
        let scale = 1.0 / moments.count as f64;
        inside.data_mut().iter_mut().for_each(|x| *x *= scale);
        let Some(mean) = mean else { return inside };
        let row = |i: usize| self.rows.row(i).iter().zip(mean).map(|(r, x)| r * x).sum::<f64>();
        let means: Vec<f64> = (0..inside.rows()).map(row).collect();
        for (i, own) in means.iter().enumerate() {
            inside.row_mut(i).iter_mut().zip(&means).for_each(|(x, other)| *x -= own * other);
        }
        inside
    }

    /// `Q Z`.
    fn turned(&self, z: Mat<f64>) -> Mat<f64> {
        match &self.columns {
            Columns::Whole => z,
            Columns::Factor(weight, factor) => {
                let solved = factor.solve_upper(z.view());
                multiply(weight.view().into(), solved.view().into())
            }
            Columns::Found(columns) => multiply(columns.view().into(), z.view().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{correlated, distance, random};
    use linwright_measure::stats::InputSums;
    use linwright_tensor::{RngKey, RngStream};

    /// Correlated rows with means, and their sums.
    fn inputs(rows: usize, inp: usize, seed: u64) -> InputStats {
        let x = correlated(rows, inp, seed);
        let x = Mat::from_fn(rows, inp, |i, j| (x.at(i, j) + (j % 3) as f64) as f32);
        sums(&x)
    }

    fn sums(x: &Mat<f32>) -> InputStats {
        let mut sums = InputSums::new(x.cols());
        sums.add(x.view());
        sums.finish()
    }

    fn weight(out: usize, inp: usize, seed: u64) -> Mat<f32> {
        random(out, inp, seed).cast()
    }

    fn product_of((u, v): &(Mat<f32>, Mat<f32>)) -> Mat<f64> {
        let (u, v): (Mat<f64>, Mat<f64>) = (u.cast(), v.cast());
        multiply(u.view().into(), v.view().into())
    }

    /// Sum over samples of `|W x - A x - b|²`; without a bias if there is none.
    fn residual(stats: &InputStats, w: &Mat<f32>, a: &Mat<f64>, bias: Option<&[f32]>) -> f64 {
        let away = Mat::from_fn(w.rows(), w.cols(), |i, j| f64::from(w.at(i, j)) - a.at(i, j));
        let half = multiply(away.view().into(), stats.sxx.view().into());
        let own: f64 = half.data().iter().zip(away.data()).map(|(p, q)| p * q).sum();
        let Some(bias) = bias else { return own };
        let (n, sums) = (stats.count as f64, times(&away.cast(), &stats.sx));
        let shift = |(b, s): (&f32, f64)| f64::from(*b) * (n * f64::from(*b) - 2.0 * s);
        own + bias.iter().zip(sums).map(shift).sum::<f64>()
    }

    #[test]
    fn what_is_left_is_the_sum_of_the_discarded_values_and_all_components_are_the_weight() {
        for (out, inp) in [(5, 9), (9, 5), (6, 6), (1, 4), (4, 1)] {
            let (stats, w) = (inputs(60, inp, 1), weight(out, inp, 2));
            for centred in [false, true] {
                let found = Spectrum::of((&stats).into(), &w, centred).expect("decomposes");
                assert!(found.values.is_sorted_by(|a, b| a >= b), "{:?}", found.values);
                for rank in 0..=out.min(inp) {
                    let a = product_of(&found.factors(rank));
                    let bias = found.bias(rank);
                    assert_eq!(bias.is_some(), centred);
                    let left = residual(&stats, &w, &a, bias.as_deref()) / stats.count as f64;
                    let (want, all) = (found.error(rank), found.error(0));
                    assert!((left - want).abs() < 1e-5 * all, "{out} {inp} {rank}: {left} {want}");
                    if rank == out.min(inp) {
                        assert!(distance(&a, &w.cast()) < 1e-6, "{out} {inp}");
                        let largest = bias.iter().flatten().fold(0.0f32, |m, b| m.max(b.abs()));
                        assert!(largest < 1e-5, "{largest}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_mean_output_is_kept_at_every_rank() {
        let (stats, w) = (inputs(60, 7, 1), weight(4, 7, 2));
        let found = Spectrum::of((&stats).into(), &w, true).expect("decomposes");
        let mean: Vec<f64> = stats.sx.iter().map(|x| x / 60.0).collect();
        let want = times(&w, &mean);
        for rank in 0..4 {
            let bias = found.bias(rank).expect("is centred");
            let got = times(&product_of(&found.factors(rank)).cast(), &mean);
            for ((got, bias), want) in got.iter().zip(bias).zip(&want) {
                assert!((got + f64::from(bias) - want).abs() < 1e-5, "rank {rank}");
            }
        }
    }

    #[test]
    fn both_sides_give_the_same_projector() {
        // The same weight with rows of zeros is taller than wide, and has the same output.
        let (stats, w) = (inputs(80, 6, 3), weight(5, 6, 4));
        let tall = Mat::from_fn(11, 6, |i, j| if i < 5 { w.at(i, j) } else { 0.0 });
        let turn = random(11, 11, 5);
        let q = orthonormal_columns(turn.view()).expect("is finite");
        let turned: Mat<f32> = multiply(q.view().into(), tall.cast().view().into()).cast();
        let wide = Spectrum::of((&stats).into(), &w, true).expect("decomposes");
        let tall = Spectrum::of((&stats).into(), &turned, true).expect("decomposes");
        for rank in 1..5 {
            let a = product_of(&tall.factors(rank));
            let back = multiply(Arg::Transposed(q.view()), a.view().into());
            let first = back.view().rows_range(0, 5).to_mat();
            assert!(distance(&first, &product_of(&wide.factors(rank))) < 1e-5, "rank {rank}");
            assert!((wide.values[rank] - tall.values[rank]).abs() < 1e-5 * wide.values[0]);
        }
    }

    #[test]
    fn uneven_weights_and_singular_moments_are_no_special_case() {
        let stats = sums(&random(4, 6, 1).cast());
        // Columns of very different norms, and two equal ones: `Wᵀ W` has no Cholesky factor.
        let base = weight(9, 6, 2);
        let uneven = Mat::from_fn(9, 6, |i, j| match j {
            5 => base.at(i, 4),
            j => base.at(i, j) * 10f32.powi(-3 * j as i32),
        });
        for w in [base, uneven] {
            let found = Spectrum::of((&stats).into(), &w, false).expect("decomposes");
            assert!(found.values[4] < 1e-12 * found.values[0], "{:?}", found.values);
            let a = product_of(&found.factors(4));
            let all = residual(&stats, &w, &Mat::zeros(9, 6), None);
            assert!(residual(&stats, &w, &a, None) < 1e-10 * all, "four samples, four directions");
            assert!(distance(&product_of(&found.factors(6)), &w.cast()) < 1e-6);
            let v: Mat<f64> = found.left.cast();
            let square = multiply(Arg::Transposed(v.view()), v.view().into());
            assert!(distance(&square, &Mat::identity(6)) < 1e-5, "V is orthonormal");
        }
    }

    #[test]
    fn moments_of_the_output_and_leading_directions_give_the_same_map() {
        for (out, inp) in [(5, 9), (9, 5)] {
            let (stats, w) = (inputs(60, inp, 1), weight(out, inp, 2));
            let x = correlated(60, inp, 1);
            let x = Mat::from_fn(60, inp, |i, j| (x.at(i, j) + (j % 3) as f64) as f32);
            let y = multiply(x.cast().view().into(), Arg::Transposed(w.cast().view()));
            let outputs = sums(&y.cast());
            for centred in [false, true] {
                let all = Spectrum::of((&stats).into(), &w, centred).expect("decomposes");
                let some = Spectrum::leading((&stats).into(), &w, centred, 3).expect("decomposes");
                let other = Spectrum::of_outputs((&outputs).into(), &w, centred, 3);
                for found in [&some, &other.expect("decomposes")] {
                    assert_eq!((found.left.cols(), found.values.len()), (3, 5));
                    let (a, b) = (product_of(&found.factors(3)), product_of(&all.factors(3)));
                    assert!(distance(&a, &b) < 1e-5, "{out} {inp}");
                    assert!((found.error(2) - all.error(2)).abs() < 1e-5 * all.error(0));
                    for (a, b) in found.bias(3).iter().flatten().zip(all.bias(3).iter().flatten()) {
                        assert!((a - b).abs() < 1e-4, "{out} {inp}: {a} {b}");
                    }
                    assert_eq!(found.bias(3).is_some(), centred);
                }
            }
        }
    }

    #[test]
    fn no_nearby_factors_are_better() {
        let (stats, w) = (inputs(60, 7, 1), weight(9, 7, 2));
        let found = Spectrum::of((&stats).into(), &w, true).expect("decomposes");
        let nudged = |m: &Mat<f32>, s: &mut RngStream| {
            Mat::from_fn(m.rows(), m.cols(), |i, j| m.at(i, j) + 1e-2 * s.normal() as f32)
        };
        let mut stream = RngKey::new(9).stream();
        let (factors, bias) = (found.factors(3), found.bias(3).expect("is centred"));
        let best = residual(&stats, &w, &product_of(&factors), Some(&bias));
        for _ in 0..50 {
            let (u, v) = (nudged(&factors.0, &mut stream), nudged(&factors.1, &mut stream));
            let bias: Vec<f32> = bias.iter().map(|b| b + 1e-2 * stream.normal() as f32).collect();
            assert!(residual(&stats, &w, &product_of(&(u, v)), Some(&bias)) > best);
        }
    }

    #[test]
    fn components_are_the_same_map() {
        let (stats, w) = (inputs(60, 7, 1), weight(4, 7, 2));
        let found = Spectrum::of((&stats).into(), &w, false).expect("decomposes");
        let components = found.clone().components();
        assert!((components.values[1].powi(2) - found.values[1]).abs() < 1e-12 * found.values[0]);
        assert_eq!(components.chosen(&[0, 1]), found.factors(2));
    }

    #[test]
    fn bad_moments_are_refused() {
        let (good, w) = (inputs(60, 7, 1), weight(4, 7, 2));
        let told = |stats: &InputStats, w: &Mat<f32>| {
            Spectrum::of(stats.into(), w, true).expect_err("is refused").to_string()
        };
        let mut bad = good.clone();
        *bad.sxx.at_mut(3, 2) = f64::NAN;
        assert_eq!(told(&bad, &w), "the second moment of the inputs is not finite");
        let mut bad = good.clone();
        bad.sx[0] = f64::INFINITY;
        assert_eq!(told(&bad, &w), "the sum of the inputs is not finite");
        let nothing = told(&InputSums::new(7).finish(), &w);
        assert!(nothing.starts_with("0 calibration rows"), "{nothing}");
        let other = told(&good, &weight(4, 6, 2));
        assert!(other.contains("7 rows of the second moment, expected 6"), "{other}");
        let mut nan = w;
        *nan.at_mut(1, 1) = f32::NAN;
        assert_eq!(told(&good, &nan), "the weight of the site is not finite");
    }
}
