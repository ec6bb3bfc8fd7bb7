//! Greedy selection of rows by their Vendi score.
//!
//! ```text
//! S = ();  r times:  S = S + the i not in S for which VS_q(K[S + i]) · mean s(S + i) is largest
//! k(x, y) = exp(-γ |x - y|² / 2),   s(x) = exp(-|x|²), or 1 without quality
//! ```
//!
//! Ties go to the lowest index, so without quality row 0 comes first; no row is selected twice.
//! Scores within 1e-12 of each other are ties: this is the rounding error of scores that are equal
//! in exact arithmetic. If qualities differ too much for the smaller one to change the mean, ties
//! are broken by quality, as in exact arithmetic. Qualities are stored as logarithms, so none
//! underflows.
//!
//! The naive algorithm decomposes n kernels of t + 1 items per selected row. Instead, for order 1:
//!
//! 1. Each selected row adds one column of squared distances, n d operations.
//! 2. `K_S = Q diag(λ) Qᵀ` is decomposed once per selected row. With `z = Qᵀ k_c`, the spectrum of
//!    S + c is that of an arrowhead matrix, whose eigenvalues take t² operations
//!    ([`arrowhead`](linwright_tensor::linalg::SecularEquation::arrowhead)).
//! 3. The purity of S + c has the closed form `(|K_S|² + 2 |k_c|² + 1) / (t + 1)²` and bounds the
//!    entropy ([`super::bounds`]). Candidates are evaluated in the order of their bounds until no
//!    bound reaches the best score; the remaining ones cannot win.
//! 4. Candidates within 1e-9 of the best are compared again by decompositions.
//!
//! Order 2 needs only the purity. The result does not depend on the number of threads.
//!
//! Sources: Friedman and Dieng 2023 and Nguyen and Dieng 2024 for the scores; the greedy algorithm
//! is that of the Vendi variant of LASER. Unlike its program, it can also minimise the score, and
//! underflow neither ends the selection nor repeats a row.

use super::VendiError;
use super::candidates::Choice;
use super::chosen::Chosen;
use super::criterion::{Criterion, Diversity, Effort};
use super::gaussian::{check_finite, log_qualities};
use linwright_tensor::MatRef;

/// The selected rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Their indices, in the order of selection: the first r' are the selection of r' rows.
    pub indices: Vec<usize>,
    /// The score after each row: the Vendi score of the rows so far, times their mean quality if
    /// quality counts.
    pub scores: Vec<f64>,
    /// Log scores, which are finite even if a score underflows.
    pub log_scores: Vec<f64>,
    /// Log of the mean quality of all selected rows, if quality counts.
    pub log_mean_quality: Option<f64>,
    /// γ of the kernel.
    pub gamma: f64,
    /// Number of selected rows that equal an earlier one.
    pub duplicates: usize,
    /// Cost of the selection.
    pub effort: Effort,
}

/// Selects `count` rows of a matrix (n, d). `go_on` is called before each row with the numbers of
/// rows selected and wanted, and once at the end; it returns whether to continue.
///
/// Time: n r d and, for order 1, at most n r³ + r⁴; memory: n r numbers for order 1, n for order 2.
///
/// # Errors
/// [`VendiError`] if the number of rows is impossible, a number is not finite, γ is invalid, or the
/// caller cancels.
pub fn select(
    rows: MatRef<'_, f32>,
    count: usize,
    criterion: &Criterion,
    go_on: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Selected, VendiError> {
    if rows.rows() == 0 || rows.cols() == 0 {
        return Err(VendiError::Empty { what: "rows" });
    }
    if count == 0 || count > rows.rows() {
        return Err(VendiError::Rank { asked: count, rows: rows.rows() });
    }
    check_finite(rows)?;
    let gamma = criterion.gamma.resolve(rows)?;
    let log_qualities = criterion.quality.then(|| log_qualities(rows));
    let mut chosen = Chosen::new(rows, gamma, count, criterion.diversity == Diversity::One);
    let (mut effort, mut log_scores) = (Effort::default(), Vec::with_capacity(count));
    for done in 0..count {
        if !go_on(done, count) {
            return Err(VendiError::Interrupted);
        }
        let choice = Choice { chosen: &chosen, criterion, log_qualities: log_qualities.as_deref() };
        let row = choice.best(&mut effort)?;
        chosen.push(row, log_qualities.as_ref().map_or(0.0, |own| own[row]))?;
        let quality = if criterion.quality { chosen.log_mean_quality() } else { 0.0 };
        log_scores.push(chosen.entropy() + quality);
    }
    if !go_on(count, count) {
        return Err(VendiError::Interrupted);
    }
    Ok(Selected {
        scores: log_scores.iter().map(|log: &f64| log.exp()).collect(),
        log_mean_quality: criterion.quality.then(|| chosen.log_mean_quality()),
        duplicates: chosen.duplicates,
        indices: chosen.indices,
        log_scores,
        gamma,
        effort,
    })
}
