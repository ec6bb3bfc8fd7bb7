//! Singular values of matrices and their statistics.
//!
//! A [`Spectrum`] is computed once, kept in a store by the content of the matrix ([`MatrixId`]),
//! and summarised by [`SpectralStatistics`]. Definitions and sources are in `docs/math.md`,
//! "Spectra of weights".

mod figures;
mod noise;
mod power_law;
mod stored;

pub use figures::SpectralStatistics;
pub use noise::{Noise, marchenko_pastur_median};
pub use power_law::{MIN_TAIL, PowerLaw};
pub use stored::{MatrixId, SpectrumError};

use linwright_tensor::MatRef;
use linwright_tensor::linalg::{NoConvergence, eigenvalues, gram, singular_values};

/// All singular values of a matrix, and the Vendi score of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// min(rows, cols) singular values, descending.
    pub singular_values: Vec<f64>,
    /// [`vendi_score`] of the rows.
    pub vendi_score: f64,
}

impl Spectrum {
    /// Spectrum of a matrix. Additional memory: two squares of its smaller side, in `f64`.
    ///
    /// # Errors
    /// [`NoConvergence`] if the matrix is not finite or the iteration fails.
    pub fn of(matrix: MatRef<'_, f32>) -> Result<Self, NoConvergence> {
        Ok(Self {
            rows: matrix.rows(),
            cols: matrix.cols(),
            singular_values: singular_values(matrix)?,
            vendi_score: vendi_score(matrix)?,
        })
    }
}

/// Vendi score of the rows of a matrix, the effective number of their directions: `exp(-Σ λ ln λ)`
/// over the eigenvalues of `K / n`, where `K_ij` is the cosine of rows i and j (Friedman and Dieng,
/// The Vendi Score, TMLR 2023, order 1). It is 1 if all rows are parallel, of either sign, and n if
/// all are orthogonal.
///
/// The eigenvalues are those of the smaller of `X Xᵀ / n` and `Xᵀ X / n`, where X has the rows
/// normalised to length one. Rows of zeros have no direction and are ignored; the score of a zero
/// matrix is zero.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite or the iteration fails.
pub fn vendi_score(matrix: MatRef<'_, f32>) -> Result<f64, NoConvergence> {
    let mut count = 0.0;
    let scale: Vec<f64> = (0..matrix.rows())
        .map(|i| {
            let square: f64 = matrix.row(i).iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            if square == 0.0 {
                return 0.0;
            }
            count += 1.0;
            1.0 / square.sqrt()
        })
        .collect();
    if count == 0.0 {
        return Ok(0.0);
    }
    let values = eigenvalues(gram(matrix, Some(&scale)))?;
    Ok(entropy(values.into_iter().map(|value| value / count)).exp())
}

/// `-Σ p ln p` over the positive numbers.
fn entropy(shares: impl Iterator<Item = f64>) -> f64 {
    shares.filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn vendi_scores_of_known_rows() {
        let score = |rows: usize, cols: usize, f: &dyn Fn(usize, usize) -> f32| {
            vendi_score(Mat::from_fn(rows, cols, f).view()).unwrap()
        };
        assert!((score(5, 9, &|_, j| j as f32) - 1.0).abs() < 1e-9, "equal rows");
        let signs = |i: usize, j: usize| if i.is_multiple_of(2) { j as f32 } else { -(j as f32) };
        assert!((score(6, 4, &signs) - 1.0).abs() < 1e-9, "opposite rows");
        let orthogonal = |i: usize, j: usize| if i == j { i as f32 + 1.0 } else { 0.0 };
        assert!((score(7, 7, &orthogonal) - 7.0).abs() < 1e-9, "orthogonal rows");
        assert!((score(9, 7, &orthogonal) - 7.0).abs() < 1e-9, "rows of zeros do not count");
        let twice = |i: usize, j: usize| orthogonal(i % 4, j);
        assert!((score(8, 4, &twice) - 4.0).abs() < 1e-9, "every row twice");
        assert_eq!(score(3, 4, &|_, _| 0.0), 0.0);
    }

    #[test]
    fn both_sides_of_the_kernel_give_one_score() {
        for (rows, cols) in [(30, 12), (12, 30)] {
            let raw: Vec<f32> = RngKey::new(4).stream().normals(rows * cols, 1.0);
            let matrix = Mat::from_vec(rows, cols, raw);
            let unit = Mat::from_fn(rows, cols, |i, j| {
                let square: f64 = matrix.row(i).iter().map(|x| f64::from(*x).powi(2)).sum();
                f64::from(matrix.at(i, j)) / square.sqrt()
            });
            let kernel = Mat::from_fn(rows, rows, |i, j| {
                let cosine: f64 = unit.row(i).iter().zip(unit.row(j)).map(|(a, b)| a * b).sum();
                cosine / rows as f64
            });
            let values = linwright_tensor::linalg::eigh(kernel.view()).unwrap().values;
            let naive = entropy(values.into_iter()).exp();
            let found = Spectrum::of(matrix.view()).unwrap().vendi_score;
            assert!((found - naive).abs() < 1e-6, "{found} {naive}");
        }
    }
}
