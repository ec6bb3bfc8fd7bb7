//! Scores of a kernel matrix or of features.

use super::{Order, VendiError, multiply};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::eigenvalues;
use linwright_tensor::{Mat, MatRef};

/// How far a kernel may be from its transpose, as a share of its largest number: what single
/// precision leaves of sums.
const SYMMETRY: f64 = 1e-6;
/// How far probabilities may be from summing to one, which single precision leaves of a sum.
const SUM: f64 = 1e-6;

/// What goes into a score besides the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Items<'a> {
    /// Probability of each item; all alike if absent.
    pub probabilities: Option<&'a [f64]>,
    /// A kernel is first divided by `√(K_ii K_jj)`.
    pub normalise: bool,
    /// Rows of features are taken as they are, not brought to length one.
    pub raw: bool,
}

/// The Vendi score of order q of a kernel `K` (n, n), symmetric and positive semidefinite: the
/// exponential of the Rényi entropy of the eigenvalues of `K_ij √(p_i p_j)`, which is `K / n` if all
/// items are alike.
///
/// # Errors
/// [`VendiError`] if the kernel is empty, not square, not symmetric or not finite, or if the
/// probabilities are none.
pub fn of_kernel(
    kernel: MatRef<'_, f64>,
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    Ok(order.score(&spectrum_of_kernel(kernel, items)?))
}

/// The eigenvalues behind [`of_kernel`], falling.
///
/// # Errors
/// As of [`of_kernel`].
pub fn spectrum_of_kernel(
    kernel: MatRef<'_, f64>,
    items: &Items<'_>,
) -> Result<Vec<f64>, VendiError> {
    let n = kernel.rows();
    check_kernel(kernel)?;
    let mut weights = root_weights(n, items)?;
    if items.normalise {
        for (row, weight) in weights.iter_mut().enumerate() {
            let value = kernel.at(row, row);
            if value <= 0.0 {
                return Err(VendiError::Diagonal { row, value });
            }
            *weight /= value.sqrt();
        }
    }
    let scaled = Mat::from_fn(n, n, |i, j| kernel.at(i, j) * weights[i] * weights[j]);
    Ok(eigenvalues(scaled)?)
}

/// The Vendi score of order q of the kernel `X Xᵀ` of features X (n, d), whose rows are brought to
/// length one first: from the eigenvalues of whichever of `X Xᵀ / n` and `Xᵀ X / n` is smaller, which
/// are the same but for zeros.
///
/// # Errors
/// [`VendiError`] if there are no features, if they are not finite, if a row is all zeros, or if the
/// probabilities are none.
pub fn of_features(
    features: MatRef<'_, f64>,
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    let (n, d) = (features.rows(), features.cols());
    if n == 0 || d == 0 {
        return Err(VendiError::Empty { what: "features" });
    }
    check_finite(features)?;
    let mut weights = root_weights(n, items)?;
    for (row, weight) in weights.iter_mut().enumerate() {
        if !items.raw {
            // Relative to the largest number, whose square alone may overflow.
            let largest = features.row(row).iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            if largest == 0.0 {
                return Err(VendiError::ZeroRow { row });
            }
            let square: f64 = features.row(row).iter().map(|v| (v / largest).powi(2)).sum();
            *weight /= largest * square.sqrt();
        }
    }
    let scaled = Mat::from_fn(n, d, |i, j| features.at(i, j) * weights[i]);
    let (plain, transposed) = (Arg::Plain(scaled.view()), Arg::Transposed(scaled.view()));
    let gram = if d < n { multiply(transposed, plain) } else { multiply(plain, transposed) };
    Ok(order.score(&eigenvalues(gram)?))
}

/// The quality-weighted Vendi score: the mean of the qualities times the score.
///
/// # Errors
/// As of [`of_kernel`], and [`VendiError`] if there is not one quality of at least zero for each item.
pub fn weighted_by_quality(
    kernel: MatRef<'_, f64>,
    qualities: &[f64],
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    check_numbers("quality", qualities, kernel.rows())?;
    let mean = qualities.iter().sum::<f64>() / qualities.len() as f64;
    Ok(mean * of_kernel(kernel, order, items)?)
}

/// `√p` of each item.
fn root_weights(n: usize, items: &Items<'_>) -> Result<Vec<f64>, VendiError> {
    let Some(probabilities) = items.probabilities else {
        return Ok(vec![1.0 / (n as f64).sqrt(); n]);
    };
    check_numbers("probability", probabilities, n)?;
    let sum: f64 = probabilities.iter().sum();
    if (sum - 1.0).abs() > SUM {
        return Err(VendiError::Sum { sum });
    }
    Ok(probabilities.iter().map(|p| p.sqrt()).collect())
}

fn check_numbers(what: &'static str, numbers: &[f64], expected: usize) -> Result<(), VendiError> {
    if expected == 0 {
        return Err(VendiError::Empty { what: "items" });
    }
    if numbers.len() != expected {
        let what = if what == "quality" { "qualities" } else { "probabilities" };
        return Err(VendiError::Count { what, expected, found: numbers.len() });
    }
    match numbers.iter().position(|v| !v.is_finite() || *v < 0.0) {
        Some(index) => Err(VendiError::Negative { what, index, value: numbers[index] }),
        None => Ok(()),
    }
}

fn check_finite(matrix: MatRef<'_, f64>) -> Result<(), VendiError> {
    for row in 0..matrix.rows() {
        if let Some(col) = matrix.row(row).iter().position(|v| !v.is_finite()) {
            return Err(VendiError::NonFinite { row, col, value: matrix.at(row, col) });
        }
    }
    Ok(())
}

fn check_kernel(kernel: MatRef<'_, f64>) -> Result<(), VendiError> {
    let (rows, cols) = (kernel.rows(), kernel.cols());
    if rows != cols {
        return Err(VendiError::NotSquare { rows, cols });
    }
    if rows == 0 {
        return Err(VendiError::Empty { what: "items" });
    }
    check_finite(kernel)?;
    let largest =
        (0..rows).flat_map(|i| kernel.row(i)).fold(0.0, |most: f64, value| most.max(value.abs()));
    for row in 0..rows {
        for col in 0..row {
            let difference = (kernel.at(row, col) - kernel.at(col, row)).abs();
            if difference > SYMMETRY * largest {
                return Err(VendiError::NotSymmetric { row, col, difference });
            }
        }
    }
    Ok(())
}
