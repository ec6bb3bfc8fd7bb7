//! Multiply-adds of fits, for estimates of time.
//!
//! Only the largest terms are counted. Smaller ones, and the number of iterations until
//! convergence, enter through the measured rate of the same fit on a smaller layer: see
//! [`crate::rates`].

use crate::FitError;
use crate::fit::Ridge;
use linwright_ops::{OpSpec, Shape};

/// Multiply-adds of a symmetric eigendecomposition of size n, over n³.
const EIGEN: f64 = 9.0;
/// Multiply-adds of an SVD (m, n), over `max(m, n) · min(m, n)²`.
const SINGULAR: f64 = 10.0;
/// Typical iterations until convergence for real layers, if more are allowed: alternations of
/// Kronecker products and of sums, L-BFGS iterations of rotors.
const KRONECKER_SWEEPS: f64 = 100.0;
const SWEEPS: f64 = 15.0;
const ROTOR_ITERATIONS: f64 = 100.0;
/// The same for diagonal plus low rank, as sweeps and L-BFGS iterations: `a + b · rank / max(out,
/// inp)`. The higher the rank, the more of the diagonal the factors can represent, and the slower
/// the convergence. Fits of layers of side 128 to 1,536 at ranks 8 to 153 ended after half to twice
/// as many; those with nearly zero error take longer.
const DIAGONAL_SWEEPS: (f64, f64) = (7.0, 280.0);
const DIAGONAL_ITERATIONS: (f64, f64) = (7.0, 240.0);
/// Joint steps on all factors of circulants.
const STEPS: f64 = 30.0;
/// Loss evaluations per L-BFGS iteration, and vector pairs in its memory.
const EVALUATIONS: f64 = 1.1;
const MEMORY: f64 = 30.0;
/// Cost of an entry of a serial sum, in multiply-adds of matrix products.
const SERIAL: f64 = 10.0;
/// Cost of an entry in the decomposition of a small block, in a reordering of factors, or in a loop
/// over predictions.
const SMALL: f64 = 30.0;

/// Largest number of derivatives for joint steps on all factors of circulants.
const CIRCULANT_DERIVATIVES: f64 = 16_777_216.0;

/// Numbers of samples of a trained fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRows {
    /// Training samples.
    pub train: usize,
    /// Validation samples.
    pub validation: usize,
}

/// Both sides as floats.
pub(super) fn sides(shape: Shape) -> (f64, f64) {
    (shape.out as f64, shape.inp as f64)
}

/// Symmetric eigendecomposition of size n.
pub(super) fn eigen(n: f64) -> f64 {
    EIGEN * n.powi(3)
}

/// SVD of an (m, n) matrix.
pub(super) fn singular(m: f64, n: f64) -> f64 {
    SINGULAR * m.max(n) * m.min(n).powi(2)
}

/// A decomposition of a weight under the moments of its input, on the smaller side.
pub(super) fn spectrum(shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    let side = out.min(inp);
    // Of a tall weight first its columns, and at the end all outputs.
    let columns = if out > inp { 2.0 * out * inp * inp } else { 0.0 };
    side * inp * inp + 2.0 * side * side * inp + eigen(side) + columns
}

/// A regression with a ridge: its solution, and the decomposition and products that choose an
/// automatic one.
pub(super) fn regression(ridge: Ridge, shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    let solution = inp.powi(3) / 3.0 + 2.0 * out * inp * inp;
    match ridge {
        Ridge::Share(_) => solution,
        Ridge::Auto => solution + eigen(inp) + 2.0 * inp.powi(3) + 5.0 * out * inp * inp,
    }
}

/// Errors of a matrix from training and validation sums.
pub(super) fn report(shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    2.0 * out * inp * inp
}

/// Cost of an operator: multiply-adds per row, and parameters.
pub(super) fn cost(spec: &OpSpec, shape: Shape) -> Result<(f64, f64), FitError> {
    let cost = spec.cost(shape)?;
    Ok((cost.macs_per_row as f64, cost.parameters as f64))
}

