//! Feature-space decomposition: the projection of the output on its principal directions.
//!
//! With C the covariance of the input and μ the mean of `W x`, `W C Wᵀ = V diag(w) Vᵀ`; the weight
//! becomes `V_r (V_rᵀ W)`, and the bias grows by `(I - V_r V_rᵀ) μ`, which keeps the mean output.
//! The error is the sum of the other eigenvalues ([`crate::fit::spectrum`]), so one decomposition
//! serves every size.
//!
//! Optimal for `y = W x` with a free bias: of all maps of rank r with a bias it has the least mean
//! squared error on the text. A slot without a bias does not get one. There C is not centred,
//! which is optimal among maps without a bias and equal to `swift_svd` and `whitened_svd`. Where
//! outputs of the original model on its own inputs are to be reproduced, after edits of layers
//! below, `low_rank` is optimal instead.
//!
//! Source: Chavan, Lele and Gupta 2024, Surgical Feature-Space Decomposition of LLMs
//! (arXiv:2405.13039), and its code. Deviations: sums over the text of any size, on the side of the
//! input; padding is masked; factors in f32, where the code stores f16. Option `compat` has the
//! bias of the released code: it is numerically zero, and the layer's own bias is lost; moments are
//! centred in any slot. Code and paper divide the covariance by N - 1, which changes no factor.

use super::factors;
use super::{Fit, FitProblem, FitReport, Method, MethodTraits, SampleRows, Shift, check_saves};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::Shape;
use linwright_tensor::Mat;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Projects the output of a weight on its principal directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeatureMethod {
    /// As the paper's released code, which loses the bias.
    pub compat: bool,
    /// Share from 0 to 1 by which moments are shrunk towards their diagonal, for few samples.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub shrinkage: f64,
}

impl Method for FeatureMethod {
    const ID: &'static str = "feature";
    const SUMMARY: &'static str =
        "feature-space decomposition (SFSD): principal directions of the output, with a bias";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        let name = if self.compat { "feature-compat" } else { Self::ID };
        super::with_size(name.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        let takes_outputs = self.shrinkage == 0.0 && !self.compat;
        MethodTraits { takes_outputs, ..factors::traits() }
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
        if self.compat {
            return Ok(None);
        }
        let spectrum = factors::spectrum(problem, problem.biased(), self.shrinkage, 0)?;
        Ok(Some(spectrum.relative_errors()))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let fit = factors::projected(problem, problem.biased() || self.compat, self.shrinkage)?;
        match problem.bias {
            Some(bias) if self.compat => without_bias(problem, fit, bias),
            _ => Ok(fit),
        }
    }
}

