//! Random factors of a size: a control for comparisons.
//!
//! `W ≈ U V` with independent normal entries, scaled so that `U V` has the power of `W` on
//! average. What it scores is what a model keeps without its weights, with the same healing
//! around them.
//!
//! Not a method to use: any fit must beat it.

use super::factors::{self, Changes};
use super::{Fit, FitProblem, FitReport, Method, MethodTraits, SampleRows, check_saves, relative};
use crate::fit::work;
use crate::operator_size::rank_bound;
use crate::{FitError, Size};
use linwright_ops::{LowRank, Op, Shape};
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Write, product};
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces a weight by random factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomMethod {}

impl Method for RandomMethod {
    const ID: &'static str = "random";
    const SUMMARY: &'static str = "random factors of the same power, a control for comparisons";

    factors::two_factors!();

    fn label(&self, size: Option<Size>) -> String {
        super::with_size(Self::ID.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        MethodTraits { needs_text: false, ..factors::traits() }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        check_saves(size)
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        self.parameters(size, shape)?;
        Ok(work::report(shape))
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let rank = factors::rank(problem)?;
        let Shape { out, inp } = problem.shape;
        let weight: Mat<f64> = problem.original.to_dense()?.cast();
        let power = |m: &Mat<f64>| m.data().iter().map(|x| x * x).sum::<f64>();
        let entry = power(&weight) / (out * inp * rank) as f64;
        let mut stream = problem.key.fold("random factors").stream();
        let mut factor = |rows: usize, cols: usize| {
            Mat::from_vec(rows, cols, stream.normals(rows * cols, entry.sqrt().sqrt()))
        };
        let (u, v): (Mat<f64>, Mat<f64>) = (factor(out, rank), factor(rank, inp));
        if problem.evidence.is_some() {
            return factors::fitted(problem, LowRank::new(u.cast(), v.cast()), Changes::default());
        }
        let mut away = weight.clone();
        product(-1.0, u.view().into(), v.view().into(), away.view_mut(), Write::Add);
        let report = FitReport::without_text(relative(power(&away), power(&weight)));
        let op = Op::Linear(Box::new(LowRank::new(u.cast(), v.cast())));
        Ok(Fit { op, bias_shift: None, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::MethodSpec;
    use crate::methods::trial::Trial;

    #[test]
    fn it_has_the_size_and_the_power_of_the_weight_and_fits_nothing() {
        let trial = Trial::correlated(Shape { out: 40, inp: 30 }, 200);
        let random = MethodSpec::Random(RandomMethod {});
        let fit = trial.fit(&random, 8);
        assert_eq!(fit.op.parameters(), 8 * 70);
        assert!(fit.report.relative_error > 0.9, "{}", fit.report.relative_error);
        let alone = trial.fit_to(&random, 8, None).expect("fits");
        // Independent maps of equal power are twice that power apart.
        assert!((alone.report.relative_error - 2.0).abs() < 0.5, "{}", alone.report.relative_error);
        let dense = |fit: &Fit| fit.op.to_dense().expect("is linear");
        assert_eq!(dense(&fit), dense(&alone), "the same key gives the same factors");
    }
}
