//! Linear systems with a general square matrix, by Gaussian elimination with pivoting.

use super::to_faer;
use crate::{Mat, MatRef};
use faer::linalg::solvers::Solve;

/// A singular matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Singular {
    /// Index of the first bad pivot.
    pub index: usize,
    /// The pivot: zero or not finite.
    pub pivot: f64,
}

impl std::fmt::Display for Singular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the matrix has no inverse: pivot {} is {}", self.index, self.pivot)
    }
}

impl std::error::Error for Singular {}

/// Solves `A X = B` for X (n, m), with A (n, n) and B (n, m).
///
/// # Errors
/// [`Singular`].
///
/// # Panics
/// If the shapes do not match.
pub fn solve(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Result<Mat<f64>, Singular> {
    assert_eq!((a.rows(), b.rows()), (a.cols(), a.cols()), "shapes of a left division");
    let lu = to_faer(a).partial_piv_lu();
    let upper = lu.U();
    for index in 0..a.rows() {
        let pivot = upper[(index, index)];
        if !pivot.is_finite() || pivot == 0.0 {
            return Err(Singular { index, pivot });
        }
    }
    let solved = lu.solve(to_faer(b));
    Ok(Mat::from_fn(b.rows(), b.cols(), |i, j| solved[(i, j)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn solutions_solve_and_singular_matrices_are_told() {
        for (n, m) in [(0, 2), (1, 1), (5, 3), (12, 1)] {
            let mut stream = RngKey::new(n as u64).stream();
            let a = Mat::from_fn(n, n, |_, _| stream.normal());
            let b = Mat::from_fn(n, m, |_, _| stream.normal());
            let x = solve(a.view(), b.view()).unwrap();
            for i in 0..n {
                for j in 0..m {
                    let found: f64 = (0..n).map(|k| a.at(i, k) * x.at(k, j)).sum();
                    assert!((found - b.at(i, j)).abs() < 1e-11);
                }
            }
        }
        let zeros = Mat::zeros(2, 2);
        let singular = solve(zeros.view(), zeros.view()).unwrap_err();
        assert_eq!(singular, Singular { index: 0, pivot: 0.0 });
        assert_eq!(singular.to_string(), "the matrix has no inverse: pivot 0 is 0");
        let nan = Mat::from_fn(2, 2, |_, _| f64::NAN);
        assert!(solve(nan.view(), zeros.view()).is_err());
    }
}
