//! Eigendecomposition of real skew-symmetric matrices, and their rotation planes.

use super::NoConvergence;
use crate::{Mat, MatRef};

/// `A = W diag(i w) Wᴴ` for a real skew-symmetric `A`, the `w` ascending and symmetric about zero.
#[derive(Clone, Debug, PartialEq)]
pub struct SkewEigen {
    /// Imaginary parts of the eigenvalues, ascending.
    pub values: Vec<f64>,
    /// Real parts of the eigenvectors, as columns, (n, n).
    pub re: Mat<f64>,
    /// Imaginary parts of the eigenvectors, as columns, (n, n).
    pub im: Mat<f64>,
}

/// Rotation plane: one term of `A = Σ angle (u vᵀ - v uᵀ)`.
#[derive(Clone, Debug, PartialEq)]
pub struct SkewPlane {
    /// Rotation rate in radians, not negative.
    pub angle: f64,
    /// First unit vector of the plane (n).
    pub u: Vec<f64>,
    /// Second unit vector of the plane (n), orthogonal to `u`.
    pub v: Vec<f64>,
}

impl SkewPlane {
    /// Coefficients of the simple bivector `angle · (u ∧ v)`: n (n - 1) / 2, in lexicographic order
    /// of i < j.
    #[must_use]
    pub fn bivector(&self) -> Vec<f64> {
        let n = self.u.len();
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let wedge = |(i, j): (usize, usize)| self.u[i] * self.v[j] - self.v[i] * self.u[j];
        pairs.map(|pair| self.angle * wedge(pair)).collect()
    }
}

impl SkewEigen {
    /// The `floor(n / 2)` planes, largest angle first.
    ///
    /// An eigenvector of `i w`, `w > 0`, is `(u + i v) / √2`: it is orthogonal to its conjugate up
    /// to rounding over the gap `2 w`, so `angle · (u ∧ v)` is accurate to rounding for small and
    /// for equal angles.
    #[must_use]
    pub fn planes(&self) -> Vec<SkewPlane> {
        let n = self.values.len();
        let scaled = |m: &Mat<f64>, k: usize| -> Vec<f64> {
            (0..n).map(|i| std::f64::consts::SQRT_2 * m.at(i, k)).collect()
        };
        (0..n / 2)
            .map(|k| n - 1 - k)
            .map(|k| SkewPlane {
                angle: self.values[k].max(0.0),
                u: scaled(&self.re, k),
                v: scaled(&self.im, k),
            })
            .collect()
    }
}

/// Eigendecomposition of a real skew-symmetric matrix; only the lower triangle is read.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
///
/// # Panics
/// If the matrix is not square.
pub fn skew_eigen(a: MatRef<'_, f64>) -> Result<SkewEigen, NoConvergence> {
    let n = a.rows();
    assert_eq!(n, a.cols(), "a skew-symmetric matrix is square");
    if (0..n).any(|i| a.row(i).iter().any(|v| !v.is_finite())) {
        return Err(NoConvergence);
    }
    if n < 2 {
        return Ok(SkewEigen { values: vec![0.0; n], re: Mat::identity(n), im: Mat::zeros(n, n) });
    }
    // -i A is Hermitian with the real eigenvalues w.
    let hermitian = faer::Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Greater => faer::c64::new(0.0, -a.at(i, j)),
        std::cmp::Ordering::Equal => faer::c64::new(0.0, 0.0),
        std::cmp::Ordering::Less => faer::c64::new(0.0, a.at(j, i)),
    });
    let eigen = hermitian.self_adjoint_eigen(faer::Side::Lower).map_err(|_| NoConvergence)?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    Ok(SkewEigen {
        values: (0..n).map(|i| values[i].re).collect(),
        re: Mat::from_fn(n, n, |i, j| vectors[(i, j)].re),
        im: Mat::from_fn(n, n, |i, j| vectors[(i, j)].im),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn planes_add_up_to_the_matrix_even_with_equal_and_zero_angles() {
        for n in 2..=9 {
            let mut stream = RngKey::new(n as u64).stream();
            let draw: Mat<f64> = Mat::from_fn(n, n, |_, _| stream.normal());
            let random = Mat::from_fn(n, n, |i, j| draw.at(i, j) - draw.at(j, i));
            // Plane k rotates axes 2k and 2k+1, all at the same rate except the last, which is
            // fixed.
            let equal =
                Mat::from_fn(n, n, |i, j| match (i / 2 == j / 2 && i / 2 * 2 + 3 < n, i < j) {
                    (true, true) => 1.5,
                    (true, false) if i != j => -1.5,
                    _ => 0.0,
                });
            for a in [random, equal, Mat::zeros(n, n)] {
                let planes = skew_eigen(a.view()).unwrap().planes();
                assert!(planes.windows(2).all(|w| w[0].angle >= w[1].angle));
                for i in 0..n {
                    for j in 0..n {
                        let sum: f64 = planes
                            .iter()
                            .map(|p| p.angle * (p.u[i] * p.v[j] - p.v[i] * p.u[j]))
                            .sum();
                        assert!((sum - a.at(i, j)).abs() < 1e-13, "n {n}, ({i}, {j})");
                    }
                }
            }
        }
    }

    #[test]
    fn a_matrix_with_nan_is_refused() {
        let a = Mat::from_fn(3, 3, |_, _| f64::NAN);
        assert_eq!(skew_eigen(a.view()), Err(NoConvergence));
    }
}
