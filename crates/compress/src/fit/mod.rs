//! Fitting an operator of any kind to a dense weight or to data.
//!
//! [`project`] returns the member of a kind nearest to a weight in the Frobenius norm,
//! [`fit_operator`] the one with the least `E|y - op(x)|²` for moments or samples; a weight is the
//! special case `E[x xᵀ] = I`. All computations are in `f64`.
//!
//! | kind | for a weight | for moments | planted members |
//! | --- | --- | --- | --- |
//! | dense, low rank, block diagonal (BH1), diagonal | closed | closed | recovered |
//! | Kronecker, Monarch | closed | alternating from the closed form | recovered |
//! | diagonal plus low rank, sums | alternating, then trained | same | recovered if unique |
//! | circulant and diagonal | alternating, then trained | same | recovered |
//! | butterfly of matrices | peeled, then trained | same | recovered |
//! | butterfly of angles, rotor, BH-m, products | trained | trained | found with enough starts |
//! | rotor networks, external operators | trained | trained; samples if nonlinear | not guaranteed
//! |
//!
//! *Closed* is the global optimum; *alternating* lowers the error in every step, to a local
//! minimum; *trained* is L-BFGS on all data at once from several starts, of which the best is kept.
//! Trained fits need only forward and backward: see [`fit_from`] for external operators.
//!
//! A kind is one file with its `KindFit`, and one line of `kind::of`.

mod alternate;
mod block_diagonal;
mod butterfly;
mod circulant_diagonal;
#[cfg(test)]
pub(crate) mod counted;
mod dense;
mod diagonal_low_rank;
mod families;
pub(crate) mod kind;
mod kronecker;
pub(crate) mod low_rank;
mod monarch;
#[cfg(test)]
pub(crate) mod planted;
mod product;
pub mod regression;
pub mod ridge;
mod rotor;
mod rotor_network;
pub(crate) mod sample_space;
pub mod spectrum;
mod submatrix;
mod sum;
mod trained;
pub(crate) mod work;

pub use families::{Family, FamilyFit, FamilyFits, FamilyRefusal, SingularRange, fit_families};

pub use ridge::Ridge;

use crate::FitError;
use kind::LeastSquares;
use linwright_ops::{Op, OpSpec, Shape};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{MatRef, RngKey, Scalar};
use linwright_train::Control;
use regression::{Inputs, Regression, Rows, multiply, squares};

/// Name of a fit in messages and progress.
const NAME: &str = "fit of an operator";

/// Target of a fit.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A dense weight (out, inp).
    Weight(MatRef<'a, f64>),
    /// Sums or means over samples, all with the same normalisation, not centred.
    Moments {
        /// `E[x xᵀ]` (inp, inp).
        second: MatRef<'a, f64>,
        /// `E[y xᵀ]` (out, inp).
        cross: MatRef<'a, f64>,
        /// `E|y|²`.
        power: f64,
    },
    /// Samples.
    Samples {
        /// Inputs (rows, inp).
        x: MatRef<'a, f64>,
        /// Targets (rows, out).
        y: MatRef<'a, f64>,
    },
}

/// Options of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitOptions {
    /// Number of starts of a fit that is not closed; the best is kept.
    pub starts: u32,
    /// Largest number of iterations of a start; 0 keeps the initial value.
    pub iterations: u32,
    /// A start ends when one alternation, or ten iterations of training, lower the error by less
    /// than this share.
    pub tolerance: f64,
    /// Key of random starts.
    pub key: RngKey,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { starts: 4, iterations: 400, tolerance: 1e-6, key: RngKey::new(0) }
    }
}

/// Procedure of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// The optimum in closed form.
    Closed,
    /// Closed forms of the parts in turn; the error never increases.
    Alternating,
    /// Minimised by L-BFGS from several starts.
    Trained,
}

impl Procedure {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Alternating => "alternating",
            Self::Trained => "trained",
        }
    }
}

