//! Low-rank factors, in closed form or trained.
//!
//! Closed: x is the input in the edited model and y the output in the original one. T is the
//! regression of y on x with a ridge λ towards the weight ([`crate::fit::ridge`]). Of all maps A
//! of rank r, `U Uᵀ T` with the r leading directions U of `T (S + λ I) Tᵀ`, `S = Σ x xᵀ`, has the
//! least `Σ |y − A x|² + λ |A − W|²` ([`crate::fit::low_rank::Projection`]): what few samples do
//! not say, the weight does, also about the directions that are kept. With fewer samples than
//! input features T is computed from these instead of their moments, see
//! [`crate::fit::sample_space`].
//!
//! With ridge 0 it has the least mean squared error on the calibration text, with a free bias in a
//! slot that has one. With y = W x, as where nothing below was edited, `whitened_svd` and `feature`
//! are then the same map.
//!
//! Source: reduced-rank regression (Izenman 1975), with a ridge. The trained form is the LR-r
//! baseline of arXiv:2507.11688, which starts from random factors. Numerical notes: sums and
//! decompositions in double precision.

use super::{
    Fit, FitProblem, How, Method, MethodTraits, SampleRows, Training, check_saves, factors,
};
use crate::fit::Ridge;
use crate::fit::low_rank::{Projection, Second};
use crate::fit::regression::multiply;
#[cfg(test)]
use crate::fit::regression::{Inputs, Regression};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size, Unit};
use linwright_measure::capture::{Evidence, Needs};
#[cfg(test)]
use linwright_measure::stats::SiteStats;
use linwright_ops::{LowRank, LowRankSpec, Op, OpSpec, Shape};
use linwright_tensor::Mat;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Replaces a weight by U V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LowRankMethod {
    /// Closed form or training.
    pub fit: How,
    /// Options of a trained fit.
    pub training: Training,
    /// Ridge of the regression towards the weight, of the closed form.
    pub ridge: Ridge,
}

impl Method for LowRankMethod {
    const ID: &'static str = "low_rank";
    const SUMMARY: &'static str =
        "low-rank factors by reduced-rank regression with a ridge towards the weight, or trained";

    fn label(&self, size: Option<Size>) -> String {
        let size = match size {
            Some(Size::Rank(rank)) => format!("LR{rank}"),
            other => super::with_size("LR".to_owned(), other),
        };
        match self.fit {
            How::Closed => format!("{size}-closed"),
            How::Trained => format!("{size}-trained"),
        }
    }

    fn traits(&self) -> MethodTraits {
        match self.fit {
            How::Closed => MethodTraits {
                needs_size: true,
                takes_few_samples: true,
                ridge: Some(self.ridge),
                ..MethodTraits::new(Needs::Stats, &Unit::ALL)
            },
            How::Trained => MethodTraits { needs_size: true, ..self.training.traits(&Unit::ALL) },
        }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)?;
        self.ridge.check()?;
        self.training.check()
    }

    fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
        Ok(rank_bound(factors::given(size, shape)?, shape, None)? * (shape.out + shape.inp))
    }

    fn work(&self, size: Option<Size>, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
        let ((out, inp), rank) =
            (work::sides(shape), rank_bound(factors::given(size, shape)?, shape, None)?);
        match self.fit {
            How::Closed => {
                let around = rank as f64 * inp * (out + inp);
                let decomposed = work::regression(self.ridge, shape) + work::spectrum(shape);
                Ok(decomposed + around + work::report(shape))
            }
            How::Trained => self.training.work(&OpSpec::LowRank(LowRankSpec { rank }), shape, rows),
        }
    }

    fn shrunk(&self, _by: usize) -> Self {
        Self { training: self.training.shrunk(), ..*self }
    }

    fn error_curve(&self, problem: &FitProblem<'_>) -> Result<Option<Vec<f64>>, FitError> {
        if self.fit == How::Trained {
            return Ok(None);
        }
        let (target, whole) = (problem.target(self.ridge)?, problem.stats()?);
        let own =
            if problem.biased() { Cow::Owned(whole.centred()) } else { Cow::Borrowed(&*whole) };
        let projection = Projection::new(&target.pulled.map, &Second::Sums(&target.inputs.sxx))?;
        let mut errors = projection.errors(&own.inputs.sxx, &own.syx, own.syy);
        // As in reports: over the power of the target with its mean.
        errors.iter_mut().for_each(|error| *error = super::relative(*error, whole.syy));
        Ok(Some(errors))
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        let rank = factors::rank(problem)?;
        match self.fit {
            How::Trained => {
                self.training.run(&OpSpec::LowRank(LowRankSpec { rank }), problem, control)
            }
            How::Closed => {
                if let Some(Evidence::Samples(samples)) = problem.evidence {
                    return problem.low_rank_in_samples(samples, rank, self.ridge);
                }
                factors::check_samples(1, factors::inputs(problem)?.count, 0.0)?;
                let target = problem.target(self.ridge)?;
                let second = Second::Sums(&target.inputs.sxx);
                let (u, v) = Projection::new(&target.pulled.map, &second)?.factors(rank);
                let op = Op::Linear(Box::new(LowRank::new(u.cast(), v.cast())));
                problem.closed(op, &dense(&u, &v), &target.pulled)
            }
        }
    }
}

