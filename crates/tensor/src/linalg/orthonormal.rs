//! An orthonormal basis of the columns of a matrix.

use super::{NoConvergence, to_faer};
use crate::{Mat, MatRef};

/// Q of the thin decomposition `A = Q R` (rows, min(rows, cols)), by Householder reflections.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite.
pub fn orthonormal_columns(a: MatRef<'_, f64>) -> Result<Mat<f64>, NoConvergence> {
    if (0..a.rows()).any(|i| a.row(i).iter().any(|v| !v.is_finite())) {
        return Err(NoConvergence);
    }
    let q = to_faer(a).qr().compute_thin_Q();
    Ok(Mat::from_fn(q.nrows(), q.ncols(), |i, j| q[(i, j)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn columns_are_orthonormal_and_span_those_of_the_matrix() {
        let a: Mat<f64> = Mat::from_vec(12, 4, RngKey::new(1).stream().normals(48, 1.0));
        let q = orthonormal_columns(a.view()).unwrap();
        let dot = |x: &Mat<f64>, k: usize, y: &Mat<f64>, l: usize| {
            (0..12).map(|i| x.at(i, k) * y.at(i, l)).sum::<f64>()
        };
        for k in 0..4 {
            for l in 0..4 {
                assert!((dot(&q, k, &q, l) - f64::from(u8::from(k == l))).abs() < 1e-12);
            }
            let inside: f64 = (0..4).map(|l| dot(&a, k, &q, l).powi(2)).sum();
            assert!((inside - dot(&a, k, &a, k)).abs() < 1e-10);
        }
        assert!(orthonormal_columns(Mat::from_fn(2, 2, |_, _| f64::NAN).view()).is_err());
    }
}
