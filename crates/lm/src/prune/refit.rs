//! Output projections fitted again to the outputs of the original model, after a choice of what
//! they read.
//!
//! With the outputs Y of the original weight on its own inputs and the inputs X of the kept columns
//! in the model pruned so far, the new columns minimise `|Y − V X|² + λ |V − W|²`, where W holds
//! the columns before the refit.

use linwright_compress::FitError;
use linwright_compress::fit::Ridge;
use linwright_compress::fit::ridge::Pulled;
use linwright_compress::methods::{Fit, FitProblem};
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
    ridge: Ridge,
    op: impl FnOnce(Mat<f32>) -> Result<Op<f32>, OpError>,
) -> Result<Fit, FitError> {
    let shape = problem.shape;
    let [train, held_out] = problem.sums()?.map(|sums| sums.with_columns(columns));
    let kept = Mat::from_fn(shape.out, columns.len(), |o, j| weight.at(o, columns[j]));
    let pulled = problem.regression([&train, &held_out], &kept, ridge)?;
    let mut whole = Mat::zeros(shape.out, shape.inp);
    for o in 0..shape.out {
        let places = columns.iter().enumerate();
        places.for_each(|(j, &column)| *whole.at_mut(o, column) = pulled.map.at(o, j));
    }
    let op = op(whole.cast())?;
    problem.closed(op, &whole, &Pulled { map: whole.clone(), ..pulled })
}