/// L-BFGS iterations on as many rows as there are inputs.
fn descent(spec: &OpSpec, shape: Shape, iterations: f64) -> Result<f64, FitError> {
    let ((out, inp), (macs, parameters)) = (sides(shape), cost(spec, shape)?);
    // Predictions are compared with targets, squared and scaled in serial loops.
    let evaluation = inp * (3.0 * macs + SMALL * out);
    // The number of pairs grows with every iteration until the memory is full.
    let filling = iterations.min(MEMORY);
    let pairs = filling * filling / 2.0 + (iterations - filling) * MEMORY;
    Ok(iterations * EVALUATIONS * evaluation + 4.0 * SERIAL * pairs * parameters)
}

/// A fit of [`crate::fit::fit_operator`] to moments.
pub(super) fn structured(
    spec: &OpSpec,
    shape: Shape,
    starts: u32,
    iterations: u32,
) -> Result<f64, FitError> {
    let (out, inp) = sides(shape);
    // Decomposition and whitening of moments, the operator as a matrix, reports.
    let (macs, _) = cost(spec, shape)?;
    let beside = eigen(inp) + 2.0 * out * inp * inp + inp * macs + report(shape);
    Ok(beside + of_kind(spec, shape, f64::from(starts), f64::from(iterations))?)
}

/// Work specific to a kind; one line per kind with a fit of its own, as in the fits.
fn of_kind(spec: &OpSpec, shape: Shape, starts: f64, iterations: f64) -> Result<f64, FitError> {
    let (out, inp) = sides(shape);
    let error = out * inp * inp;
    let sweeps = SWEEPS.min(iterations);
    let down = |spec: &OpSpec| descent(spec, shape, iterations);
    Ok(match spec {
        OpSpec::Dense(_) => error,
        OpSpec::LowRank(_) => singular(out, inp) + 2.0 * error,
        OpSpec::BlockHadamard(options) if options.depth == 1 => {
            let (_, parameters) = cost(spec, shape)?;
            let columns = parameters / out;
            eigen(columns) * inp / columns + error
        }
        OpSpec::Kronecker(_) => {
            let OpSpec::Kronecker(options) = spec.cost(shape)?.spec else { return Ok(error) };
            let terms = options.terms as f64;
            let (o1, i1) = options.left.map_or((1.0, 1.0), sides);
            let (o2, i2) = (out / o1, inp / i1);
            let half = |o: f64, i: f64, other: f64| {
                terms * terms * i * i * (o + other * other)
                    + terms * out * inp
                    + eigen(terms * other)
            };
            // The entries of factor products are reordered one by one.
            let ordered = 10.0 * SMALL * out * inp;
            let sweep = half(o1, i1, i2) + half(o2, i2, i1) + terms * out * inp + error + ordered;
            singular(o1 * i1, o2 * i2) + KRONECKER_SWEEPS.min(iterations) * sweep
        }
        OpSpec::Monarch(_) => {
            let OpSpec::Monarch(options) = spec.cost(shape)?.spec else { return Ok(error) };
            let blocks = options.blocks.unwrap_or(1) as f64;
            let (high, wide) = (out / blocks, inp / blocks);
            // Blocks are solved separately, and entries are reordered between the factors: small
            // work that is slow per multiply-add, and grows less than the products.
            let alone = blocks * eigen(wide) + high * eigen(blocks) + 30.0 * out * inp;
            let sweep = 3.0 * out * inp * wide + error + SMALL * alone;
            SMALL * high * blocks * singular(blocks, wide) + iterations * sweep
        }
        // The root of the moments, without iterations.
        OpSpec::DiagonalLowRank(options) if options.rank == 0 => inp.powi(3),
        OpSpec::DiagonalLowRank(options) => {
            // Subtracting the diagonal takes several passes over the matrices.
            let rank = options.rank as f64;
            let thin = rank * (4.0 * inp * inp + 3.0 * out * inp);
            // Either factor is solved for by an eigendecomposition of size rank.
            let solved = 2.0 * eigen(rank) + 3.0 * rank * rank * (out + inp);
            let sweep = thin + solved + 5.0 * SERIAL * out * inp;
            let steps = |(a, b): (f64, f64)| (a + b * rank / out.max(inp)).min(iterations);
            let start = singular(out, inp)
                + 2.0 * error
                + steps(DIAGONAL_SWEEPS) * sweep
                + descent(spec, shape, steps(DIAGONAL_ITERATIONS))?;
            2.0 * inp.powi(3) + starts.min(2.0) * start
        }
        OpSpec::Butterfly(options) if !options.orthogonal => error + down(spec)?,
        OpSpec::CirculantDiagonal(options) => {
            let count = 2.0 * options.factors as f64 - 1.0;
            let sweep = 8.0 * count * inp.powi(3);
            // Small ones take joint steps after some sweeps.
            let start = match count > 1.0 && count * inp.powi(3) <= CIRCULANT_DERIVATIVES {
                true => {
                    40f64.min(iterations) * sweep
                        + STEPS.min(iterations) * count * count * inp.powi(4)
                }
                false => iterations * sweep,
            };
            starts * start + down(spec)?
        }
        OpSpec::Sum(sum) => {
            let parts = sum.terms.iter().map(|term| of_kind(term, shape, 1.0, 10.0));
            let sweep = parts.sum::<Result<f64, FitError>>()? + 2.0 * error;
            starts.min(sum.terms.len() as f64) * ((1.0 + sweeps) * sweep + down(spec)?)
        }
        OpSpec::Rotor(_) => {
            let iterations = ROTOR_ITERATIONS.min(iterations);
            (starts + (starts / 2.0).ceil()) * descent(spec, shape, iterations)?
        }
        // Every other start, including the first, is trained twice: first on the weight.
        _ => (starts + (starts / 2.0).ceil()) * down(spec)?,
    })
}

