//! Output projections fitted again after the choice of heads and channels.
//!
//! With the outputs Y of the original weight W on its own inputs and the inputs X of the kept
//! columns K in the model pruned so far, the new columns minimise
//! `|Y − V X_K|² + λ |V − W_K|²`: `V = (Y Xᵀ_K + λ W_K) (X_K Xᵀ_K + λ)⁻¹`. λ is a share of the mean
//! second moment of a column.

use crate::FitError;
use crate::methods::Fit;
use crate::prune::branches::Branch;
use linwright_measure::capture::Evidence;
use linwright_model::Transformer;
use linwright_ops::{Dense, Op};
use linwright_tensor::Mat;
use linwright_tensor::linalg::{NotPositiveDefinite, solve_spd};

/// The output projection of a branch, best with these groups of inputs alone; the others are zero.
pub(super) fn refit(
    original: &Transformer,
    branch: &Branch,
    kept: &[usize],
    share: f64,
    evidence: &Evidence,
) -> Result<Fit, FitError> {
    let problem = branch.problem(original, evidence);
    let shape = problem.shape;
    let target = problem.target()?;
    let (size, moments) = (branch.group_size(), &target.inputs.sxx);
    let columns: Vec<usize> =
        kept.iter().flat_map(|group| group * size..(group + 1) * size).collect();
    let mean = columns.iter().map(|&i| moments.at(i, i)).sum::<f64>() / columns.len() as f64;
    let ridge = share * mean;
    let gram = Mat::from_fn(columns.len(), columns.len(), |i, j| {
        moments.at(columns[i], columns[j]) + if i == j { ridge } else { 0.0 }
    });
    let weight: Mat<f64> = problem.original.to_dense()?.cast();
    let wanted = Mat::from_fn(shape.out, columns.len(), |o, j| {
        target.syx.at(o, columns[j]) + ridge * weight.at(o, columns[j])
    });
    let numerics = |error: NotPositiveDefinite| FitError::Numerics {
        what: "second moments of the kept channels",
        reason: error.to_string(),
    };
    let best = solve_spd(gram.view(), wanted.view()).map_err(numerics)?;
    let mut whole = Mat::zeros(shape.out, shape.inp);
    for o in 0..shape.out {
        columns
            .iter()
            .enumerate()
            .for_each(|(j, &column)| *whole.at_mut(o, column) = best.at(o, j));
    }
    let op = Op::Linear(Box::new(Dense::new(whole.cast())));
    problem.closed(op, &whole, Some(ridge), 0)
}
