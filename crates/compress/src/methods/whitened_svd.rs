//! Truncated singular value decomposition of the whitened weight.
//!
//! With the moments `S = L Lᵀ` of the input, the weight becomes `trunc_r(W L) L⁻¹`. The truncated
//! singular values are those of the error: `E|W x - A x|²` is the sum of their squares.
//!
//! Optimal for `y = W x`: of all maps of rank r it has the least mean squared error on the text.
//! Any root L gives the same map; the two forms differ where S is singular.
//!
//! | whitening | L | if S is singular |
//! | --- | --- | --- |
//! | `eigen` (standard) | `Q diag(√w)` of `S = Q diag(w) Qᵀ` | drops directions without data |
//! | `cholesky` | lower triangular | grows the diagonal until S has a factor, and tells it |
//!
//! In a slot with a bias, S is centred and the bias absorbs what the map leaves of the mean.
//!
//! Source: Wang et al. 2024, SVD-LLM (arXiv:2403.07378) for `cholesky`, and Wang et al. 2025,
//! SVD-LLM V2 (arXiv:2503.12340) for `eigen`, the truncation with two decompositions. Deviations:
//! centring; the first code adds 1e-6 less the smallest eigenvalue to the diagonal, here it is the
//! least of 1e-12, 1e-11, … of its mean that works; neither its later updates nor the ratios of the
//! second are part of this method. `eigen` is the standard since it needs no such change.

use super::factors::{self, Changes};
use super::{Fit, FitProblem, Method, MethodTraits, SampleRows, check_saves};
use crate::fit::low_rank::{self, balance, truncated};
use crate::fit::regression::{Inputs, Regression, mean_moment, multiply};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::{LowRank, Shape};
use linwright_tensor::Mat;
use linwright_tensor::linalg::Cholesky;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Root of the moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whitening {
    /// Cholesky factor.
    Cholesky,
    /// Eigenvectors with the roots of eigenvalues.
    #[default]
    Eigen,
}

impl Whitening {
    /// All roots.
    pub const ALL: [Self; 2] = [Self::Cholesky, Self::Eigen];

    /// Its name in recipes and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cholesky => "cholesky",
            Self::Eigen => "eigen",
        }
    }
}

/// Truncates a weight after its input is whitened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WhitenedSvdMethod {
    /// Root of the moments.
    pub whitening: Whitening,
    /// Share from 0 to 1 by which moments are shrunk towards their diagonal, for few samples.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub shrinkage: f64,
}

impl Method for WhitenedSvdMethod {
    const ID: &'static str = "whitened_svd";
    const SUMMARY: &'static str =
        "whitened SVD (SVD-LLM): truncated after the input is whitened, by either of its papers";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        let name = match self.whitening {
            Whitening::Eigen => Self::ID,
            Whitening::Cholesky => "whitened_svd-cholesky",
        };
        super::with_size(name.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        factors::traits()
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)?;
        factors::check_shrinkage(self.shrinkage)
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        self.parameters(size, shape)?;
        let (out, inp) = work::sides(shape);
        let root = match self.whitening {
            Whitening::Cholesky => inp.powi(3) / 3.0,
            Whitening::Eigen => work::eigen(inp),
        };
        let side = out.min(inp);
        Ok(root + 3.0 * out * inp * side + work::eigen(side) + work::report(shape))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let rank = factors::rank(problem)?;
        let stats = factors::inputs(problem)?;
        factors::check_samples(rank, stats.count, self.shrinkage)?;
        let mut second = if problem.biased() { stats.centred().sxx } else { stats.sxx.clone() };
        crate::fit::check_finite("the second moment", second.data(), "the inputs")?;
        if self.shrinkage > 0.0 {
            scale_beside_diagonal(&mut second, 1.0 - self.shrinkage);
        }
        let weight: Mat<f64> = problem.original.to_dense()?.cast();
        let mut changes = Changes { shrinkage: self.shrinkage, ..Changes::default() };
        let (u, v) = match self.whitening {
            Whitening::Eigen => {
                let inputs = Inputs::new(second.view(), usize::MAX)?;
                let cross = multiply(weight.view().into(), second.view().into());
                let regression = Regression::of_moments(&inputs, cross.view(), 0.0);
                // Rounding errors of the sums can look like data.
                let at_least =
                    factors::without_data(problem.shape.inp, stats.count, self.shrinkage);
                changes.dropped = regression.dropped().max(at_least);
                low_rank::factors(&regression, rank)?
            }
            Whitening::Cholesky => {
                let (root, added) = root(second)?;
                changes.ridge = (added > 0.0).then_some(added);
                let lower = root.lower();
                let whitened = multiply(weight.view().into(), lower.view().into());
                let (mut u, thin) = truncated(&whitened, rank)?;
                // `V L = T`, from the transposes.
                let mut v = root.solve_upper(thin.transpose().view()).transpose();
                balance(&mut u, &mut v);
                (u, v)
            }
        };
        factors::fitted(problem, LowRank::new(u.cast(), v.cast()), changes)
    }
}

fn scale_beside_diagonal(second: &mut Mat<f64>, by: f64) {
    for i in 0..second.rows() {
        let beside = second.row_mut(i).iter_mut().enumerate().filter(|(j, _)| *j != i);
        beside.for_each(|(_, value)| *value *= by);
    }
}

