//! Multiply-adds of fits, for estimates of time.
//!
//! Only the largest terms are counted. Smaller ones, and the number of iterations until
//! convergence, enter through the measured rate of the same fit on a smaller layer: see
//! [`crate::rates`].

use super::Ridge;
use crate::FitError;
use linwright_ops::{OpSpec, Shape};

/// Multiply-adds of a symmetric eigendecomposition of size n, over n³.
const EIGEN: f64 = 9.0;
/// Multiply-adds of an SVD (m, n), over `max(m, n) · min(m, n)²`.
const SINGULAR: f64 = 10.0;
/// Loss evaluations per L-BFGS iteration, and vector pairs in its memory.
const EVALUATIONS: f64 = 1.1;
const MEMORY: f64 = 30.0;
/// Cost of an entry of a serial sum, in multiply-adds of matrix products.
pub(super) const SERIAL: f64 = 10.0;
/// Cost of an entry in the decomposition of a small block, in a reordering of factors, or in a loop
/// over predictions.
pub(super) const SMALL: f64 = 30.0;

/// Both sides as floats.
pub(crate) fn sides(shape: Shape) -> (f64, f64) {
    (shape.out as f64, shape.inp as f64)
}

/// Symmetric eigendecomposition of size n.
pub(crate) fn eigen(n: f64) -> f64 {
    EIGEN * n.powi(3)
}

/// SVD of an (m, n) matrix.
pub(crate) fn singular(m: f64, n: f64) -> f64 {
    SINGULAR * m.max(n) * m.min(n).powi(2)
}

/// A decomposition of a weight under the moments of its input, on the smaller side.
pub(crate) fn spectrum(shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    let side = out.min(inp);
    // Of a tall weight first its columns, and at the end all outputs.
    let columns = if out > inp { 2.0 * out * inp * inp } else { 0.0 };
    side * inp * inp + 2.0 * side * side * inp + eigen(side) + columns
}

/// A regression with a ridge: its solution, and the decomposition and products that choose an
/// automatic one.
pub(crate) fn regression(ridge: Ridge, shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    match ridge {
        Ridge::Share(_) => inp.powi(3) / 3.0 + 2.0 * out * inp * inp,
        Ridge::Auto => eigen(inp) + 2.0 * inp.powi(3) + 6.0 * out * inp * inp,
    }
}

/// Errors of a matrix from training and validation sums.
pub(crate) fn report(shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    2.0 * out * inp * inp
}

/// Cost of an operator: multiply-adds per row, and parameters.
pub(crate) fn cost(spec: &OpSpec, shape: Shape) -> Result<(f64, f64), FitError> {
    let cost = spec.cost(shape)?;
    Ok((cost.macs_per_row as f64, cost.parameters as f64))
}

/// L-BFGS iterations on as many rows as there are inputs.
pub(super) fn descent(spec: &OpSpec, shape: Shape, iterations: f64) -> Result<f64, FitError> {
    let ((out, inp), (macs, parameters)) = (sides(shape), cost(spec, shape)?);
    // Predictions are compared with targets, squared and scaled in serial loops.
    let evaluation = inp * (3.0 * macs + SMALL * out);
    // The number of pairs grows with every iteration until the memory is full.
    let filling = iterations.min(MEMORY);
    let pairs = filling * filling / 2.0 + (iterations - filling) * MEMORY;
    Ok(iterations * EVALUATIONS * evaluation + 4.0 * SERIAL * pairs * parameters)
}
