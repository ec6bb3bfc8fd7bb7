//! Comparison of two models on the same items.
//!
//! Items that both models answered form pairs; the mean of their differences has a much smaller
//! standard error than the two scores. For scores of 0 or 1, McNemar's exact test (McNemar 1947) is
//! applied to the items that only one model answers correctly.

use super::TaskResult;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Half width of a 95 % interval in standard errors.
pub const NORMAL_95: f64 = 1.959_963_984_540_054;

/// Difference of two models in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The task.
    pub task: String,
    /// The metric.
    pub metric: String,
    /// Name of the filter.
    pub filter: String,
    /// Number of items that both models answered.
    pub items: usize,
    /// Mean over the items of this model's score minus the other's.
    pub difference: f64,
    /// Bounds of the 95 % confidence interval of the difference, by the normal distribution.
    pub interval: [f64; 2],
    /// For scores of 0 or 1: the number of items that only this model answers correctly, and that
    /// only the other does.
    pub only_one: Option<[usize; 2]>,
    /// Two-sided p-value of McNemar's exact test.
    pub mcnemar_p: Option<f64>,
}

impl Comparison {
    /// Whether all items have equal scores.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.difference == 0.0 && self.interval == [0.0, 0.0]
    }

    /// Greater if the interval is above zero, less if below; equal if it contains zero.
    #[must_use]
    pub fn sign(&self) -> Ordering {
        let [low, high] = self.interval;
        match (low > 0.0, high < 0.0) {
            (true, _) => Ordering::Greater,
            (_, true) => Ordering::Less,
            _ => Ordering::Equal,
        }
    }
}

/// Compares two models in each metric for which both have scores per item.
#[must_use]
pub fn compare(results: &[TaskResult], others: &[TaskResult]) -> Vec<Comparison> {
    let pairs = results.iter().filter_map(|result| {
        let other = others.iter().find(|other| other.task == result.task)?;
        (other.data_sha256 == result.data_sha256).then_some((result, other))
    });
    pairs.flat_map(|(result, other)| of_task(result, other)).collect()
}

/// Scores of an item by filter, index of the item, and metric.
type Values<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<usize, f64>>;

fn values(result: &TaskResult) -> Values<'_> {
    let mut values = Values::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in &result.samples {
        let index = seen.entry(&sample.filter).or_default();
        for (name, value) in &sample.numbers {
            values.entry((&sample.filter, name)).or_default().insert(*index, *value);
        }
        *index += 1;
    }
    values
}

fn of_task(result: &TaskResult, other: &TaskResult) -> Vec<Comparison> {
    let (own, others) = (values(result), values(other));
    let both = own.into_iter().filter_map(|((filter, metric), own)| {
        let other = others.get(&(filter, metric))?;
        let pairs: Vec<(f64, f64)> =
            own.iter().filter_map(|(item, a)| Some((*a, *other.get(item)?))).collect();
        (pairs.len() > 1).then(|| of_pairs(&result.task, filter, metric, &pairs))
    });
    both.collect()
}

fn of_pairs(task: &str, filter: &str, metric: &str, pairs: &[(f64, f64)]) -> Comparison {
    let n = pairs.len() as f64;
    let difference = pairs.iter().map(|(a, b)| a - b).sum::<f64>() / n;
    let squares: f64 = pairs.iter().map(|(a, b)| (a - b - difference).powi(2)).sum();
    let reach = NORMAL_95 * (squares / (n - 1.0) / n).sqrt();
    let is_binary = pairs.iter().all(|(a, b)| [a, b].iter().all(|v| **v == 0.0 || **v == 1.0));
    let only_one = is_binary.then(|| {
        let count = |of: fn(&(f64, f64)) -> bool| pairs.iter().filter(|pair| of(pair)).count();
        [count(|(a, b)| a > b), count(|(a, b)| a < b)]
    });
    Comparison {
        task: task.to_owned(),
        metric: metric.to_owned(),
        filter: filter.to_owned(),
        items: pairs.len(),
        difference,
        interval: [difference - reach, difference + reach],
        only_one,
        mcnemar_p: only_one.map(mcnemar),
    }
}

/// Two-sided p-value of a split `a`, `b` under a fair coin.
fn mcnemar([a, b]: [usize; 2]) -> f64 {
    let (n, fewer) = (a + b, a.min(b));
    // log C(n, k) - n log 2, from k = 0 upwards.
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=fewer {
        tail += log_probability.exp();
        log_probability += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sample;

    fn result(values: &[f64]) -> TaskResult {
        let sample = |value: &f64| Sample {
            filter: "none".into(),
            numbers: BTreeMap::from([("acc".to_owned(), *value)]),
            ..Sample::default()
        };
        let samples = values.iter().map(sample).collect();
        TaskResult { task: "t".into(), samples, ..TaskResult::default() }
    }

    #[test]
    fn pairs_by_hand() {
        let (a, b) = ([1.0, 1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0, 1.0]);
        let found = compare(&[result(&a)], &[result(&b)]);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.items, one.only_one), (5, Some([2, 1])));
        assert!((one.difference - 0.2).abs() < 1e-12);
        // Differences 1, 0, 0, 1, -1: variance 0.7, error sqrt(0.14).
        assert!((one.interval[1] - 0.2 - NORMAL_95 * 0.14f64.sqrt()).abs() < 1e-12);
        assert_eq!(one.mcnemar_p, Some(1.0));
        let numbers = compare(&[result(&[0.5, 0.2])], &[result(&[0.1, 0.2])]);
        assert_eq!((numbers[0].only_one, numbers[0].mcnemar_p), (None, None));
    }

    #[test]
    fn coins() {
        // 2 * (1 + 10) / 1024, and 2 * (1 + 10 + 45) / 1024.
        assert!((mcnemar([1, 9]) - 22.0 / 1024.0).abs() < 1e-12);
        assert!((mcnemar([8, 2]) - 112.0 / 1024.0).abs() < 1e-12);
        assert_eq!((mcnemar([0, 0]), mcnemar([5, 5])), (1.0, 1.0));
        assert!(mcnemar([4000, 6000]) < 1e-80 && mcnemar([4000, 6000]) > 0.0);
    }

    #[test]
    fn other_data_are_not_compared() {
        let other = TaskResult { data_sha256: "x".into(), ..result(&[1.0, 0.0]) };
        assert!(compare(&[result(&[1.0, 0.0])], &[other]).is_empty());
    }
}
