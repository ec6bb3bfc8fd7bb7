//! Dense decompositions.
//!
//! Eigenvalues of symmetric matrices, eigenvectors of large ones, singular values and components,
//! and solvers for circulant and skew matrices are implemented here, blocked and parallel. The
//! others use faer, each on one thread. No result depends on the number of threads; callers run
//! many matrices in parallel.

mod cholesky;
mod circulant;
mod components;
mod determinant;
mod least_squares;
mod orthonormal;
mod secular;
mod singular_values;
mod skew;
mod skew_power;
mod solve;
mod svd;
mod symmetric;

pub use cholesky::Cholesky;
pub use circulant::{
    CirculantEffort, CirculantFit, CirculantTarget, fit_circulant, recover_circulant,
};
pub use components::{Components, Sketch};
pub use determinant::log_abs_det;
pub use least_squares::{NotPositiveDefinite, solve_spd};
pub use orthonormal::orthonormal_columns;
pub use secular::{SecularEquation, SecularRoot};
pub use singular_values::{RESOLUTION, gram, singular_values};
pub use skew::{SkewEigen, SkewPlane, skew_eigen};
pub use skew_power::{PowerPlane, PowerPlanes, PowerSettings, power_plane, skew_power};
pub use solve::{Singular, solve};
pub use svd::{Svd, svd};
pub use symmetric::{Eigh, Leading, eigenvalues, eigh, eigh_leading};

/// A decomposition that did not converge: the input was not finite, or the iteration failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConvergence;

impl std::fmt::Display for NoConvergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the decomposition did not converge: is the matrix finite?")
    }
}

impl std::error::Error for NoConvergence {}

fn to_faer<T: crate::Scalar + faer::traits::ComplexField>(m: crate::MatRef<'_, T>) -> faer::Mat<T> {
    faer::Mat::from_fn(m.rows(), m.cols(), |i, j| m.at(i, j))
}
