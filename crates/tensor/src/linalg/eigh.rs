//! Eigendecomposition of symmetric matrices.

use super::{NoConvergence, to_faer};
use crate::{Mat, MatRef};

/// `A = Q diag(w) Qᵀ`, eigenvalues rising.
#[derive(Clone, Debug)]
pub struct Eigh {
    /// Eigenvalues, rising.
    pub values: Vec<f64>,
    /// Eigenvectors as columns, (n, n).
    pub vectors: Mat<f64>,
}

/// Eigendecomposition of a symmetric matrix, of which only the lower triangle is read.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
pub fn eigh(a: MatRef<'_, f64>) -> Result<Eigh, NoConvergence> {
    assert_eq!(a.rows(), a.cols(), "a symmetric matrix is square");
    if (0..a.rows()).any(|i| a.row(i).iter().any(|v| !v.is_finite())) {
        return Err(NoConvergence);
    }
    let eigen = to_faer(a).self_adjoint_eigen(faer::Side::Lower).map_err(|_| NoConvergence)?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    Ok(Eigh {
        values: (0..values.nrows()).map(|i| values[i]).collect(),
        vectors: Mat::from_fn(vectors.nrows(), vectors.ncols(), |i, j| vectors[(i, j)]),
    })
}
