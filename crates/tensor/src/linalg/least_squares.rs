//! Linear systems with a symmetric positive definite matrix.

use super::to_faer;
use crate::{Mat, MatRef};
use faer::linalg::solvers::Solve;

/// The matrix of a Cholesky solve is not positive definite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPositiveDefinite;

impl std::fmt::Display for NotPositiveDefinite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the matrix is not positive definite; add a ridge")
    }
}

impl std::error::Error for NotPositiveDefinite {}

/// Solves `X A = B` for X, with A (n, n) symmetric positive definite (lower triangle read) and
/// B (m, n).
///
/// # Errors
/// [`NotPositiveDefinite`].
pub fn solve_spd(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Result<Mat<f64>, NotPositiveDefinite> {
    assert_eq!((a.rows(), b.cols()), (a.cols(), a.cols()), "shapes of a right division");
    let llt = to_faer(a).llt(faer::Side::Lower).map_err(|_| NotPositiveDefinite)?;
    let solved = llt.solve(faer::Mat::from_fn(b.cols(), b.rows(), |i, j| b.at(j, i)));
    Ok(Mat::from_fn(b.rows(), b.cols(), |i, j| solved[(j, i)]))
}
