//! Truncated singular value decomposition of the weight.
//!
//! `W = Σ s_k u_k v_kᵀ`; the weight becomes the sum of the r components with the largest s, stored
//! as two factors.
//!
//! Optimal for white inputs, E[x xᵀ] proportional to the identity, where the mean squared error of
//! the output is that of the weight; and for the weight itself (Eckart and Young 1936), without any
//! text. It is the cut of `laser` in its factored form. With calibration text, a slot's bias
//! absorbs what the map leaves of the mean output, and the error is that on the text.
//!
//! Source: the weight-space baseline of arXiv:2405.13039. Deviation: the decomposition is that of
//! the true weight; the released code decomposes a random matrix. Bias: see above.

use super::factors::{self, Changes};
use super::{
    ComponentUse, Fit, FitProblem, FitReport, Method, MethodTraits, SampleRows, check_saves,
    relative,
};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::{LowRank, Op, Shape};
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keeps the largest singular components of a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SvdMethod {}

impl Method for SvdMethod {
    const ID: &'static str = "svd";
    const SUMMARY: &'static str =
        "truncated SVD of the weight as two factors, which needs no calibration text";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        super::with_size(Self::ID.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        MethodTraits { needs_text: false, components: ComponentUse::Always, ..factors::traits() }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        self.parameters(size, shape)?;
        let (out, inp) = work::sides(shape);
        Ok(work::singular(out, inp) + work::report(shape))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let components = problem.components()?;
        let rank = factors::rank(&FitProblem { components: Some(&components), ..*problem })?;
        let (u, v) = components.chosen(&(0..rank).collect::<Vec<_>>());
        if problem.evidence.is_some() {
            return factors::fitted(problem, LowRank::new(u, v), Changes::default());
        }
        let power = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
        let error = relative(power(&components.values[rank..]), power(&components.values));
        let report = FitReport::without_text(error);
        Ok(Fit { op: Op::Linear(Box::new(LowRank::new(u, v))), bias_shift: None, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::random;
    use crate::methods::trial::Trial;
    use crate::methods::{AsvdMethod, LaserMethod, MethodSpec, WhitenedSvdMethod};
    use linwright_tensor::Mat;

    fn svd() -> MethodSpec {
        MethodSpec::Svd(SvdMethod {})
    }

    /// Rows of a Hadamard matrix: features that are exactly white.
    fn white(inp: usize) -> Mat<f32> {
        let sign =
            |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        Mat::from_fn(inp, inp, sign)
    }

    #[test]
    fn on_white_inputs_it_attains_the_optimum() {
        let trial = Trial::new(&white(16), random(10, 16, 1).cast());
        for rank in [1, 4] {
            let fit = trial.fit(&svd(), rank);
            let whitened = MethodSpec::WhitenedSvd(WhitenedSvdMethod::default());
            let (found, best) = (trial.error(&fit), trial.error_of(&whitened, rank));
            assert!((found - best).abs() < 1e-6, "rank {rank}: {found}, the optimum is {best}");
            trial.assert_no_nearby_is_better(&fit);
            // The text tells the error of the weight.
            let alone = trial.fit_to(&svd(), rank, None).expect("fits");
            assert!((alone.report.relative_error - found).abs() < 1e-6);
        }
    }

    #[test]
    fn on_other_inputs_it_is_not_and_a_scale_is_enough() {
        let x = Mat::from_fn(16, 16, |i, j| white(16).at(i, j) * if j < 8 { 9.0 } else { 1.0 });
        let trial = Trial::new(&x, random(10, 16, 1).cast());
        let scaled = MethodSpec::Asvd(AsvdMethod { alpha: 1.0 });
        assert!(trial.error_of(&scaled, 3) < 0.9 * trial.error_of(&svd(), 3));
    }

    #[test]
    fn it_is_the_factored_cut_of_laser_with_a_bias_that_follows_the_text() {
        let trial = Trial::correlated(Shape { out: 12, inp: 9 }, 100);
        let laser = MethodSpec::Laser(LaserMethod::default());
        let dense = |fit: &Fit| fit.op.to_dense().expect("is linear");
        let fit = trial.fit(&svd(), 3);
        assert_eq!(dense(&fit), dense(&trial.fit(&laser, 3)));
        assert!(fit.bias_shift.is_none());
        let without = trial.error(&fit);
        let trial = trial.biased();
        let fit = trial.fit(&svd(), 3);
        assert!(trial.error(&fit) < 0.999 * without);
        let untouched = trial.fit_to(&svd(), 3, None).expect("fits");
        assert!(untouched.bias_shift.is_none(), "without text the bias stays");
    }
}
