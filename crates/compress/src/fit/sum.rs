//! Sums: terms are fitted in turn to the residual of the others, then trained together.
//!
//! A term is fitted by the procedure of its own kind; a fit that does not lower the error is
//! discarded, so the error never increases. A start begins without terms, each with another term
//! first, since the first term takes what several could explain. L-BFGS finishes.

use super::alternate::alternate;
use super::kind::{self, Effort, KindFit, LeastSquares, Timing};
use super::regression::Regression;
use super::{Context, FitOptions, Found, Procedure, solve, trained};
use crate::FitError;
use linwright_ops::{Op, OpSpec, Sum, SumSpec};
use linwright_tensor::Mat;
use linwright_train::{Control, Progress};

/// Iterations of one term's fit per sweep; the next sweep continues.
const INNER: u32 = 10;
/// Largest number of sweeps, and relative decrease of the error below which the last one ends: the
/// result only initialises L-BFGS.
const MOST_SWEEPS: u32 = 60;
const TOLERANCE: f64 = 1e-3;
/// Typical number of sweeps until convergence for real layers, if more are allowed.
const SWEEPS: f64 = 15.0;

/// A fitted term with its dense weight.
#[derive(Clone)]
struct Term {
    op: Op<f64>,
    weight: Mat<f64>,
}

/// Passes on cancellation but no progress, since the progress of a term is not that of the sum.
struct Quiet<'a>(&'a dyn Control);

impl Control for Quiet<'_> {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

impl KindFit for SumSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        fit(self, problem.regression, context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let of_term = |spec| {
            let effort =
                Effort { spec, shape: effort.shape, starts: 1.0, iterations: f64::from(INNER) };
            kind::of(spec).work(&effort)
        };
        let terms = self.terms.iter().map(of_term).sum::<Result<f64, FitError>>()?;
        let (sweep, sweeps) = (terms + 2.0 * effort.error(), SWEEPS.min(effort.iterations));
        let start = (1.0 + sweeps) * sweep + effort.descent(effort.iterations)?;
        Ok(effort.starts.min(self.terms.len() as f64) * start)
    }

    /// Sweeps are complete fits of all terms; with few of them the layer need not be too small.
    fn timing(&self) -> Timing {
        Timing { iterations: 2, even: true, ..Timing::USUAL }
    }
}

fn fit(
    spec: &SumSpec,
    regression: &Regression<'_>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let whole = OpSpec::Sum(spec.clone());
    // Rejects impossible terms.
    whole.random::<f64>(regression.shape(), context.options.key)?;
    let rows = regression.rows();
    let count = spec.terms.len();
    let mut best: Option<Found> = None;
    for start in 0..(context.options.starts.max(1) as usize).min(count) {
        let order: Vec<usize> = (0..count).map(|k| (start + k) % count).collect();
        let mut terms = vec![None; count];
        let error = sweep(&spec.terms, &order, &mut terms, f64::INFINITY, regression, context)?;
        let mut last = error;
        let options = FitOptions {
            iterations: context.options.iterations.min(MOST_SWEEPS),
            tolerance: context.options.tolerance.max(TOLERANCE),
            ..context.options.clone()
        };
        let mut coarse = Context { options: &options, control: &mut *context.control };
        let (terms, _, sweeps) =
            alternate(terms, error, regression.power(), &mut coarse, |terms, context| {
                last = sweep(&spec.terms, &order, terms, last, regression, context)?;
                Ok(last)
            })?;
        let terms = terms.into_iter().flatten().map(|term| term.op).collect();
        let op = Op::Linear(Box::new(Sum::new(terms)?));
        let found = trained::descend(op, &rows, context)?;
        let iterations = 1 + sweeps + found.iterations;
        let found = Found { procedure: Procedure::Alternating, iterations, ..found };
        best = Some(Found::better(best, found));
        if best.as_ref().is_some_and(|best| best.error <= 1e-20 * regression.power()) {
            break;
        }
    }
    best.ok_or(FitError::TooFewSamples { found: 0, needed: 1 })
}

