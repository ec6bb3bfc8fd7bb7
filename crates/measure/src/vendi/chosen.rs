//! The rows selected so far, and their kernel with all rows.

use super::gaussian::{distances_to, log_add};
use super::{NOTHING, Order, VendiError, spectrum};
use linwright_tensor::linalg::{Eigh, eigh};
use linwright_tensor::{Mat, MatRef};

/// A growing set S of t rows of a matrix with its kernel `K_S`.
pub(super) struct Chosen<'a> {
    rows: MatRef<'a, f32>,
    gamma: f64,
    /// In the order of selection.
    pub(super) indices: Vec<usize>,
    /// Whether each row is selected.
    taken: Vec<bool>,
    /// Whether each row equals a selected one.
    equal: Vec<bool>,
    /// Number of selected rows that equal an earlier one.
    pub(super) duplicates: usize,
    /// Row c contains k(c, s) for each s of S, if spectra are needed. One row per candidate, not
    /// one column, so that each candidate is contiguous.
    kernel: Option<Mat<f64>>,
    /// `Σ k(c, s)²` over S.
    squares: Vec<f64>,
    /// `|K_S|²`.
    frobenius: f64,
    /// `K_S = Q diag(λ) Qᵀ`, until the last row is selected.
    eigen: Option<Eigh>,
    distances: Vec<f64>,
    /// `ln Σ s` over S.
    log_quality: f64,
}

impl<'a> Chosen<'a> {
    /// The empty set; `count` rows will be selected. Spectra need memory for a kernel entry per row
    /// and selected row.
    pub(super) fn new(rows: MatRef<'a, f32>, gamma: f64, count: usize, spectra: bool) -> Self {
        let n = rows.rows();
        Self {
            rows,
            gamma,
            indices: Vec::with_capacity(count),
            taken: vec![false; n],
            equal: vec![false; n],
            duplicates: 0,
            kernel: spectra.then(|| Mat::zeros(n, count)),
            squares: vec![0.0; n],
            frobenius: 0.0,
            eigen: None,
            distances: vec![0.0; n],
            log_quality: f64::NEG_INFINITY,
        }
    }

    /// Number of selected rows, t.
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Rows that can still be selected, in order.
    pub(super) fn candidates(&self) -> Vec<usize> {
        (0..self.taken.len()).filter(|&row| !self.taken[row]).collect()
    }

    /// `tr (K / (t + 1))²` of S and one more row, in closed form.
    pub(super) fn purity_with(&self, row: usize) -> f64 {
        let count = (self.len() + 1) as f64;
        (self.frobenius + 2.0 * self.squares[row] + 1.0) / (count * count)
    }

    /// `ln mean s` over S and one more row of log quality `own`.
    pub(super) fn log_mean_quality_with(&self, own: f64) -> f64 {
        log_add(self.log_quality, own) - ((self.len() + 1) as f64).ln()
    }

    /// `ln mean s` over S.
    pub(super) fn log_mean_quality(&self) -> f64 {
        self.log_quality - (self.len() as f64).ln()
    }

    /// λ and Q of `K_S`.
    pub(super) fn eigen(&self) -> &Eigh {
        self.eigen.as_ref().expect("a decomposition exists until the last row is selected")
    }

    /// k(row, s) for each s of S.
    pub(super) fn kernel_row(&self, row: usize) -> &[f64] {
        &self.kernel.as_ref().expect("a kernel exists if spectra are needed").row(row)[..self.len()]
    }

    /// Kernel of S, and of one more row if given.
    fn matrix(&self, more: Option<usize>) -> Mat<f64> {
        let t = self.len();
        let size = t + usize::from(more.is_some());
        let member = |i: usize| if i < t { self.indices[i] } else { more.unwrap_or_default() };
        Mat::from_fn(size, size, |i, j| {
            if i == j { 1.0 } else { self.kernel_row(member(i.max(j)))[i.min(j)] }
        })
    }

    /// Shannon entropy of S and one more row, by decomposing its kernel.
    pub(super) fn entropy_with(&self, row: usize) -> Result<f64, VendiError> {
        let size = (self.len() + 1) as f64;
        let mut values = spectrum(self.matrix(Some(row)))?;
        values.iter_mut().for_each(|value| *value /= size);
        Ok(Order::ONE.log_score(&values))
    }

    /// Adds a row of log quality `own`, and decomposes the kernel if needed.
    ///
    /// # Errors
    /// [`VendiError::NoConvergence`].
    pub(super) fn push(&mut self, row: usize, own: f64) -> Result<(), VendiError> {
        let place = self.len();
        self.frobenius += 2.0 * self.squares[row] + 1.0;
        self.duplicates += usize::from(self.equal[row]);
        self.indices.push(row);
        self.taken[row] = true;
        self.log_quality = log_add(self.log_quality, own);
        distances_to(self.rows, row, &mut self.distances);
        for (other, &distance) in self.distances.iter().enumerate() {
            let similarity = (-0.5 * self.gamma * distance).exp();
            let similarity = if similarity < NOTHING { 0.0 } else { similarity };
            self.squares[other] += similarity * similarity;
            self.equal[other] |= distance == 0.0;
            if let Some(kernel) = &mut self.kernel {
                *kernel.at_mut(other, place) = similarity;
            }
        }
        if self.kernel.is_some() {
            self.eigen = Some(eigh(self.matrix(None).view())?);
        }
        Ok(())
    }

    /// Entropy of S: of order 1 if spectra are kept, otherwise of order 2.
    pub(super) fn entropy(&self) -> f64 {
        let size = self.len() as f64;
        match &self.eigen {
            Some(eigen) => {
                let shares: Vec<f64> = eigen.values.iter().map(|value| value / size).collect();
                Order::ONE.log_score(&shares)
            }
            None => -(self.frobenius / (size * size)).ln(),
        }
    }
}
