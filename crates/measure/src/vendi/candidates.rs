//! Selection of the next row: bounds for all candidates, spectra of those that the bounds do not
//! exclude, and decompositions of those with nearly equal scores.

use super::bounds::{least_entropy, most_entropy};
use super::chosen::Chosen;
use super::criterion::{Criterion, Diversity, Effort, Goal};
use super::{Order, VendiError};
use linwright_tensor::kernels::gemm::{Write, product_on_this_thread};
use linwright_tensor::linalg::SecularEquation;
use linwright_tensor::{Mat, parallel};

/// Log scores this close are equal: several times the rounding error of scores that are equal in
/// exact arithmetic, such as those of rows with permuted entries.
const TIE: f64 = 1e-12;
/// Candidates this close to the best are compared by decompositions of their kernels.
const CLOSE: f64 = 1e-9;
/// Largest number of decompositions, best candidates first. If more are this close, the roots of
/// the secular equation, with errors below [`TIE`], already distinguish the others.
const DECOMPOSED: usize = 32;
/// Rows per work item.
const PIECE: usize = 32;
/// Candidates of the first round, and of the largest: each round is four times the one before,
/// since the first finds a score that excludes most of the others.
const FIRST_ROUND: usize = 64;
const MAX_ROUND: usize = 4096;
/// Least squared similarity with an eigenvector; smaller ones are replaced by it, which moves no
/// eigenvalue of t + 1 items by more than 1e-17 √t.
const MIN_SQUARE: f64 = 1e-34;
/// Accuracy of eigenvalues, relative to the largest.
const TOLERANCE: f64 = 4e-16;

/// A candidate with its log score, negated if the smallest is wanted.
type Valued = (usize, f64);

/// One step of the selection.
pub(super) struct Choice<'a> {
    pub(super) chosen: &'a Chosen<'a>,
    pub(super) criterion: &'a Criterion,
    /// Log quality of every row, if quality counts.
    pub(super) log_qualities: Option<&'a [f64]>,
}

