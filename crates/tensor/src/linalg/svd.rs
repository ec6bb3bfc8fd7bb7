//! Singular value decomposition.

use super::{NoConvergence, to_faer};
use crate::{Mat, MatRef};

/// `A = U diag(s) Vᵀ`, thin, singular values descending.
#[derive(Clone, Debug)]
pub struct Svd {
    /// Left singular vectors, (rows, min(rows, cols)).
    pub u: Mat<f64>,
    /// Singular values, descending.
    pub s: Vec<f64>,
    /// Right singular vectors as rows, (min(rows, cols), cols).
    pub vt: Mat<f64>,
}

/// Thin singular value decomposition in double precision.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
pub fn svd(a: MatRef<'_, f64>) -> Result<Svd, NoConvergence> {
    if (0..a.rows()).any(|i| a.row(i).iter().any(|v| !v.is_finite())) {
        return Err(NoConvergence);
    }
    let svd = to_faer(a).thin_svd().map_err(|_| NoConvergence)?;
    let (u, s, v) = (svd.U(), svd.S().column_vector(), svd.V());
    Ok(Svd {
        u: Mat::from_fn(u.nrows(), u.ncols(), |i, j| u[(i, j)]),
        s: (0..s.nrows()).map(|i| s[i]).collect(),
        vt: Mat::from_fn(v.ncols(), v.nrows(), |i, j| v[(j, i)]),
    })
}
