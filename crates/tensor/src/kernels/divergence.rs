//! Divergence of predictions from those of a reference, row by row of logits.
//!
//! For logits b of the reference and a of another model, with p = softmax(b) and q = softmax(a):
//! `KL(p || q) = Σ_i p_i (b_i - a_i) - log Σ e^b + log Σ e^a`, in nats. Equal logits have exactly
//! zero. The difference of the two logarithms is taken from each term, so that a shift of all
//! logits costs no digits. Products are summed in short stretches of f32 that are added up in f64,
//! as in [`super::cross_entropy`]; about 1e-7 nats are rounding.

use super::cross_entropy::log_sum;
use super::instructions::vectorised;
use super::lanes;
use crate::MatRef;
use crate::parallel;

/// Rows per work item: a row is as long as the vocabulary.
const ROWS: usize = 8;
/// Products summed in f32 before the sum continues in f64.
const STRETCH: usize = 256;

/// Stored log-probabilities of this and less count as zero.
const LEAST_STORED: f32 = -16.0;

/// Differences between the predictions of two models at one position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Divergence {
    /// KL divergence of the model from the reference, KL(reference || model), in nats.
    pub kl: f32,
    /// Probability of the target in the model minus that in the reference.
    pub delta_p: f32,
    /// Whether both have the same most likely token; ties go to the lowest index.
    pub same_top: bool,
}

/// Compares the predictions of a model, `logits` (rows, vocab), with those of `reference` of the
/// same shape; `targets` has one target per row.
///
/// # Panics
/// Unless shapes agree and there is one target below the vocabulary's size for each row.
#[must_use]
#[track_caller]
pub fn divergence(
    logits: MatRef<'_, f32>,
    reference: MatRef<'_, f32>,
    targets: &[u32],
) -> Vec<Divergence> {
    by_row(logits, reference, targets, &|reference| (log_sum(reference).1, f32::NEG_INFINITY))
}

/// As [`divergence`], from a reference of log-probabilities (rows, vocab) that are stored in 16
/// bits: those of -16 nats and less count as zero, and the others are not scaled to a sum of 1, as
/// in `llama-perplexity --kl-divergence`; where models hardly differ, it may be negative.
///
/// # Panics
/// As [`divergence`].
#[must_use]
#[track_caller]
pub fn divergence_from_stored(
    logits: MatRef<'_, f32>,
    reference: MatRef<'_, f32>,
    targets: &[u32],
) -> Vec<Divergence> {
    by_row(logits, reference, targets, &|_| (0.0, LEAST_STORED))
}

#[track_caller]
fn by_row(
    logits: MatRef<'_, f32>,
    reference: MatRef<'_, f32>,
    targets: &[u32],
    normaliser: &(dyn Fn(&[f32]) -> (f64, f32) + Sync),
) -> Vec<Divergence> {
    assert_eq!(logits.rows(), targets.len(), "targets of rows");
    assert_eq!(
        (logits.rows(), logits.cols()),
        (reference.rows(), reference.cols()),
        "shape of the reference"
    );
    let blocks: Vec<&[u32]> = targets.chunks(ROWS).collect();
    let compared = parallel::map(blocks, |block, targets| {
        let row = |(i, &target): (usize, &u32)| {
            let index = block * ROWS + i;
            let reference = reference.row(index);
            of_row(logits.row(index), reference, target as usize, normaliser(reference))
        };
        targets.iter().enumerate().map(row).collect::<Vec<_>>()
    });
    compared.into_iter().flatten().collect()
}

/// Compares a row; of the reference, `reference_sum` is taken off its entries, and what is then at
/// most `least` counts as zero.
fn of_row(
    row: &[f32],
    reference: &[f32],
    target: usize,
    (reference_sum, least): (f64, f32),
) -> Divergence {
    let ((max, sum), reference_max) = (log_sum(row), lanes::max(reference));
    let probability = |row: &[f32], sum: f64| (f64::from(row[target]) - sum).exp();
    let top = |row: &[f32], max: f32| row.iter().position(|z| *z == max);
    let shift = (reference_sum - sum) as f32;
    let terms = weighted_difference(row, reference, reference_sum as f32, shift, least);
    let kl = terms + f64::from(shift) - (reference_sum - sum);
    Divergence {
        // Rounding can leave a small negative sum, which is zero; what is not a number stays so. Of
        // a stored reference a part is missing, so its sum may be negative, and means would be
        // biased.
        kl: if kl < 0.0 && least == f32::NEG_INFINITY { 0.0 } else { kl as f32 },
        delta_p: (probability(row, sum) - probability(reference, reference_sum)) as f32,
        same_top: top(row, max) == top(reference, reference_max),
    }
}