/// A fitted operator.
#[derive(Clone, Debug)]
pub struct OperatorFit {
    /// The operator.
    pub op: Op<f64>,
    /// `E|y - op(x)|²` over `E|y|²`, or the error itself if the target is zero; for a weight,
    /// squared Frobenius norms.
    pub relative_error: f64,
    /// Procedure of the fit.
    pub procedure: Procedure,
    /// Iterations of the best start; 0 for a closed form.
    pub iterations: u64,
    /// Number of input directions without data, which are ignored.
    pub dropped_directions: usize,
}

/// Common arguments of fits of all kinds.
pub(crate) struct Context<'a> {
    options: &'a FitOptions,
    control: &'a mut dyn Control,
}

/// Result of the fit of a kind.
pub(crate) struct Found {
    op: Op<f64>,
    /// Squared error, not divided by the power of the target.
    error: f64,
    procedure: Procedure,
    iterations: u64,
}

impl Found {
    /// The result with the smaller error; of two equal ones the older.
    fn better(best: Option<Self>, found: Self) -> Self {
        match best {
            Some(best) if best.error <= found.error => best,
            _ => found,
        }
    }

    fn finish(self, power: f64, dropped_directions: usize) -> Result<OperatorFit, FitError> {
        for p in self.op.map().params() {
            check_finite(&p.name, p.values, "the fitted operator")?;
        }
        let Self { op, error, procedure, iterations } = self;
        let relative_error = if power > 0.0 { error / power } else { error };
        Ok(OperatorFit { op, relative_error, procedure, iterations, dropped_directions })
    }
}

impl Target<'_> {
    /// Shape of operators for this target.
    #[must_use]
    pub fn shape(&self) -> Shape {
        match self {
            Self::Weight(weight) => Shape { out: weight.rows(), inp: weight.cols() },
            Self::Moments { cross, .. } => Shape { out: cross.rows(), inp: cross.cols() },
            Self::Samples { x, y } => Shape { out: y.cols(), inp: x.cols() },
        }
    }

    /// Checks that shapes match and all numbers are finite.
    fn check(&self) -> Result<(), FitError> {
        let shape = self.shape();
        let parts = match self {
            Self::Weight(weight) => vec![("weight", *weight)],
            Self::Moments { second, cross, power } => {
                check_finite("power", &[*power], "the target")?;
                check_side(shape, "rows of the second moment", second.rows(), shape.inp)?;
                check_side(shape, "columns of the second moment", second.cols(), shape.inp)?;
                vec![("second moment", *second), ("cross moment", *cross)]
            }
            Self::Samples { x, y } => {
                check_side(shape, "targets", y.rows(), x.rows())?;
                vec![("input", *x), ("target", *y)]
            }
        };
        let rows = |(name, part): &(&'static str, MatRef<'_, f64>)| {
            (0..part.rows()).try_for_each(|i| check_finite(name, part.row(i), "the target"))
        };
        parts.iter().try_for_each(rows)
    }
}

fn check_side(
    shape: Shape,
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), FitError> {
    if found == expected { Ok(()) } else { Err(FitError::Side { shape, what, found, expected }) }
}

pub(crate) fn check_finite<T: Scalar>(
    what: &str,
    values: &[T],
    of: &'static str,
) -> Result<(), FitError> {
    if values.iter().all(|v| v.to_f64().is_finite()) {
        return Ok(());
    }
    Err(FitError::NonFinite { what: what.to_owned(), of: of.to_owned() })
}

/// Fits an operator of a kind by least squares.
///
/// # Errors
/// [`FitError`] if no operator with these options has this shape, parts of the target do not match,
/// a number is not finite, or the user cancels.
pub fn fit_operator(
    spec: &OpSpec,
    target: &Target<'_>,
    options: &FitOptions,
    control: &mut dyn Control,
) -> Result<OperatorFit, FitError> {
    target.check()?;
    let mut context = Context { options, control };
    if let (false, Target::Samples { x, y }) = (spec.is_linear(), target) {
        let (rows, shape) = (samples(*x, *y), target.shape());
        let found = trained::fit(spec, shape, &rows, None, &mut context)?;
        return found.finish(rows.power, 0);
    }
    with_regression(target, |regression| {
        let found = solve(spec, regression, None, &mut context)?;
        found.finish(regression.power(), regression.dropped())
    })
}