impl Choice<'_> {
    /// Index of the next row.
    pub(super) fn best(&self, effort: &mut Effort) -> Result<usize, VendiError> {
        let candidates = self.chosen.candidates();
        // A single item has the single eigenvalue one.
        let closed = self.chosen.len() == 0 || self.criterion.diversity == Diversity::Two;
        if closed {
            let entropy = |row| -self.chosen.purity_with(row).ln();
            let valued = candidates.into_iter().map(|row| (row, self.value(row, entropy(row))));
            return Ok(self.first_of_best(&valued.collect::<Vec<_>>()));
        }
        let valued = self.evaluate(candidates, effort)?;
        self.decide(valued, effort)
    }

    /// Log score from the entropy; larger is better.
    fn value(&self, row: usize, entropy: f64) -> f64 {
        let quality =
            self.log_qualities.map_or(0.0, |own| self.chosen.log_mean_quality_with(own[row]));
        self.signed(entropy + quality)
    }

    fn signed(&self, value: f64) -> f64 {
        match self.criterion.goal {
            Goal::Most => value,
            Goal::Least => -value,
        }
    }

    /// Log quality; larger is better, zero if quality does not count.
    fn signed_quality(&self, row: usize) -> f64 {
        self.log_qualities.map_or(0.0, |own| self.signed(own[row]))
    }

    /// Upper bound of the log score of a row.
    fn bound(&self, row: usize) -> f64 {
        let purity = self.chosen.purity_with(row);
        let entropy = match self.criterion.goal {
            Goal::Most => most_entropy(purity, self.chosen.len() + 1),
            Goal::Least => least_entropy(purity),
        };
        self.value(row, entropy)
    }

    /// Log scores of all candidates that can be within [`CLOSE`] of the best.
    fn evaluate(
        &self,
        candidates: Vec<usize>,
        effort: &mut Effort,
    ) -> Result<Vec<Valued>, VendiError> {
        let mut bounds: Vec<Valued> =
            candidates.into_iter().map(|row| (row, self.bound(row))).collect();
        bounds.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (mut valued, mut best, mut round) = (Vec::new(), f64::NEG_INFINITY, FIRST_ROUND);
        let mut rest = &bounds[..];
        loop {
            // Twice the distance, so that rounding of a bound excludes no candidate.
            let open =
                rest.iter().take(round).take_while(|(_, bound)| *bound >= best - 2.0 * CLOSE);
            let (now, later) = rest.split_at(open.count());
            if now.is_empty() {
                break;
            }
            let pieces: Vec<&[Valued]> = now.chunks(PIECE).collect();
            let found = parallel::map(pieces, |_, piece| {
                let rows: Vec<usize> = piece.iter().map(|(row, _)| *row).collect();
                entropies(self.chosen, &rows)
            });
            let found: Vec<Vec<f64>> = found.into_iter().collect::<Result<_, _>>()?;
            for (&(row, _), entropy) in now.iter().zip(found.concat()) {
                let value = self.value(row, entropy);
                best = best.max(value);
                valued.push((row, value));
            }
            rest = later;
            round = (4 * round).min(MAX_ROUND);
        }
        effort.spectra += valued.len() as u64;
        effort.excluded += rest.len() as u64;
        Ok(valued)
    }

    /// The best candidate; close ones are compared again.
    fn decide(&self, valued: Vec<Valued>, effort: &mut Effort) -> Result<usize, VendiError> {
        let best = most(&valued);
        let mut close = valued;
        close.retain(|(_, value)| *value >= best - CLOSE);
        let kernel = |row| self.chosen.kernel_row(row);
        if close.iter().all(|(row, _)| kernel(*row) == kernel(close[0].0)) {
            // A single candidate, or equal kernels with equal spectra.
            return Ok(self.first_of_best(&close));
        }
        let key = |&(row, value): &Valued| {
            (((best - value) / TIE) as u64, -self.signed_quality(row), row)
        };
        close.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        close.truncate(DECOMPOSED);
        effort.decompositions += close.len() as u64;
        let found = parallel::map(close, |_, (row, _)| {
            self.chosen.entropy_with(row).map(|entropy| (row, self.value(row, entropy)))
        });
        Ok(self.first_of_best(&found.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    /// Among candidates equal to the best up to rounding, those with the largest quality (the
    /// tie-break of exact arithmetic, where it is too small to change the mean), and among these
    /// the one with the lowest index.
    fn first_of_best(&self, valued: &[Valued]) -> usize {
        let best = most(valued);
        let equal: Vec<(usize, f64)> = valued
            .iter()
            .filter(|(_, value)| *value >= best - TIE)
            .map(|(row, _)| (*row, self.signed_quality(*row)))
            .collect();
        let quality = most(&equal);
        let least = quality - TIE * quality.abs().max(1.0);
        let first =
            equal.iter().filter(|(_, quality)| *quality >= least).map(|(row, _)| *row).min();
        first.expect("there is a candidate until all rows are chosen")
    }
}

fn most(valued: &[Valued]) -> f64 {
    valued.iter().fold(f64::NEG_INFINITY, |most, (_, value)| most.max(*value))
}

/// Shannon entropies of the selected rows with each of `rows`.
///
/// # Errors
/// [`VendiError::NoConvergence`].
pub(super) fn entropies(chosen: &Chosen<'_>, rows: &[usize]) -> Result<Vec<f64>, VendiError> {
    let (t, eigen) = (chosen.len(), chosen.eigen());
    let mut kernel = Mat::zeros(rows.len(), t);
    for (index, &row) in rows.iter().enumerate() {
        kernel.row_mut(index).copy_from_slice(chosen.kernel_row(row));
    }
    let mut rotated = Mat::zeros(rows.len(), t);
    let (a, b) = (kernel.view().into(), eigen.vectors.view().into());
    product_on_this_thread(1.0, a, b, rotated.view_mut(), Write::Set);
    let mut shares = Vec::with_capacity(t + 1);
    let entropy = |index| {
        let weights = rotated.row_mut(index);
        weights.iter_mut().for_each(|z| *z = (*z * *z).max(MIN_SQUARE));
        shares_with(&eigen.values, weights, &mut shares)?;
        Ok(Order::ONE.log_score(&shares))
    };
    (0..rows.len()).map(entropy).collect()
}

/// Eigenvalues (t + 1), ascending and divided by their number, of a kernel with eigenvalues
/// `poles` (t) and one more item, whose squared similarities with the t eigenvectors are `weights`.
fn shares_with(poles: &[f64], weights: &[f64], shares: &mut Vec<f64>) -> Result<(), VendiError> {
    let count = (poles.len() + 1) as f64;
    let tolerance = TOLERANCE * poles.last().map_or(1.0, |last| last.max(1.0));
    let equation = SecularEquation::arrowhead(1.0, poles, weights, tolerance);
    shares.clear();
    let roots = equation.roots(0..poles.len() + 1)?;
    shares.extend(roots.iter().map(|root| (poles[root.pole] + root.offset) / count));
    Ok(())
}
