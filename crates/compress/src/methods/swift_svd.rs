//! Swift-SVD: eigenvectors of the second moments of the output.
//!
//! With S = E[x xᵀ], not centred, `W S Wᵀ = V diag(w) Vᵀ`; the weight becomes `V_r (V_rᵀ W)`. The
//! error is the sum of the other eigenvalues ([`crate::fit::spectrum`]), so one decomposition
//! serves every size, and nothing is inverted.
//!
//! Optimal for `y = W x` without a bias: of all maps of rank r it has the least mean squared error
//! on the text, equal to that of `whitened_svd`. In a slot with a bias, the bias absorbs what the
//! map leaves of the mean; `feature`, which centres first, is better there unless the mean is zero.
//!
//! Source: Qi et al. 2026, Swift-SVD (arXiv:2604.01609). Deviations: sums over the input instead of
//! the output, which sites with the same input share; the bias; ranks are given, not allocated.

use super::factors;
use super::{Fit, FitProblem, Method, MethodTraits, SampleRows, check_saves};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::Shape;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Projects the output of a weight on the directions of its largest second moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwiftSvdMethod {
    /// Share from 0 to 1 by which moments are shrunk towards their diagonal, for few samples.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub shrinkage: f64,
}

impl Method for SwiftSvdMethod {
    const ID: &'static str = "swift_svd";
    const SUMMARY: &'static str =
        "Swift-SVD: eigenvectors of the second moments of the output, without inverses";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        super::with_size(Self::ID.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        MethodTraits { takes_outputs: self.shrinkage == 0.0, ..factors::traits() }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)?;
        factors::check_shrinkage(self.shrinkage)
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        self.parameters(size, shape)?;
        Ok(work::spectrum(shape) + work::report(shape))
    }

    fn error_curve(&self, problem: &FitProblem<'_>) -> Result<Option<Vec<f64>>, FitError> {
        // The bias absorbs the mean of what a rank leaves, which moments about zero do not tell.
        if problem.biased() {
            return Ok(None);
        }
        let spectrum = factors::spectrum(problem, false, self.shrinkage, 0)?;
        Ok(Some(spectrum.relative_errors()))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        factors::projected(problem, false, self.shrinkage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::spectrum::Spectrum;
    use crate::methods::trial::Trial;
    use crate::methods::{AsvdMethod, MethodSpec, SvdMethod, WhitenedSvdMethod};

    #[test]
    fn without_a_bias_it_attains_the_optimum_of_every_size_from_one_decomposition() {
        for shape in [Shape { out: 12, inp: 9 }, Shape { out: 8, inp: 13 }] {
            let trial = Trial::correlated(shape, 200);
            let swift = MethodSpec::SwiftSvd(SwiftSvdMethod::default());
            let all =
                Spectrum::of((&*trial.stats.inputs).into(), &trial.weight, false).expect("exists");
            for rank in 1..5 {
                let fit = trial.fit(&swift, rank);
                let (found, best) =
                    (trial.error(&fit), all.error(rank) / trial.stats.target_power());
                assert!((found - best).abs() < 1e-6, "rank {rank}: {found}, the optimum is {best}");
                trial.assert_no_nearby_is_better(&fit);
                let whitened = MethodSpec::WhitenedSvd(WhitenedSvdMethod::default());
                assert!((trial.error_of(&whitened, rank) - found).abs() < 1e-6);
                for other in
                    [MethodSpec::Svd(SvdMethod {}), MethodSpec::Asvd(AsvdMethod::default())]
                {
                    assert!(found < trial.error_of(&other, rank), "rank {rank}: {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_bias_absorbs_what_is_left_of_the_mean() {
        let trial = Trial::correlated(Shape { out: 12, inp: 9 }, 200);
        let swift = MethodSpec::SwiftSvd(SwiftSvdMethod::default());
        let without = trial.error_of(&swift, 2);
        let biased = trial.biased();
        assert!(biased.error_of(&swift, 2) < 0.999 * without);
    }
}
