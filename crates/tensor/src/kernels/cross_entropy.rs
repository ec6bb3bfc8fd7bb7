//! Cross entropy of target tokens under rows of logits.
//!
//! For logits z and target t: `nll = log Σ_i e^(z_i) - z_t`, and its gradient is
//! `softmax(z) - onehot(t)`. The sum runs over the exponentials of z minus its maximum, in short
//! stretches of f32 that are added up in f64.

use super::instructions::vectorised;
use super::lanes;
use crate::parallel;
use crate::{MatMut, MatRef};

/// Target of a row without a prediction.
pub const IGNORE: u32 = u32::MAX;
/// Rows per work item: a row is as long as the vocabulary.
const ROWS: usize = 8;
/// Exponentials summed in f32 before the sum continues in f64.
const STRETCH: usize = 1024;

/// Score of a target under a row of logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Negative log-likelihood in nats.
    pub nll: f64,
    /// Whether the target is the argmax; ties go to the lowest index.
    pub is_greedy: bool,
}

/// Scores one target per row.
///
/// # Panics
/// Unless there is one target below the vocabulary's size for each row.
#[track_caller]
pub fn score(logits: MatRef<'_, f32>, targets: &[u32]) -> Vec<Prediction> {
    assert_eq!(logits.rows(), targets.len(), "targets of rows");
    let blocks: Vec<&[u32]> = targets.chunks(ROWS).collect();
    let scored = parallel::map(blocks, |block, targets| {
        let score = |(i, &target): (usize, &u32)| {
            let row = logits.row(block * ROWS + i);
            let (max, log_sum) = log_sum(row);
            let logit = row[target as usize];
            let is_greedy = logit == max && !row[..target as usize].contains(&max);
            Prediction { nll: log_sum - f64::from(logit), is_greedy }
        };
        targets.iter().enumerate().map(score).collect::<Vec<_>>()
    });
    scored.into_iter().flatten().collect()
}

/// Log-sum-exp of each row: a logit minus it is the log-probability of its token, in nats.
#[must_use]
pub fn log_sums(logits: MatRef<'_, f32>) -> Vec<f64> {
    (0..logits.rows()).map(|i| log_sum(logits.row(i)).1).collect()
}

/// Sum of the negative log-likelihoods of the targets, in nats; `logits` are overwritten by the
/// gradient of `scale` times that sum. Rows with the target [`IGNORE`] contribute nothing and get
/// zeros.
///
/// # Panics
/// Unless there is one target, below the vocabulary's size or [`IGNORE`], for each row.
#[track_caller]
pub fn cross_entropy(logits: MatMut<'_, f32>, targets: &[u32], scale: f32) -> f64 {
    assert_eq!(logits.rows(), targets.len(), "targets of rows");
    let blocks = logits.row_blocks(ROWS);
    let sums = parallel::map(blocks, |block, mut rows| {
        let mut sum = 0.0;
        for i in 0..rows.rows() {
            let (row, target) = (rows.row_mut(i), targets[block * ROWS + i]);
            if target == IGNORE {
                row.fill(0.0);
                continue;
            }
            let (_, log_sum) = log_sum(row);
            sum += log_sum - f64::from(row[target as usize]);
            scaled_softmax(row, log_sum as f32, scale);
            row[target as usize] -= scale;
        }
        sum
    });
    sums.into_iter().sum()
}

vectorised! {
    /// Maximum and log-sum-exp of a row.
    pub(super) fn log_sum<const FUSED: bool>(row: &[f32]) -> (f32, f64) {
        let max = lanes::max(row);
        let mut sum = 0.0;
        let mut powers = [0.0; STRETCH];
        for stretch in row.chunks(STRETCH) {
            let powers = &mut powers[..stretch.len()];
            powers.copy_from_slice(stretch);
            lanes::map(powers, |z| lanes::exp::<FUSED>(z - max));
            sum += f64::from(lanes::sum(powers));
        }
        (max, f64::from(max) + sum.ln())
    }
}

vectorised! {
    fn scaled_softmax<const FUSED: bool>(row: &mut [f32], log_sum: f32, scale: f32) {
        lanes::map(row, |z| scale * lanes::exp::<FUSED>(z - log_sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    fn naive(row: &[f64], target: usize) -> f64 {
        row.iter().map(|z| (z - row[target]).exp()).sum::<f64>().ln()
    }

    fn problem() -> (Mat<f32>, Vec<u32>) {
        let logits = Mat::from_vec(19, 2500, RngKey::new(1).stream().normals(19 * 2500, 4.0));
        let targets = (0..19).map(|i| (i * 131) % 2500).collect();
        (logits, targets)
    }

    #[test]
    fn scores_equal_their_naive_twin() {
        let (mut logits, mut targets) = problem();
        logits.row_mut(2).fill(0.0);
        logits.row_mut(3).fill(0.0);
        (targets[2], targets[3]) = (0, 1);
        let scores = score(logits.view(), &targets);
        let wide = logits.cast::<f64>();
        for (i, &Prediction { nll, is_greedy }) in scores.iter().enumerate() {
            let want = naive(wide.row(i), targets[i] as usize);
            assert!((nll - want).abs() < 1e-6, "row {i}: {nll} is not {want}");
            let first = wide.row(i).iter().position(|z| wide.row(i).iter().all(|other| other <= z));
            assert_eq!(is_greedy, first == Some(targets[i] as usize), "row {i}");
        }
        let sums = log_sums(logits.view());
        for (i, (&target, score)) in targets.iter().zip(&scores).enumerate() {
            let logit = f64::from(logits.at(i, target as usize));
            assert_eq!(sums[i] - logit, score.nll, "row {i}: the same sum");
        }
    }

    #[test]
    fn gradient_equals_central_differences() {
        let (logits, mut targets) = problem();
        targets[5] = IGNORE;
        let mut gradient = logits.clone();
        let total = cross_entropy(gradient.view_mut(), &targets, 0.5);
        let wide = logits.cast::<f64>();
        let kept = || (0..19).filter(|&i| i != 5);
        let want: f64 = kept().map(|i| naive(wide.row(i), targets[i] as usize)).sum();
        assert!((total - want).abs() < 1e-4, "{total} is not {want}");
        assert!(gradient.row(5).iter().all(|&g| g == 0.0));
        for i in kept() {
            for j in [targets[i] as usize, 7, 2499] {
                let moved = |by: f64| {
                    let mut row = wide.row(i).to_vec();
                    row[j] += by;
                    0.5 * naive(&row, targets[i] as usize)
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((f64::from(gradient.at(i, j)) - want).abs() < 1e-6, "({i}, {j})");
            }
        }
    }
}
