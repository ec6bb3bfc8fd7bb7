//! Quality of scores, measured by networks trained on subsets of the examples, and by examples
//! known to be wrong or right.

use linwright_tensor::Mat;
use linwright_tensor::correlation::{pearson, ranks};
use std::collections::BTreeSet;

/// Linear datamodelling score of each query: Spearman's correlation, over subsets, between the sum
/// of the scores of the examples in the subset and the outcome of a network trained on them.
///
/// `scores`: (examples, queries); `outcomes`: (subsets, queries), larger where the answer is
/// better, such as margins. None for a query whose sums or outcomes are all equal. Sources: Ilyas
/// et al. 2022, arXiv:2202.00622; Park et al. 2023, arXiv:2303.14186.
///
/// # Panics
/// If the numbers of subsets or queries differ, or a subset contains a nonexistent example.
#[must_use]
#[track_caller]
pub fn datamodelling_scores(
    scores: &Mat<f64>,
    subsets: &[Vec<usize>],
    outcomes: &Mat<f64>,
) -> Vec<Option<f64>> {
    let found = (outcomes.rows(), outcomes.cols());
    assert_eq!(found, (subsets.len(), scores.cols()), "outcomes of subsets and queries");
    let mut sums = Mat::zeros(subsets.len(), scores.cols());
    for (row, subset) in subsets.iter().enumerate() {
        for &example in subset {
            let into = sums.row_mut(row).iter_mut();
            into.zip(scores.row(example)).for_each(|(sum, score)| *sum += score);
        }
    }
    let column = |all: &Mat<f64>, query: usize| -> Vec<f64> {
        (0..all.rows()).map(|row| all.at(row, query)).collect()
    };
    let of =
        |query: usize| pearson(&ranks(&column(&sums, query)), &ranks(&column(outcomes, query)));
    (0..scores.cols()).map(of).collect()
}

/// Area under the curve of finding bad examples by large scores: the chance that a bad one has a
/// larger score than a good one, of equal scores one half. None if all or none are bad.
///
/// # Panics
/// Unless there is one answer for each score.
#[must_use]
#[track_caller]
pub fn detection_area(scores: &[f64], is_bad: &[bool]) -> Option<f64> {
    assert_eq!(scores.len(), is_bad.len(), "an answer for each score");
    let bad = is_bad.iter().filter(|is_bad| **is_bad).count() as f64;
    let good = scores.len() as f64 - bad;
    if bad == 0.0 || good == 0.0 {
        return None;
    }
    let of_bad = ranks(scores).into_iter().zip(is_bad).filter(|(_, is_bad)| **is_bad);
    let sum: f64 = of_bad.map(|(rank, _)| rank).sum();
    Some((sum - bad * (bad + 1.0) / 2.0) / (bad * good))
}

/// Share of the first k of `best` that are relevant, and share of the relevant ones that are among
/// them. None without relevant ones.
#[must_use]
pub fn precision_and_recall(
    best: &[usize],
    relevant: &BTreeSet<usize>,
    k: usize,
) -> Option<(f64, f64)> {
    if relevant.is_empty() || k == 0 {
        return None;
    }
    let found = best.iter().take(k).filter(|example| relevant.contains(example)).count() as f64;
    Some((found / k as f64, found / relevant.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    /// Subsets of half of the examples.
    fn halves(examples: usize, count: usize) -> Vec<Vec<usize>> {
        let half = |index: usize| {
            let order = RngKey::new(3).fold_index(index as u64).stream().permutation(examples);
            order[..examples / 2].iter().map(|example| *example as usize).collect()
        };
        (0..count).map(half).collect()
    }

    #[test]
    fn true_scores_of_a_linear_model_have_one_and_monotone_outcomes_change_nothing() {
        let scores = Mat::from_vec(20, 3, RngKey::new(1).stream().normals(60, 1.0));
        let subsets = halves(20, 12);
        let sum = |s: usize, q: usize| -> f64 {
            subsets[s].iter().map(|&example| scores.at(example, q)).sum()
        };
        let outcomes = Mat::from_fn(12, 3, sum);
        let curved = Mat::from_fn(12, 3, |s, q| (3.0 * sum(s, q)).exp());
        let against = Mat::from_fn(12, 3, |s, q| -sum(s, q));
        for (outcomes, want) in [(&outcomes, 1.0), (&curved, 1.0), (&against, -1.0)] {
            for found in datamodelling_scores(&scores, &subsets, outcomes) {
                assert!((found.unwrap() - want).abs() < 1e-12, "{found:?}");
            }
        }
        // A query without differences has none.
        let flat = Mat::from_fn(12, 3, |s, q| if q == 1 { 2.0 } else { sum(s, q) });
        let found = datamodelling_scores(&scores, &subsets, &flat);
        assert!(found[1].is_none() && found[0].is_some());
    }

    #[test]
    fn the_area_is_the_chance_of_a_right_order() {
        let (scores, bad) = ([0.9, 0.8, 0.3, 0.1], [true, false, true, false]);
        assert_eq!(detection_area(&scores, &bad), Some(0.75));
        assert_eq!(detection_area(&[1.0; 4], &bad), Some(0.5));
        assert_eq!(detection_area(&scores, &[true, true, false, false]), Some(1.0));
        assert_eq!(detection_area(&scores, &[false; 4]), None);
    }

    #[test]
    fn precision_is_of_the_first_and_recall_of_the_relevant() {
        let relevant = BTreeSet::from([3, 5, 9]);
        let best = [5, 1, 3, 7, 9];
        assert_eq!(precision_and_recall(&best, &relevant, 1), Some((1.0, 1.0 / 3.0)));
        assert_eq!(precision_and_recall(&best, &relevant, 5), Some((0.6, 1.0)));
        assert_eq!(precision_and_recall(&best, &BTreeSet::new(), 5), None);
    }
}