/// Fits every term once, in this order, from terms with this error; returns the new error.
fn sweep(
    specs: &[OpSpec],
    order: &[usize],
    terms: &mut [Option<Term>],
    mut error: f64,
    regression: &Regression<'_>,
    context: &mut Context<'_>,
) -> Result<f64, FitError> {
    for &k in order {
        let mut left = regression.clone();
        let others = terms.iter().enumerate().filter(|(other, _)| *other != k);
        for (_, term) in others {
            if let Some(term) = term {
                left = left.beside(&term.weight);
            }
        }
        let from = terms[k].as_ref().map(|term| &term.op);
        let starts = if from.is_some() { 1 } else { context.options.starts };
        let options = FitOptions { iterations: INNER, starts, ..context.options.clone() };
        let mut quiet = Quiet(context.control);
        let mut inner = Context { options: &options, control: &mut quiet };
        let found = solve(&specs[k], &left, from, &mut inner)?;
        if terms[k].is_none() || found.error < error {
            let weight = found.op.to_dense()?;
            error = found.error;
            terms[k] = Some(Term { op: found.op, weight });
        }
    }
    Ok(error)
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::{assert_monotone, recovered};
    use crate::fit::{FitOptions, Procedure};
    use linwright_ops::{
        BlockHadamardSpec, KroneckerSpec, LowRankSpec, MonarchSpec, OpSpec, RotorSpec, Shape,
        SumSpec,
    };

    fn low_rank(rank: usize) -> OpSpec {
        OpSpec::LowRank(LowRankSpec { rank })
    }

    fn kronecker() -> OpSpec {
        OpSpec::Kronecker(KroneckerSpec::default())
    }

    fn sum(terms: Vec<OpSpec>) -> OpSpec {
        OpSpec::Sum(SumSpec { terms })
    }

    /// Recovers a member of the sum of `first` and a rank-one matrix.
    fn assert_told_apart(first: OpSpec) {
        let (spec, shape) = (sum(vec![first, low_rank(1)]), Shape { out: 12, inp: 12 });
        let options = FitOptions { tolerance: 1e-12, ..FitOptions::default() };
        let [of_weight, of_moments] = recovered(&spec, shape, 1, &options);
        assert!(of_weight < 1e-10 && of_moments < 1e-10, "{of_weight:e}, {of_moments:e}");
    }

    #[test]
    fn blocks_and_kronecker_products_are_told_from_low_rank() {
        let blocks = BlockHadamardSpec { depth: 1, block: 64, blocks: Some(3) };
        assert_told_apart(OpSpec::BlockHadamard(blocks));
        assert_told_apart(kronecker());
    }

    #[test]
    fn monarch_maps_are_told_from_low_rank() {
        assert_told_apart(OpSpec::Monarch(MonarchSpec { blocks: Some(3) }));
    }

    #[test]
    fn a_rotor_and_what_it_misses_are_told_apart() {
        let rotor = OpSpec::Rotor(RotorSpec { single: true, ..RotorSpec::default() });
        let options = FitOptions { starts: 4, ..FitOptions::default() };
        let shape = Shape { out: 8, inp: 8 };
        let [of_weight, of_moments] = recovered(&sum(vec![rotor, low_rank(1)]), shape, 1, &options);
        assert!(of_weight < 1e-6 && of_moments < 1e-6, "{of_weight:e}, {of_moments:e}");
    }

    #[test]
    fn sweeps_are_monotone() {
        let spec = sum(vec![kronecker(), low_rank(2)]);
        let [first, found] = assert_monotone(&spec, Shape { out: 9, inp: 9 });
        assert!(found < first, "{found} after {first}");
        assert_eq!(Procedure::Alternating.name(), "alternating");
    }
}