fn dense(u: &Mat<f64>, v: &Mat<f64>) -> Mat<f64> {
    multiply(u.view().into(), v.view().into())
}

/// Factors U (out, rank) and V (rank, inp) of the map of this rank with the least squared error on
/// samples, without a ridge, and the number of input directions without data. Each column of U has
/// the norm of its row of V, so that neither overflows in half precision.
///
/// # Errors
/// [`FitError::Numerics`] if a decomposition does not converge.
#[cfg(test)]
pub(crate) fn reduced_rank_regression(
    stats: &SiteStats,
    rank: usize,
) -> Result<(Mat<f64>, Mat<f64>, usize), FitError> {
    let inputs = Inputs::new(stats.inputs.sxx.view(), stats.inputs.rank())?;
    let regression = Regression::of_moments(&inputs, stats.syx.view(), stats.syy);
    let (u, v) = crate::fit::low_rank::factors(&regression, rank)?;
    Ok((u, v, regression.dropped()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use linwright_tensor::linalg::svd;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    /// Inputs with strongly unequal directions, and targets that are not a linear map of them.
    fn problem() -> SiteStats {
        let mut x = random(2000, 8, 1);
        for i in 0..2000 {
            for j in 0..8 {
                *x.at_mut(i, j) *= 1.0 / (1 + j * j) as f32;
            }
        }
        let w = random(6, 8, 2);
        let y = Mat::from_fn(2000, 6, |i, o| {
            let z: f32 = (0..8).map(|j| w.at(o, j) * x.at(i, j)).sum();
            z + 0.3 * z.sin()
        });
        SiteStats::of(x.view(), y.view())
    }

    #[test]
    fn closed_form_beats_weight_truncation_and_any_nearby_factors() {
        let stats = problem();
        let full = dense_regression(&stats);
        for rank in 1..5 {
            let (u, v, dropped) = reduced_rank_regression(&stats, rank).expect("fits");
            assert_eq!(dropped, 0);
            let best = stats.squared_error(&dense(&u, &v));
            let plain = svd(full.view()).expect("decomposes");
            let truncated = Mat::from_fn(6, 8, |i, j| {
                (0..rank).map(|r| plain.u.at(i, r) * plain.s[r] * plain.vt.at(r, j)).sum()
            });
            assert!(best <= stats.squared_error(&truncated) + 1e-12, "rank {rank}");
            let mut stream = RngKey::new(9).stream();
            for _ in 0..50 {
                let nudge = |m: &Mat<f64>, s: &mut linwright_tensor::RngStream| {
                    Mat::from_fn(m.rows(), m.cols(), |i, j| m.at(i, j) + 1e-3 * s.normal())
                };
                let (nu, nv) = (nudge(&u, &mut stream), nudge(&v, &mut stream));
                assert!(best <= stats.squared_error(&dense(&nu, &nv)) + 1e-12, "rank {rank}");
            }
        }
    }

    fn dense_regression(stats: &SiteStats) -> Mat<f64> {
        linwright_tensor::linalg::solve_spd(stats.inputs.sxx.view(), stats.syx.view())
            .expect("positive definite")
    }

    #[test]
    fn full_rank_is_least_squares_and_missing_directions_are_counted() {
        let stats = problem();
        let (u, v, _) = reduced_rank_regression(&stats, 6).expect("fits");
        let full = dense_regression(&stats);
        for (a, b) in dense(&u, &v).data().iter().zip(full.data()) {
            assert!((a - b).abs() < 1e-8, "{a} is not {b}");
        }
        let mut x = random(500, 4, 3);
        (0..500).for_each(|i| *x.at_mut(i, 3) = x.at(i, 0));
        let stats = SiteStats::of(x.view(), x.view());
        let (u, v, dropped) = reduced_rank_regression(&stats, 3).expect("fits");
        assert_eq!(dropped, 1);
        assert!(stats.squared_error(&dense(&u, &v)) < 1e-9, "three directions carry all the data");
    }
}
