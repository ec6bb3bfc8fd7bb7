//! How operators of a kind are fitted: one implementation of [`KindFit`] for the options of every
//! kind, next to its fit.

use super::regression::Regression;
use super::{Context, Found, work};
use crate::FitError;
use linwright_ops::{Op, OpSpec, Shape};

/// A fit to a linear regression.
pub(crate) struct LeastSquares<'a, 'b> {
    /// The operator.
    pub spec: &'a OpSpec,
    /// The regression.
    pub regression: &'a Regression<'b>,
    /// Initial operator of fits that are not closed, if it is known.
    pub from: Option<&'a Op<f64>>,
}

/// A fit whose multiply-adds are estimated.
pub(crate) struct Effort<'a> {
    /// The operator.
    pub spec: &'a OpSpec,
    /// Its shape.
    pub shape: Shape,
    /// Number of starts.
    pub starts: f64,
    /// Largest number of iterations of a start.
    pub iterations: f64,
}

impl Effort<'_> {
    /// L-BFGS with this number of iterations, once.
    pub(super) fn descent(&self, iterations: f64) -> Result<f64, FitError> {
        work::descent(self.spec, self.shape, iterations)
    }

    /// [`LeastSquares::trained`] with this number of iterations. Every other start, including the
    /// first, is trained twice: first on the weight.
    pub(super) fn trained(&self, iterations: f64) -> Result<f64, FitError> {
        Ok((self.starts + (self.starts / 2.0).ceil()) * self.descent(iterations)?)
    }

    /// Error of a matrix (out, inp) under the moments.
    pub(super) fn error(&self) -> f64 {
        let (out, inp) = work::sides(self.shape);
        out * inp * inp
    }
}

/// How a fit is timed on a smaller layer.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// Smallest side of the layer: a smaller one would be fitted by another algorithm.
    pub least_side: usize,
    /// Largest number of iterations: fewer than until convergence.
    pub iterations: u32,
    /// Whether starts run in parallel, so that all are timed.
    pub parallel_starts: bool,
    /// Whether the first iteration is as much work as a later one.
    pub even: bool,
}

impl Timing {
    /// That of most kinds.
    pub(crate) const USUAL: Self =
        Self { least_side: 16, iterations: 8, parallel_starts: false, even: false };
}

/// How operators of a kind are fitted.
pub(crate) trait KindFit {
    /// Fits an operator with these options; [`LeastSquares::trained`] needs nothing but its forward
    /// and backward passes.
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError>;

    /// Multiply-adds of [`Self::fit`], without those of all kinds; [`Effort::trained`] for
    /// training.
    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError>;

    /// How it is timed.
    fn timing(&self) -> Timing {
        Timing::USUAL
    }

    /// Options of the first random start of training, if they are others.
    fn first_start(&self) -> Option<OpSpec> {
        None
    }
}

/// An operator of another crate.
struct External;

impl KindFit for External {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        problem.trained(context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        effort.trained(effort.iterations)
    }
}

/// How an operator with these options is fitted: one line per kind.
pub(crate) fn of(spec: &OpSpec) -> &dyn KindFit {
    match spec {
        OpSpec::Dense(options) => options,
        OpSpec::LowRank(options) => options,
        OpSpec::BlockHadamard(options) => options,
        OpSpec::CirculantDiagonal(options) => options,
        OpSpec::Rotor(options) => options,
        OpSpec::RotorNetwork(options) => options,
        OpSpec::Kronecker(options) => options,
        OpSpec::Monarch(options) => options,
        OpSpec::Butterfly(options) => options,
        OpSpec::DiagonalLowRank(options) => options,
        OpSpec::Submatrix(options) => options,
        OpSpec::Sum(options) => options,
        OpSpec::Product(options) => options,
        OpSpec::External { .. } => &External,
    }
}

/// Multiply-adds of a fit of [`super::fit_operator`] to moments.
pub(crate) fn work_of(
    spec: &OpSpec,
    shape: Shape,
    starts: u32,
    iterations: u32,
) -> Result<f64, FitError> {
    let (out, inp) = work::sides(shape);
    // Decomposition and whitening of moments, the operator as a matrix, reports.
    let (macs, _) = work::cost(spec, shape)?;
    let beside = work::eigen(inp) + 2.0 * out * inp * inp + inp * macs + work::report(shape);
    let effort =
        Effort { spec, shape, starts: f64::from(starts), iterations: f64::from(iterations) };
    Ok(beside + of(spec).work(&effort)?)
}