/// The fit in a slot whose bias is lost.
fn without_bias(problem: &FitProblem<'_>, fit: Fit, bias: &[f32]) -> Result<Fit, FitError> {
    let shift: Vec<f64> = bias.iter().map(|b| -f64::from(*b)).collect();
    let a: Mat<f64> = fit.op.to_dense()?.cast();
    let report = FitReport {
        dropped_directions: fit.report.dropped_directions,
        shrinkage: fit.report.shrinkage,
        ..problem.judged(&a, Shift::Given(&shift))?.0
    };
    Ok(Fit { bias_shift: Some(bias.iter().map(|b| -b).collect()), report, ..fit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::spectrum::Spectrum;
    use crate::methods::trial::Trial;
    use crate::methods::{
        LowRankMethod, MethodSpec, SvdMethod, SwiftSvdMethod, WhitenedSvdMethod, needs_together,
    };
    use linwright_measure::capture::Needs;

    const SHAPES: [Shape; 2] = [Shape { out: 12, inp: 9 }, Shape { out: 8, inp: 13 }];

    fn feature() -> MethodSpec {
        MethodSpec::Feature(FeatureMethod::default())
    }

    #[test]
    fn with_a_free_bias_it_attains_the_optimum_and_no_nearby_factors_do_better() {
        for shape in SHAPES {
            let trial = Trial::correlated(shape, 200).biased();
            for rank in [1, 3] {
                let fit = trial.fit(&feature(), rank);
                let spectrum = Spectrum::of((&*trial.stats.inputs).into(), &trial.weight, true);
                let best = spectrum.expect("decomposes").error(rank) / trial.stats.target_power();
                let found = trial.error(&fit);
                assert!((found - best).abs() < 1e-6, "rank {rank}: {found}, the optimum is {best}");
                assert!((fit.report.train_relative_error - found).abs() < 1e-6);
                let curve = trial.curve(&feature());
                assert!(
                    (curve[rank] - found).abs() < 1e-6
                        && curve.len() == shape.out.min(shape.inp) + 1
                );
                trial.assert_no_nearby_is_better(&fit);
                // Reduced-rank regression of `W x` is the same problem.
                let regression = MethodSpec::LowRank(LowRankMethod::default());
                assert!((trial.error_of(&regression, rank) - found).abs() < 1e-6);
                for other in
                    [MethodSpec::Svd(SvdMethod {}), MethodSpec::SwiftSvd(SwiftSvdMethod::default())]
                {
                    let other_error = trial.error_of(&other, rank);
                    assert!(found < 0.999 * other_error, "{found} and {other_error}: {other:?}");
                }
            }
        }
    }

    #[test]
    fn without_a_bias_it_is_the_whitened_svd() {
        for shape in SHAPES {
            let trial = Trial::correlated(shape, 200);
            let fit = trial.fit(&feature(), 3);
            assert!(fit.bias_shift.is_none());
            trial.assert_no_nearby_is_better(&fit);
            let whitened = MethodSpec::WhitenedSvd(WhitenedSvdMethod::default());
            assert!((trial.error_of(&whitened, 3) - trial.error(&fit)).abs() < 1e-6);
        }
    }

    #[test]
    fn sums_over_inputs_and_over_outputs_give_one_fit() {
        let swift = MethodSpec::SwiftSvd(SwiftSvdMethod::default());
        for (shape, method) in SHAPES.into_iter().flat_map(|s| [(s, feature()), (s, swift.clone())])
        {
            let plain = || Trial::correlated(shape, 200);
            for trial in [plain(), plain().biased()] {
                let expected = trial.fit(&method, 3);
                for evidence in trial.sums() {
                    let fit = trial.fit_to(&method, 3, Some(&evidence)).expect("fits");
                    assert!((trial.error(&fit) - trial.error(&expected)).abs() < 1e-6);
                    let reports = [&fit.report, &expected.report];
                    for of in [
                        |r: &FitReport| r.relative_error,
                        |r: &FitReport| r.train_relative_error,
                        |r: &FitReport| r.target_power,
                    ] {
                        let [found, wanted] = reports.map(of);
                        assert!((found - wanted).abs() < 1e-5 * (1.0 + wanted), "{shape:?}");
                    }
                    assert_eq!(fit.bias_shift.is_some(), trial.bias.is_some());
                }
            }
        }
    }

    /// Outputs are summed where that is less work and every method at the input can read them.
    #[test]
    fn sites_with_few_outputs_read_sums_over_outputs() {
        let (wide, square) = (Shape { out: 8, inp: 64 }, Shape { out: 64, inp: 64 });
        let (own, regression) = (feature(), MethodSpec::LowRank(LowRankMethod::default()));
        let needs = |sites: &[(&MethodSpec, Shape)]| needs_together(sites, 1000);
        assert_eq!(needs(&[(&own, wide)]), [Needs::Outputs]);
        assert_eq!(needs(&[(&own, wide), (&own, wide)]), [Needs::Outputs; 2]);
        assert_eq!(needs(&[(&own, square), (&own, wide)]), [Needs::Inputs; 2]);
        assert_eq!(needs(&[(&own, wide), (&regression, wide)]), [Needs::Inputs, Needs::Stats]);
        let shrinking = MethodSpec::Feature(FeatureMethod { shrinkage: 0.1, ..Default::default() });
        assert_eq!(needs(&[(&shrinking, wide)]), [Needs::Inputs]);
    }

    #[test]
    fn the_mean_output_is_kept() {
        let trial = Trial::correlated(SHAPES[0], 200).biased();
        let fit = trial.fit(&feature(), 2);
        let a: Mat<f64> = fit.op.to_dense().expect("is linear").cast();
        let shift = fit.bias_shift.expect("the slot has a bias");
        for (left, shift) in trial.stats.mean_residual(&a).iter().zip(shift) {
            assert!((left - f64::from(shift)).abs() < 1e-5);
        }
    }

    #[test]
    fn compat_loses_the_bias_and_is_worse() {
        let trial = Trial::correlated(SHAPES[0], 200).biased();
        let compat = MethodSpec::Feature(FeatureMethod { compat: true, ..Default::default() });
        let fit = trial.fit(&compat, 3);
        let bias = trial.bias.clone().expect("has a bias");
        let sum = fit.bias_shift.as_ref().expect("is changed").iter().zip(&bias);
        assert!(sum.clone().all(|(shift, own)| shift + own == 0.0), "{:?}", fit.bias_shift);
        let (found, right) = (trial.error(&fit), trial.error_of(&feature(), 3));
        assert!((fit.report.train_relative_error - found).abs() < 1e-6);
        assert!(found > right, "{found} and {right}");
        // The projector is the same.
        let dense = |fit: &Fit| fit.op.to_dense().expect("is linear");
        let same = (dense(&fit), dense(&trial.fit(&feature(), 3)));
        assert_eq!(same.0, same.1);
    }

    #[test]
    fn too_few_samples_are_refused_or_shrinkage_is_told() {
        let trial = Trial::correlated(SHAPES[0], 3);
        let told = trial.try_fit(&feature(), 4).expect_err("is refused").to_string();
        assert!(told.starts_with("3 calibration rows") && told.contains("at least 4"), "{told}");
        let few = trial.fit(&feature(), 2);
        assert_eq!((few.report.dropped_directions, few.report.shrinkage), (6, None));
        let shrinking = FeatureMethod { shrinkage: 0.25, ..Default::default() };
        let shrunk = trial.fit(&MethodSpec::Feature(shrinking), 4);
        assert_eq!((shrunk.report.dropped_directions, shrunk.report.shrinkage), (0, Some(0.25)));
        let wrong = FeatureMethod { shrinkage: 1.5, ..Default::default() };
        let told = wrong.check(Some(Size::Rank(2))).expect_err("is refused");
        assert_eq!(told, "has shrinkage 1.5, a number from 0 to 1 is needed");
    }
}