/// Smallest side of a layer for timing a fit: a smaller one would be fitted by another algorithm.
pub(super) fn least_side(spec: &OpSpec) -> usize {
    match spec {
        OpSpec::CirculantDiagonal(options) => {
            let count = (2 * options.factors).saturating_sub(1).max(1) as f64;
            (CIRCULANT_DERIVATIVES / count).cbrt() as usize + 1
        }
        _ => 16,
    }
}

/// Iterations of a timed fit: fewer than until convergence, and few for a sum, whose sweeps are
/// complete fits, so that its layer need not be too small.
pub(super) fn timed_iterations(spec: &OpSpec) -> u32 {
    match spec {
        OpSpec::Sum(_) => 2,
        _ => 8,
    }
}

/// A specification for sides divided by `by`: named extents are removed, ranks shrink.
pub(super) fn shrunk(spec: &OpSpec, by: usize) -> OpSpec {
    let mut spec = spec.clone();
    let less = |extent: usize| (extent / by).max(1);
    match &mut spec {
        OpSpec::LowRank(options) => options.rank = less(options.rank),
        // Rank 0 stays, since it has a closed form.
        OpSpec::DiagonalLowRank(options) => options.rank = options.rank.div_ceil(by),
        OpSpec::Kronecker(options) => options.left = None,
        OpSpec::Monarch(options) => options.blocks = None,
        OpSpec::BlockHadamard(options) => options.blocks = options.blocks.map(less),
        OpSpec::Butterfly(options) => {
            options.factors = options.factors.map(|m| m.saturating_sub(by.ilog2() as usize).max(1));
        }
        OpSpec::Rotor(options) => options.chunk = options.chunk.map(less),
        OpSpec::RotorNetwork(options) => options.hidden_width = options.hidden_width.map(less),
        OpSpec::Sum(sum) => sum.terms.iter_mut().for_each(|term| *term = shrunk(term, by)),
        OpSpec::Product(product) => {
            product.factors.iter_mut().for_each(|factor| *factor = shrunk(factor, by));
            product.widths.iter_mut().flatten().for_each(|width| *width = less(*width));
        }
        _ => {}
    }
    spec
}
