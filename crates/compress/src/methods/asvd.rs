//! Activation-aware singular value decomposition: columns of the weight are scaled by the size of
//! their activations before it is truncated.
//!
//! With `s_i = (mean |x_i|)^α` and D = diag(s), the weight becomes `trunc_r(W D) D⁻¹`. A feature
//! that is zero in every sample has no scale; its column is dropped and counted.
//!
//! Optimal for uncorrelated features, E[x xᵀ] diagonal, whose root mean squares are proportional to
//! `(mean |x_i|)^α`: then `W D` is the whitened weight. Otherwise `whitened_svd` is better on the
//! same text. With α = 0 it is `svd`. A slot's bias absorbs what the map leaves of the mean output.
//!
//! Source: Yuan et al. 2023, ASVD (arXiv:2312.05821), α = 0.5, method `abs_mean` of its code.
//! Deviations: the code adds 1e-6 to every scale; ranks are given, not searched.

use super::factors::{self, Changes};
use super::{Fit, FitProblem, Method, MethodTraits, SampleRows, check_saves};
use crate::fit::low_rank::balance;
use crate::fit::regression::numerics;
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::{LowRank, Shape};
use linwright_tensor::Mat;
use linwright_tensor::linalg::Components;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Truncates a weight whose columns are scaled by their activations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AsvdMethod {
    /// Power of the mean size of an activation, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub alpha: f64,
}

impl Default for AsvdMethod {
    fn default() -> Self {
        Self { alpha: 0.5 }
    }
}

impl Method for AsvdMethod {
    const ID: &'static str = "asvd";
    const SUMMARY: &'static str =
        "activation-aware SVD (ASVD): truncated after columns are scaled by their activations";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        let name = match self.alpha {
            0.5 => Self::ID.to_owned(),
            alpha => format!("{}{alpha}", Self::ID),
        };
        super::with_size(name, size)
    }

    fn traits(&self) -> MethodTraits {
        factors::traits()
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)?;
        if (0.0..=1.0).contains(&self.alpha) {
            return Ok(());
        }
        Err(format!("has alpha {}, a number from 0 to 1 is needed", self.alpha))
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        self.parameters(size, shape)?;
        let (out, inp) = work::sides(shape);
        Ok(work::singular(out, inp) + work::report(shape))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let rank = factors::rank(problem)?;
        let stats = factors::inputs(problem)?;
        factors::check_samples(rank, stats.count, 0.0)?;
        let scales = self.scales(&stats.absolute, stats.count)?;
        let weight = problem.original.to_dense()?;
        let scaled = Mat::from_fn(weight.rows(), weight.cols(), |i, j| weight.at(i, j) * scales[j]);
        let found =
            Components::of(scaled.view()).map_err(numerics("components of the scaled weight"))?;
        let (mut u, mut v) = found.chosen(&(0..rank).collect::<Vec<_>>());
        for k in 0..rank {
            let row = v.row_mut(k).iter_mut().zip(&scales);
            row.for_each(|(v, s)| *v = if *s > 0.0 { *v / s } else { 0.0 });
        }
        balance(&mut u, &mut v);
        let dropped = scales.iter().filter(|s| **s == 0.0).count();
        factors::fitted(problem, LowRank::new(u, v), Changes { dropped, ..Changes::default() })
    }
}

impl AsvdMethod {
    /// Scales of features, the largest of which is one; zero without data.
    fn scales(&self, absolute: &[f64], count: u64) -> Result<Vec<f32>, FitError> {
        crate::fit::check_finite("the mean size of a feature", absolute, "the inputs")?;
        let largest = absolute.iter().copied().fold(0.0, f64::max);
        // Smaller ones would overflow their inverse in half precision, and are rounding errors.
        let least = if count > 0 { 1e-12 * largest } else { f64::INFINITY };
        let scale = |x: &f64| match *x > least {
            true => (x / largest).powf(self.alpha) as f32,
            false => 0.0,
        };
        Ok(absolute.iter().map(scale).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::random;
    use crate::methods::trial::Trial;
    use crate::methods::{MethodSpec, SvdMethod, WhitenedSvdMethod};

    /// Each row has one feature, of size one; feature j is in so many rows.
    fn sparse(counts: &[usize]) -> Mat<f32> {
        let rows: Vec<usize> =
            counts.iter().enumerate().flat_map(|(j, count)| vec![j; *count]).collect();
        let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let value = |i: usize, j: usize| if rows[i] == j { sign(i) } else { 0.0 };
        Mat::from_fn(rows.len(), counts.len(), value)
    }

    const COUNTS: [usize; 9] = [40, 2, 10, 26, 4, 60, 2, 8, 90];

    #[test]
    fn on_uncorrelated_features_of_that_scale_it_attains_the_optimum() {
        // E[x²] = mean |x|, so the root of the mean size is the root mean square.
        let trial = Trial::new(&sparse(&COUNTS), random(7, 9, 1).cast());
        let asvd = MethodSpec::Asvd(AsvdMethod::default());
        for rank in [1, 3] {
            let fit = trial.fit(&asvd, rank);
            let whitened = MethodSpec::WhitenedSvd(WhitenedSvdMethod::default());
            let (found, best) = (trial.error(&fit), trial.error_of(&whitened, rank));
            assert!((found - best).abs() < 1e-6, "rank {rank}: {found}, the optimum is {best}");
            trial.assert_no_nearby_is_better(&fit);
            for other in
                [MethodSpec::Svd(SvdMethod {}), MethodSpec::Asvd(AsvdMethod { alpha: 1.0 })]
            {
                assert!(found < 0.999 * trial.error_of(&other, rank), "rank {rank}: {other:?}");
            }
        }
        let correlated = Trial::correlated(trial.shape(), 100);
        let whitened = MethodSpec::WhitenedSvd(WhitenedSvdMethod::default());
        assert!(correlated.error_of(&whitened, 3) < 0.999 * correlated.error_of(&asvd, 3));
    }

    #[test]
    fn with_alpha_zero_it_is_the_svd_and_silent_features_are_dropped() {
        let trial = Trial::new(&sparse(&COUNTS), random(7, 9, 1).cast());
        let plain = trial.error_of(&MethodSpec::Asvd(AsvdMethod { alpha: 0.0 }), 2);
        assert!((plain - trial.error_of(&MethodSpec::Svd(SvdMethod {}), 2)).abs() < 1e-6);
        let mut counts = COUNTS;
        counts[4] = 0;
        let silent = Trial::new(&sparse(&counts), random(7, 9, 1).cast());
        let fit = silent.fit(&MethodSpec::Asvd(AsvdMethod::default()), 3);
        assert_eq!(fit.report.dropped_directions, 1);
        assert!((0..7).all(|o| fit.op.to_dense().expect("is linear").at(o, 4) == 0.0));
    }

    #[test]
    fn a_wrong_alpha_and_numbers_that_are_not_finite_are_refused() {
        for alpha in [-0.5, 1.5, f64::NAN] {
            let told = AsvdMethod { alpha }.check(Some(Size::Rank(2))).expect_err("is refused");
            assert!(told.starts_with("has alpha"), "{told}");
        }
        let mut trial = Trial::correlated(Shape { out: 7, inp: 9 }, 20);
        trial.change(|inputs| inputs.absolute[3] = f64::NAN);
        let found = trial.try_fit(&MethodSpec::Asvd(AsvdMethod::default()), 2);
        let told = found.expect_err("is refused").to_string();
        assert_eq!(told, "the mean size of a feature of the inputs is not finite");
    }
}
