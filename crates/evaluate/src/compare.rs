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

/// Comparisons of two models on the items of one group of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupComparisons {
    /// The group.
    pub group: String,
    /// Comparisons in all metrics.
    pub comparisons: Vec<Comparison>,
}

/// Compares two models in each metric for which both have scores per item.
#[must_use]
pub fn compare(results: &[TaskResult], others: &[TaskResult]) -> Vec<Comparison> {
    same_tasks(results, others).flat_map(|(own, other)| of_task(own, other, None)).collect()
}

/// Compares two models in each group of items, such as frequency bands. Intervals are per group,
/// not adjusted for the number of groups.
#[must_use]
pub fn compare_groups(results: &[TaskResult], others: &[TaskResult]) -> Vec<GroupComparisons> {
    let groups = same_tasks(results, others).flat_map(|(own, other)| {
        own.groups.iter().map(move |of| GroupComparisons {
            group: of.group.clone(),
            comparisons: of_task(own, other, Some(&of.group)),
        })
    });
    groups.collect()
}

/// Results of the same task on the same data.
fn same_tasks<'a>(
    results: &'a [TaskResult],
    others: &'a [TaskResult],
) -> impl Iterator<Item = (&'a TaskResult, &'a TaskResult)> {
    results.iter().filter_map(|result| {
        let other = others.iter().find(|other| other.task == result.task)?;
        (other.data_sha256 == result.data_sha256).then_some((result, other))
    })
}

/// Scores of the items of a task in one metric, independent of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemScores {
    task: String,
    filter: String,
    metric: String,
    /// By item; none if a model has no score.
    scores: Vec<Option<f64>>,
}

impl ItemScores {
    /// Scores of results, in each metric of the items.
    #[must_use]
    pub fn of(results: &[TaskResult]) -> Vec<Self> {
        let of_task = |result: &TaskResult| {
            let scores = |((filter, metric), scores): ((&str, &str), BTreeMap<usize, f64>)| {
                let items = scores.last_key_value().map_or(0, |(last, _)| last + 1);
                Self {
                    task: result.task.clone(),
                    filter: filter.to_owned(),
                    metric: metric.to_owned(),
                    scores: (0..items).map(|item| scores.get(&item).copied()).collect(),
                }
            };
            values(result, None).into_iter().map(scores).collect::<Vec<_>>()
        };
        results.iter().flat_map(of_task).collect()
    }

    /// Compares several pairs of models, such as two methods with several seeds: the pairs are
    /// items, each with its means over the models. The interval is over items, not over seeds.
    ///
    /// # Panics
    /// If the numbers of models differ.
    #[must_use]
    #[track_caller]
    pub fn compared(models: &[&[Self]], others: &[&[Self]]) -> Vec<Comparison> {
        assert_eq!(models.len(), others.len(), "pairs of models");
        let Some(first) = models.first() else { return Vec::new() };
        let both = first.iter().filter_map(|own| {
            let is_own = |other: &&Self| {
                (&other.task, &other.filter, &other.metric) == (&own.task, &own.filter, &own.metric)
            };
            let all = |of: &[&'_ [Self]]| -> Option<Vec<Vec<Option<f64>>>> {
                let one = |of: &&[Self]| Some(of.iter().find(is_own)?.scores.clone());
                of.iter().map(one).collect()
            };
            let (models, others) = (all(models)?, all(others)?);
            let mean = |of: &[Vec<Option<f64>>], item: usize| -> Option<f64> {
                let of_item = of.iter().map(|scores| scores.get(item).copied().flatten());
                let scores = of_item.collect::<Option<Vec<f64>>>()?;
                Some(scores.iter().sum::<f64>() / scores.len() as f64)
            };
            let pair = |item| Some((mean(&models, item)?, mean(&others, item)?));
            let pairs: Vec<(f64, f64)> = (0..own.scores.len()).filter_map(pair).collect();
            let compared = || of_pairs(&own.task, &own.filter, &own.metric, &pairs);
            // Means of several models are not answers.
            let without_answers = |of| Comparison { only_one: None, mcnemar_p: None, ..of };
            let is_one = models.len() == 1;
            (pairs.len() > 1).then(|| if is_one { compared() } else { without_answers(compared()) })
        });
        both.collect()
    }
}

/// Scores of an item by filter, index of the item, and metric.
type Values<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<usize, f64>>;

/// The scores of all items, or of those of one group.
fn values<'a>(result: &'a TaskResult, group: Option<&str>) -> Values<'a> {
    let mut values = Values::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in &result.samples {
        let index = seen.entry(&sample.filter).or_default();
        let is_in = group.is_none() || sample.group.as_deref() == group;
        for (name, value) in sample.numbers.iter().filter(|_| is_in) {
            values.entry((&sample.filter, name)).or_default().insert(*index, *value);
        }
        *index += 1;
    }
    values
}

fn of_task(result: &TaskResult, other: &TaskResult, group: Option<&str>) -> Vec<Comparison> {
    let (own, others) = (values(result, group), values(other, group));
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
    fn a_group_is_compared_by_its_own_items() {
        let of = |values: &[f64], groups: [&str; 6]| {
            let mut result = result(values);
            for (sample, group) in result.samples.iter_mut().zip(groups) {
                sample.group = (!group.is_empty()).then(|| group.to_owned());
            }
            let named = |group: &str| crate::GroupResult {
                group: group.into(),
                items: 0,
                metrics: Vec::new(),
            };
            result.groups = ["rare", "frequent", "empty"].map(named).into();
            result
        };
        let groups = ["rare", "frequent", "rare", "", "frequent", "rare"];
        let one = [of(&[1.0, 1.0, 0.0, 1.0, 0.0, 1.0], groups)];
        let other = [of(&[0.0, 1.0, 0.0, 0.0, 1.0, 0.0], groups)];
        let found = compare_groups(&one, &other);
        let names: Vec<&str> = found.iter().map(|found| found.group.as_str()).collect();
        assert_eq!(names, ["rare", "frequent", "empty"]);
        let by_hand = [
            compare(&[result(&[1.0, 0.0, 1.0])], &[result(&[0.0; 3])]),
            compare(&[result(&[1.0, 0.0])], &[result(&[1.0, 1.0])]),
            Vec::new(),
        ];
        for (found, expected) in found.iter().zip(by_hand) {
            assert_eq!(found.comparisons, expected, "{}", found.group);
        }
        assert_eq!(compare(&one, &other)[0].items, 6);
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
    fn several_models_pair_by_the_means_of_their_items() {
        let scores = |values: &[f64]| ItemScores::of(&[result(values)]);
        let (a, b) = (scores(&[1.0, 0.0, 1.0]), scores(&[0.0, 0.0, 1.0]));
        let (c, d) = (scores(&[0.0, 1.0, 1.0]), scores(&[1.0, 1.0, 1.0]));
        let found = ItemScores::compared(&[&a, &b], &[&c, &d]);
        let [one] = found.as_slice() else { panic!("{found:?}") };
        // Means 0.5, 0, 1 and 0.5, 1, 1.
        assert_eq!((one.items, one.metric.as_str()), (3, "acc"));
        assert!((one.difference + 1.0 / 3.0).abs() < 1e-12, "{one:?}");
        assert_eq!(one.mcnemar_p, None, "means are not answers");
        // One model each is what results give.
        let alone = ItemScores::compared(&[&a], &[&c]);
        assert_eq!(alone, compare(&[result(&[1.0, 0.0, 1.0])], &[result(&[0.0, 1.0, 1.0])]));
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Vec<ItemScores>>(&json).unwrap(), a);
        assert!(ItemScores::compared(&[], &[]).is_empty());
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