vectorised! {
    /// Σ_i p_i (b_i - a_i - shift), with p the softmax of the reference b, zero where its logarithm
    /// is at most `least`.
    fn weighted_difference<const FUSED: bool>(
        row: &[f32],
        reference: &[f32],
        log_sum: f32,
        shift: f32,
        least: f32,
    ) -> f64 {
        let mut sum = 0.0;
        let mut products = [0.0; STRETCH];
        for (row, reference) in row.chunks(STRETCH).zip(reference.chunks(STRETCH)) {
            let products = &mut products[..row.len()];
            products.copy_from_slice(reference);
            lanes::map(products, |z| {
                if z - log_sum > least { lanes::exp::<FUSED>(z - log_sum) } else { 0.0 }
            });
            for ((product, b), a) in products.iter_mut().zip(reference).zip(row) {
                *product *= (b - a) - shift;
            }
            sum += f64::from(lanes::sum(products));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    const VOCAB: usize = 2500;

    fn logits(seed: u64, scale: f64) -> Mat<f32> {
        Mat::from_vec(19, VOCAB, RngKey::new(seed).stream().normals(19 * VOCAB, scale))
    }

    fn targets() -> Vec<u32> {
        (0..19).map(|i| (i * 131) % VOCAB as u32).collect()
    }

    fn log_softmax(row: &[f32]) -> Vec<f64> {
        let wide: Vec<f64> = row.iter().map(|z| f64::from(*z)).collect();
        let sum = wide.iter().map(|z| z.exp()).sum::<f64>().ln();
        wide.iter().map(|z| z - sum).collect()
    }

    #[test]
    fn divergences_equal_their_naive_twin() {
        let reference = logits(1, 4.0);
        for (noise, shift) in [(3.0, 0.0), (0.1, 0.0), (0.01, 30.0)] {
            let mut own = logits(2, noise);
            for (own, reference) in own.data_mut().iter_mut().zip(reference.data()) {
                *own += reference + shift;
            }
            let compared = divergence(own.view(), reference.view(), &targets());
            assert_eq!(compared.len(), 19);
            let mut same = 0;
            for (i, found) in compared.iter().enumerate() {
                let (a, b) = (log_softmax(own.row(i)), log_softmax(reference.row(i)));
                let kl: f64 = b.iter().zip(&a).map(|(b, a)| b.exp() * (b - a)).sum();
                let error = (f64::from(found.kl) - kl).abs();
                let scale = 1.0 + kl + f64::from(shift);
                assert!(error < 1e-6 * scale, "row {i}: {} is not {kl}", found.kl);
                let target = targets()[i] as usize;
                let delta = a[target].exp() - b[target].exp();
                assert!((f64::from(found.delta_p) - delta).abs() < 1e-6, "row {i}");
                let top = |of: &[f64]| (0..VOCAB).max_by(|x, y| of[*x].total_cmp(&of[*y]));
                assert_eq!(found.same_top, top(&a) == top(&b), "row {i}");
                same += usize::from(found.same_top);
            }
            assert_eq!(same < 19, noise == 3.0, "noise {noise}: {same} of 19");
        }
    }

    #[test]
    fn equal_predictions_do_not_diverge() {
        let reference = logits(1, 4.0);
        let same = divergence(reference.view(), reference.view(), &targets());
        assert!(same.iter().all(|of| *of == Divergence { kl: 0.0, delta_p: 0.0, same_top: true }));
    }

    #[test]
    fn stored_log_probabilities_of_almost_nothing_count_as_zero() {
        let (reference, own) = (logits(1, 6.0), logits(2, 6.0));
        let mut stored = Mat::zeros(19, VOCAB);
        for i in 0..19 {
            let row = log_softmax(reference.row(i));
            for (stored, log) in stored.row_mut(i).iter_mut().zip(&row) {
                *stored = log.max(-17.0) as f32;
            }
        }
        let compared = divergence_from_stored(own.view(), stored.view(), &targets());
        for (i, found) in compared.iter().enumerate() {
            let a = log_softmax(own.row(i));
            let counted = stored.row(i).iter().zip(&a).filter(|(b, _)| **b > -16.0);
            let kl: f64 = counted.map(|(b, a)| f64::from(*b).exp() * (f64::from(*b) - a)).sum();
            assert!((f64::from(found.kl) - kl).abs() < 2e-5, "row {i}: {} is not {kl}", found.kl);
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let reference = logits(1, 4.0);
        let mut own = reference.clone();
        own.row_mut(3)[17] = f32::NAN;
        let compared = divergence(own.view(), reference.view(), &targets());
        assert!(compared[3].kl.is_nan());
        assert_eq!(compared[4].kl, 0.0);
    }
}