/// Projects a weight (out, inp) onto a kind: the nearest member in the Frobenius norm.
///
/// # Errors
/// As [`fit_operator`].
pub fn project(
    spec: &OpSpec,
    weight: MatRef<'_, f64>,
    options: &FitOptions,
    control: &mut dyn Control,
) -> Result<OperatorFit, FitError> {
    fit_operator(spec, &Target::Weight(weight), options, control)
}

/// Trains an operator from its current parameters; external operators too, since only forward and
/// backward are needed. A nonlinear one needs samples.
///
/// # Errors
/// [`FitError::Evidence`] if samples are needed and missing, and as [`fit_operator`].
pub fn fit_from(
    op: Op<f64>,
    target: &Target<'_>,
    options: &FitOptions,
    control: &mut dyn Control,
) -> Result<OperatorFit, FitError> {
    target.check()?;
    let (shape, found) = (target.shape(), op.map().shape());
    check_side(shape, "outputs of the operator", found.out, shape.out)?;
    check_side(shape, "inputs of the operator", found.inp, shape.inp)?;
    let mut context = Context { options, control };
    if let Op::Map(_) = op {
        let Target::Samples { x, y } = target else { return Err(needs_samples()) };
        let rows = samples(*x, *y);
        return trained::descend(op, &rows, &mut context)?.finish(rows.power, 0);
    }
    with_regression(target, |regression| {
        let found = trained::descend(op, &regression.rows(), &mut context)?;
        found.finish(regression.power(), regression.dropped())
    })
}

fn needs_samples() -> FitError {
    FitError::Evidence { needed: "samples, since the operator is not linear", found: "sums" }
}

fn samples(x: MatRef<'_, f64>, y: MatRef<'_, f64>) -> Rows {
    let (x, y) = (x.to_mat(), y.to_mat());
    let power = squares(&y);
    Rows { x, y, rest: 0.0, power }
}

/// Calls `work` with the target as a linear regression.
fn with_regression<R>(
    target: &Target<'_>,
    solve: impl FnOnce(&Regression<'_>) -> Result<R, FitError>,
) -> Result<R, FitError> {
    match target {
        Target::Weight(weight) => solve(&Regression::of_weight(*weight)),
        Target::Moments { second, cross, power } => {
            solve(&Regression::of_moments(&Inputs::new(*second, usize::MAX)?, *cross, *power))
        }
        Target::Samples { x, y } => {
            let second = multiply(Arg::Transposed(*x), (*x).into());
            let cross = multiply(Arg::Transposed(*y), (*x).into());
            let inputs = Inputs::new(second.view(), x.rows())?;
            solve(&Regression::of_moments(&inputs, cross.view(), squares(&y.to_mat())))
        }
    }
}

/// Fits an operator to a regression as its kind is fitted. `from` initialises fits that are not
/// closed.
fn solve(
    spec: &OpSpec,
    regression: &Regression<'_>,
    from: Option<&Op<f64>>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    match spec.is_linear() {
        true => kind::of(spec).fit(&LeastSquares { spec, regression, from }, context),
        false => Err(needs_samples()),
    }
}

/// Builds an operator from parameters in its own order.
fn assemble(spec: &OpSpec, shape: Shape, values: &[&[f64]]) -> Result<Op<f64>, FitError> {
    let mut op = spec.random::<f64>(shape, RngKey::new(0))?;
    let mut params = op.map_mut().params_mut();
    assert_eq!(params.len(), values.len(), "parameters of {}", spec.kind());
    for (p, values) in params.iter_mut().zip(values) {
        p.values.copy_from_slice(values);
    }
    drop(params);
    Ok(op)
}
