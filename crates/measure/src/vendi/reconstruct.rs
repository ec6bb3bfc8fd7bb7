//! Reconstruction of a matrix from some of its rows: the orthogonal projection onto their span.
//!
//! ```text
//! W' = A B,   B = W[rows] (r, d),   A = W Bᵀ (B Bᵀ)⁻¹ (n, r)
//! ```
//!
//! `B Bᵀ` and `W Bᵀ` are sums of exact products in `f64`. The system is solved by Cholesky and one
//! step of iterative refinement; the error is about `ε κ²` before and far below single precision
//! after it, where κ is the condition number of B, which is reported. Rows of A that belong to
//! selected rows are unit vectors, so selected rows are reproduced exactly. Cost: 2 n r d + n r²
//! multiply-adds; memory: r d and n r numbers.
//!
//! Linearly dependent selected rows are an error, which names the first row whose part orthogonal
//! to the earlier ones is within rounding error.

use super::{VendiError, multiply, spectrum};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::solve_spd;
use linwright_tensor::{Mat, MatRef, parallel};

/// Rows of W converted to `f64` at a time.
const PANEL: usize = 1024;

/// Coefficients of a matrix in the selected rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconstruction {
    /// A (n, r).
    pub coefficients: Mat<f64>,
    /// Condition number of the selected rows.
    pub condition: f64,
    /// `|W - A B| / |W|` in the Frobenius norm; zero for a zero matrix.
    pub relative_residual: f64,
}

impl Reconstruction {
    /// `A B` (n, d), where B are the rows `chosen` of `weight`.
    ///
    /// # Panics
    /// If the number of rows differs from the number of coefficient columns.
    #[must_use]
    #[track_caller]
    pub fn apply(&self, weight: MatRef<'_, f32>, chosen: &[usize]) -> Mat<f64> {
        assert_eq!(self.coefficients.cols(), chosen.len(), "coefficients and chosen rows");
        let basis = widened(weight, chosen);
        multiply(self.coefficients.view().into(), basis.view().into())
    }
}

/// Projects the rows of W (n, d) onto the span of the selected ones.
///
/// # Errors
/// [`VendiError::Rank`] if no row is selected, [`VendiError::Dependent`] if the selected rows are
/// linearly dependent, [`VendiError::NonFinite`] if a number is not finite.
///
/// # Panics
/// If an index is out of range.
#[track_caller]
pub fn reconstruct(
    weight: MatRef<'_, f32>,
    chosen: &[usize],
) -> Result<Reconstruction, VendiError> {
    let (n, r) = (weight.rows(), chosen.len());
    assert!(chosen.iter().all(|&row| row < n), "chosen rows {chosen:?} of {n}");
    if r == 0 {
        return Err(VendiError::Rank { asked: 0, rows: n });
    }
    super::gaussian::check_finite(weight)?;
    let basis = widened(weight, chosen);
    let gram = multiply(basis.view().into(), Arg::Transposed(basis.view()));
    independent(&gram, weight.cols(), chosen)?;
    let dependent = VendiError::Dependent { row: chosen[r - 1], pick: r };
    let values = spectrum(gram.clone())?;
    let smallest = values[r - 1];
    if smallest <= 0.0 {
        return Err(dependent);
    }
    let mut coefficients = Mat::zeros(n, r);
    let (mut left, mut all) = (0.0, 0.0);
    for start in (0..n).step_by(PANEL) {
        let range = start..n.min(start + PANEL);
        let rows: Vec<usize> = range.clone().collect();
        let mut panel = widened(weight, &rows);
        let cross = multiply(panel.view().into(), Arg::Transposed(basis.view()));
        let solved = solve(&gram, &cross).ok_or_else(|| dependent.clone())?;
        for (place, &row) in rows.iter().enumerate() {
            coefficients.row_mut(row).copy_from_slice(solved.row(place));
        }
        let here = chosen.iter().enumerate().filter(|(_, row)| range.contains(row));
        for (pick, &row) in here {
            coefficients.row_mut(row).fill(0.0);
            *coefficients.at_mut(row, pick) = 1.0;
        }
        all += squares(&panel);
        let part = coefficients.view().rows_range(start, rows.len());
        subtract(&mut panel, &multiply(part.into(), basis.view().into()));
        left += squares(&panel);
    }
    Ok(Reconstruction {
        coefficients,
        condition: (values[0] / smallest).sqrt(),
        relative_residual: if all > 0.0 { (left / all).sqrt() } else { 0.0 },
    })
}

/// `C G⁻¹`, with one step of iterative refinement.
fn solve(gram: &Mat<f64>, cross: &Mat<f64>) -> Option<Mat<f64>> {
    let mut solved = solve_spd(gram.view(), cross.view()).ok()?;
    let mut rest = cross.clone();
    subtract(&mut rest, &multiply(solved.view().into(), gram.view().into()));
    let correction = solve_spd(gram.view(), rest.view()).ok()?;
    solved.data_mut().iter_mut().zip(correction.data()).for_each(|(a, b)| *a += b);
    Some(solved)
}

/// Cholesky factorisation of the Gram matrix in the order of selection, to find the first row that
/// is linearly dependent on earlier ones.
fn independent(gram: &Mat<f64>, cols: usize, chosen: &[usize]) -> Result<(), VendiError> {
    let r = gram.rows();
    // Rounding error of a sum of this length.
    let least = 4.0 * cols.max(r) as f64 * f64::EPSILON;
    let mut factor: Mat<f64> = Mat::zeros(r, r);
    for i in 0..r {
        let mut row = gram.row(i)[..=i].to_vec();
        for j in 0..i {
            let before = dot(&row[..j], &factor.row(j)[..j]);
            row[j] = (row[j] - before) / factor.at(j, j);
        }
        let rest = row[i] - dot(&row[..i], &row[..i]);
        // Also true for a row of zeros.
        if rest <= least * row[i] {
            return Err(VendiError::Dependent { row: chosen[i], pick: i + 1 });
        }
        row[i] = rest.sqrt();
        factor.row_mut(i)[..=i].copy_from_slice(&row);
    }
    Ok(())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

fn widened(weight: MatRef<'_, f32>, rows: &[usize]) -> Mat<f64> {
    let cols = weight.cols();
    let mut wide = Mat::zeros(rows.len(), cols);
    parallel::for_each_chunk(wide.data_mut(), cols, |place, wide| {
        for (wide, value) in wide.iter_mut().zip(weight.row(rows[place])) {
            *wide = f64::from(*value);
        }
    });
    wide
}

fn squares(a: &Mat<f64>) -> f64 {
    a.data().iter().map(|v| v * v).sum()
}

fn subtract(a: &mut Mat<f64>, b: &Mat<f64>) {
    a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a -= b);
}
