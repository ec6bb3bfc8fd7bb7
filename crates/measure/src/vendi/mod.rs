//! Vendi scores, rows chosen by them, and a matrix told by its chosen rows.
//!
//! The Vendi score of n items with a positive semidefinite kernel K of unit diagonal is the
//! effective number of different items among them: with λ the eigenvalues of `K / n`,
//!
//! ```text
//! VS_q = exp( ln(Σ λ^q) / (1 - q) ),     VS_1 = exp(-Σ λ ln λ),     VS_∞ = 1 / max λ
//! ```
//!
//! from 1, all items alike, to n, all of them orthogonal. [`of_kernel`] and [`of_features`] compute
//! it; [`select()`] chooses rows of a matrix greedily so that it is largest (or smallest);
//! [`reconstruct()`] projects all rows on the span of the chosen ones. All of it runs in `f64`.
//!
//! Sources: Friedman and Dieng, *The Vendi Score*, TMLR 2023; orders other than 1 from Pasarkar and
//! Dieng, *Cousins of the Vendi Score*, 2023; quality from Nguyen and Dieng, *Quality-Weighted
//! Vendi Scores*, 2024. [`crate::spectra::vendi_score`] is the score of the rows' cosines, for
//! figures.

mod bounds;
mod candidates;
mod chosen;
mod criterion;
mod error;
mod gaussian;
mod order;
mod reconstruct;
mod score;
mod secular;
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

/// Numbers below this share of the largest are taken as zero: they move no digit of an eigenvalue,
/// and squares of much smaller ones lose their digits before they vanish, and with them those of
/// the decomposition.
const NOTHING: f64 = 1e-100;

/// Eigenvalues of a symmetric matrix, falling.
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