/// The Cholesky factor, and the share of the mean diagonal entry that was added to the diagonal for
/// it.
fn root(mut second: Mat<f64>) -> Result<(Cholesky, f64), FitError> {
    let side = second.rows();
    let mean = mean_moment(second.view());
    let mut added = 0.0;
    for power in -12..=0 {
        if let Ok(root) = Cholesky::of(second.view()) {
            return Ok((root, added));
        }
        let wanted = 10f64.powi(power);
        (0..side).for_each(|i| *second.at_mut(i, i) += mean * (wanted - added));
        added = wanted;
    }
    Err(FitError::Numerics {
        what: "Cholesky factor of the second moment",
        reason: "it has none: are all inputs zero? Leave whitening out, or give more text".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::random;
    use crate::fit::spectrum::Spectrum;
    use crate::methods::trial::Trial;
    use crate::methods::{AsvdMethod, MethodSpec, SvdMethod};

    const SHAPES: [Shape; 2] = [Shape { out: 12, inp: 9 }, Shape { out: 8, inp: 13 }];

    fn whitened(whitening: Whitening, shrinkage: f64) -> MethodSpec {
        MethodSpec::WhitenedSvd(WhitenedSvdMethod { whitening, shrinkage })
    }

    #[test]
    fn both_roots_attain_the_optimum_and_no_nearby_factors_do_better() {
        for (shape, is_biased) in [(SHAPES[0], false), (SHAPES[1], false), (SHAPES[0], true)] {
            let trial = Trial::correlated(shape, 200);
            let trial = if is_biased { trial.biased() } else { trial };
            let all = Spectrum::of((&*trial.stats.inputs).into(), &trial.weight, is_biased);
            let all = all.expect("decomposes");
            for (whitening, rank) in [(Whitening::Eigen, 1), (Whitening::Eigen, 3)]
                .into_iter()
                .chain([(Whitening::Cholesky, 1), (Whitening::Cholesky, 3)])
            {
                let fit = trial.fit(&whitened(whitening, 0.0), rank);
                let found = trial.error(&fit);
                let best = all.error(rank) / trial.stats.target_power();
                assert!((found - best).abs() < 1e-6, "{whitening:?} {rank}: {found}, not {best}");
                assert_eq!((fit.report.ridge, fit.report.dropped_directions), (None, 0));
                trial.assert_no_nearby_is_better(&fit);
                for other in
                    [MethodSpec::Svd(SvdMethod {}), MethodSpec::Asvd(AsvdMethod::default())]
                {
                    assert!(found < 0.999 * trial.error_of(&other, rank), "{rank}: {other:?}");
                }
            }
        }
    }

    #[test]
    fn singular_moments_drop_directions_or_grow_a_diagonal_and_both_are_told() {
        let mut x: Mat<f32> = random(100, 9, 1).cast();
        (0..100).for_each(|i| *x.at_mut(i, 8) = x.at(i, 0));
        let trial = Trial::new(&x, random(12, 9, 2).cast());
        let eigen = trial.fit(&whitened(Whitening::Eigen, 0.0), 3);
        assert_eq!((eigen.report.dropped_directions, eigen.report.ridge), (1, None));
        let best = trial.error(&eigen);
        trial.assert_no_nearby_is_better(&eigen);
        let mut singular = trial;
        // Rounding may leave a positive pivot; this matrix is certain to have none.
        singular.change(|inputs| *inputs.sxx.at_mut(8, 8) *= 1.0 - 1e-12);
        let grown = singular.fit(&whitened(Whitening::Cholesky, 0.0), 3);
        assert!(grown.report.ridge.is_some_and(|ridge| ridge > 0.0), "{:?}", grown.report);
        assert!((singular.error(&grown) - best).abs() < 1e-4);
    }

    #[test]
    fn fewer_samples_than_rank_are_refused_and_shrinkage_helps_and_is_told() {
        let trial = Trial::correlated(SHAPES[0], 3);
        for whitening in [Whitening::Eigen, Whitening::Cholesky] {
            let refused = trial.try_fit(&whitened(whitening, 0.0), 4);
            let told = refused.expect_err("is refused").to_string();
            assert!(told.contains("at least 4 are needed"), "{told}");
            let fit = trial.fit(&whitened(whitening, 0.5), 4);
            assert_eq!((fit.report.shrinkage, fit.report.dropped_directions), (Some(0.5), 0));
        }
        let few = trial.fit(&whitened(Whitening::Eigen, 0.0), 2);
        assert_eq!(few.report.dropped_directions, 6);
        // Complete shrinkage leaves the diagonal, whose root scales the columns.
        let fit = trial.fit(&whitened(Whitening::Eigen, 1.0), 2);
        let mut diagonal = Trial::correlated(SHAPES[0], 3);
        diagonal.change(|inputs| scale_beside_diagonal(&mut inputs.sxx, 0.0));
        let dense = |fit: &Fit| fit.op.to_dense().expect("is linear");
        let other = dense(&diagonal.fit(&whitened(Whitening::Eigen, 0.0), 2));
        let close = dense(&fit).data().iter().zip(other.data()).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{fit:?} and {other:?}");
    }

    #[test]
    fn sums_that_are_not_finite_and_no_data_are_refused() {
        let mut trial = Trial::correlated(SHAPES[0], 50);
        trial.change(|inputs| *inputs.sxx.at_mut(1, 2) = f64::NAN);
        for whitening in [Whitening::Eigen, Whitening::Cholesky] {
            let refused = trial.try_fit(&whitened(whitening, 0.0), 2);
            let told = refused.expect_err("is refused").to_string();
            assert_eq!(told, "the second moment of the inputs is not finite");
        }
        let silent = Trial::new(&Mat::zeros(20, 9), random(12, 9, 2).cast());
        let refused = silent.try_fit(&whitened(Whitening::Cholesky, 0.0), 2);
        let told = refused.expect_err("is refused").to_string();
        assert!(told.contains("are all inputs zero?"), "{told}");
    }
}
