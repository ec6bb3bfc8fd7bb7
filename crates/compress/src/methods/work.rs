//! How much arithmetic a fit takes, in multiply-adds: what estimates of time are made of.
//!
//! The figures are those of the largest terms. What they leave out, and how far alternations and
//! descents go before they end, is in the rate at which this machine carries out the same fit of a
//! smaller layer: see [`crate::rates`].

use crate::FitError;
use linwright_ops::{OpSpec, Shape};

/// Multiply-adds of the eigenvalues and vectors of a symmetric matrix of n numbers a side, over n³.
const EIGEN: f64 = 9.0;
/// Of a singular value decomposition (m, n), over `max(m, n) · min(m, n)²`.
const SINGULAR: f64 = 10.0;
/// Iterations after which fits of real layers ended, where they are allowed more: alternations of
/// Kronecker products, and of sums; descents of rotors.
const KRONECKER_SWEEPS: f64 = 100.0;
const SWEEPS: f64 = 15.0;
const ROTOR_ITERATIONS: f64 = 100.0;
/// The same of low rank beside a diagonal, by sweeps and then by descent: `a + b · rank / max(out,
/// inp)`. The more directions the thin factors have, the more of the diagonal they can take over,
/// and the slower the two settle what is whose. Fits of layers of 128 to 1,536 a side at ranks 8 to
/// 153 ended after half to twice as many; those of which nearly nothing is left go on for longer.
const DIAGONAL_SWEEPS: (f64, f64) = (7.0, 280.0);
const DIAGONAL_ITERATIONS: (f64, f64) = (7.0, 240.0);
/// Steps that all factors of circulants are moved together.
const STEPS: f64 = 30.0;
/// Evaluations of the loss in an iteration of L-BFGS, and pairs that it remembers.
const EVALUATIONS: f64 = 1.1;
const MEMORY: f64 = 30.0;
/// A number of a sum that is added up one by one, in multiply-adds of products of matrices.
const SERIAL: f64 = 10.0;
/// One of a decomposition of a small block, of numbers moved between the orders of factors, or of a
/// loop over what is predicted.
const SMALL: f64 = 30.0;

/// Numbers of derivatives up to which all factors of circulants are moved together, which is
/// another work.
const CIRCULANT_DERIVATIVES: f64 = 16_777_216.0;

/// Samples of a trained fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRows {
    /// For training.
    pub train: usize,
    /// For validation.
    pub validation: usize,
}

/// Sides as numbers.
pub(super) fn sides(shape: Shape) -> (f64, f64) {
    (shape.out as f64, shape.inp as f64)
}

/// Eigenvalues and vectors of a symmetric matrix.
pub(super) fn eigen(n: f64) -> f64 {
    EIGEN * n.powi(3)
}

/// Singular values and vectors.
pub(super) fn singular(m: f64, n: f64) -> f64 {
    SINGULAR * m.max(n) * m.min(n).powi(2)
}

/// The error of a matrix from sums, of training and of validation.
pub(super) fn report(shape: Shape) -> f64 {
    let (out, inp) = sides(shape);
    2.0 * out * inp * inp
}

/// What an operator of a specification costs: multiply-adds a row, and parameters.
pub(super) fn cost(spec: &OpSpec, shape: Shape) -> Result<(f64, f64), FitError> {
    let cost = spec.cost(shape)?;
    Ok((cost.macs_per_row as f64, cost.parameters as f64))
}

/// A descent of so many iterations on as many rows as there are inputs.
fn descent(spec: &OpSpec, shape: Shape, iterations: f64) -> Result<f64, FitError> {
    let ((out, inp), (macs, parameters)) = (sides(shape), cost(spec, shape)?);
    // Predictions are compared with targets, squared and scaled one by one.
    let evaluation = inp * (3.0 * macs + SMALL * out);
    // A pair comes with every iteration until the memory is full.
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
    // Moments decomposed and whitened, the operator as a matrix, reports.
    let (macs, _) = cost(spec, shape)?;
    let beside = eigen(inp) + 2.0 * out * inp * inp + inp * macs + report(shape);
    Ok(beside + of_kind(spec, shape, f64::from(starts), f64::from(iterations))?)
}

/// What a kind adds to what all share. One line a kind, as the fits have.
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
            // The products of factors are put in order, number by number.
            let ordered = 10.0 * SMALL * out * inp;
            let sweep = half(o1, i1, i2) + half(o2, i2, i1) + terms * out * inp + error + ordered;
            singular(o1 * i1, o2 * i2) + KRONECKER_SWEEPS.min(iterations) * sweep
        }
        OpSpec::Monarch(_) => {
            let OpSpec::Monarch(options) = spec.cost(shape)?.spec else { return Ok(error) };
            let blocks = options.blocks.unwrap_or(1) as f64;
            let (high, wide) = (out / blocks, inp / blocks);
            // Each block is solved alone, and numbers are moved between the orders of the factors:
            // small work that takes long, and grows less than the products do.
            let alone = blocks * eigen(wide) + high * eigen(blocks) + 30.0 * out * inp;
            let sweep = 3.0 * out * inp * wide + error + SMALL * alone;
            SMALL * high * blocks * singular(blocks, wide) + iterations * sweep
        }
        // The root of the moments, and no iterations.
        OpSpec::DiagonalLowRank(options) if options.rank == 0 => inp.powi(3),
        OpSpec::DiagonalLowRank(options) => {
            // What takes the diagonal off walks through the matrices some times.
            let rank = options.rank as f64;
            let thin = rank * (4.0 * inp * inp + 3.0 * out * inp);
            // Either factor is solved for by the eigenvectors of a matrix of the rank.
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
            // Small ones are moved together after some sweeps.
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
        // Every other start goes down twice, the first of them with the weight.
        OpSpec::BlockHadamard(_)
        | OpSpec::Butterfly(_)
        | OpSpec::Product(_)
        | OpSpec::RotorNetwork(_)
        | OpSpec::External { .. } => (starts + (starts / 2.0).ceil()) * down(spec)?,
    })
}

/// The least side of a layer that a fit is timed on: a smaller one would be fitted in another way.
pub(super) fn least_side(spec: &OpSpec) -> usize {
    match spec {
        OpSpec::CirculantDiagonal(options) => {
            let count = (2 * options.factors).saturating_sub(1).max(1) as f64;
            (CIRCULANT_DERIVATIVES / count).cbrt() as usize + 1
        }
        _ => 16,
    }
}

/// Iterations of a fit that is timed: fewer than those after which it ends by itself, and few of a
/// sum, whose sweeps are whole fits, lest its layer become too small to tell anything.
pub(super) fn timed_iterations(spec: &OpSpec) -> u32 {
    match spec {
        OpSpec::Sum(_) => 2,
        _ => 8,
    }
}

/// A specification for sides that are smaller by a factor: named extents go, ranks shrink.
pub(super) fn shrunk(spec: &OpSpec, by: usize) -> OpSpec {
    let mut spec = spec.clone();
    let less = |extent: usize| (extent / by).max(1);
    match &mut spec {
        OpSpec::LowRank(options) => options.rank = less(options.rank),
        // Rank 0 stays: it is fitted in closed form.
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
        OpSpec::Dense(_) | OpSpec::CirculantDiagonal(_) | OpSpec::External { .. } => {}
    }
    spec
}
