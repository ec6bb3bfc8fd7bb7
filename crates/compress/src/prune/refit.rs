//! Output projections fitted again to the outputs of the original model, after a choice of what
//! they read.
//!
//! With the outputs Y of the original weight on its own inputs and the inputs X of the kept columns
//! in the model pruned so far, the new columns minimise `|Y − V X|² + λ |V − W|²`, where W holds
//! the columns before the refit. λ is a share of the mean second moment of a column.

use crate::FitError;
use crate::fit::regression::{corrected, mean_moment};
use crate::methods::{Fit, FitProblem};
use linwright_ops::{Op, OpError};
use linwright_tensor::Mat;

/// The output projection of a problem with sums, best with these columns alone; the others are
/// zero. `weight` (out, inp) is that before the refit, and `op` makes the operator from all columns
/// of the new one.
///
/// # Errors
/// [`FitError`].
pub(super) fn refit(
    problem: &FitProblem<'_>,
    weight: &Mat<f64>,
    columns: &[usize],
    share: f64,
    op: impl FnOnce(Mat<f32>) -> Result<Op<f32>, OpError>,
) -> Result<Fit, FitError> {
    let (shape, target) = (problem.shape, problem.target()?);
    let (moments, count) = (&target.inputs.sxx, columns.len());
    let gram = Mat::from_fn(count, count, |i, j| moments.at(columns[i], columns[j]));
    let among = |of: &Mat<f64>| Mat::from_fn(shape.out, count, |o, j| of.at(o, columns[j]));
    let ridge = share * mean_moment(gram.view());
    let what = "second moments of the kept channels";
    let best = corrected(&among(weight), gram, among(&target.syx), ridge, what)?;
    let mut whole = Mat::zeros(shape.out, shape.inp);
    for o in 0..shape.out {
        let places = columns.iter().enumerate();
        places.for_each(|(j, &column)| *whole.at_mut(o, column) = best.at(o, j));
    }
    problem.closed(op(whole.cast())?, &whole, Some(ridge), 0)
}
