//! Vendi scores, selection of diverse rows, and reconstruction of a matrix from selected rows.
//!
//! The Vendi score of n items with a positive semidefinite kernel K of unit diagonal is their
//! effective number: with λ the eigenvalues of `K / n`,
//!
//! ```text
//! VS_q = exp( ln(Σ λ^q) / (1 - q) ),     VS_1 = exp(-Σ λ ln λ),     VS_∞ = 1 / max λ
//! ```
//!
//! It ranges from 1 (all items equal) to n (all orthogonal). [`of_kernel`] and [`of_features`]
//! compute it; [`select()`] selects rows of a matrix greedily such that it is largest (or
//! smallest); [`reconstruct()`] projects all rows onto the span of the selected ones. Everything is
//! computed in `f64`.
//!
//! Sources: Friedman and Dieng, *The Vendi Score*, TMLR 2023; orders other than 1 from Pasarkar and
//! Dieng, *Cousins of the Vendi Score*, 2023; quality from Nguyen and Dieng, *Quality-Weighted
//! Vendi Scores*, 2024. [`crate::spectra::vendi_score`] is the score of row cosines in spectral
//! statistics.

mod bounds;
mod candidates;
mod chosen;
mod criterion;
mod error;
mod gaussian;
mod order;
mod reconstruct;
mod score;
mod select;
mod stored;
#[cfg(test)]
mod tests;

pub use criterion::{Criterion, Diversity, Effort, Goal};
pub use error::VendiError;
pub use gaussian::Gamma;
pub use order::Order;
pub use reconstruct::{Reconstruction, reconstruct};
pub use score::{Items, of_features, of_kernel, spectrum_of_kernel, weighted_by_quality};
pub use select::{Selected, select};
pub use stored::{StoredError, StoredMatrix, stored_matrix};

use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{NoConvergence, eigenvalues};

/// Numbers below this share of the largest are set to zero: they do not affect the digits of an
/// eigenvalue, but squares of much smaller ones underflow gradually, which loses digits of the
/// decomposition.
const NOTHING: f64 = 1e-100;

/// Eigenvalues of a symmetric matrix, descending.
fn spectrum(mut matrix: Mat<f64>) -> Result<Vec<f64>, NoConvergence> {
    let largest = matrix.data().iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let nothing = |value: &&mut f64| value.abs() < NOTHING * largest;
    matrix.data_mut().iter_mut().filter(nothing).for_each(|value| *value = 0.0);
    eigenvalues(matrix)
}

/// `a b`.
fn multiply(a: Arg<'_, f64>, b: Arg<'_, f64>) -> Mat<f64> {
    let (Arg::Plain(left) | Arg::Transposed(left)) = a;
    let (Arg::Plain(right) | Arg::Transposed(right)) = b;
    let rows = if matches!(a, Arg::Plain(_)) { left.rows() } else { left.cols() };
    let cols = if matches!(b, Arg::Plain(_)) { right.cols() } else { right.rows() };
    let mut c = Mat::zeros(rows, cols);
    product(1.0, a, b, c.view_mut(), Write::Set);
    c
}
