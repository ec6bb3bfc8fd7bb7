//! Means over seeds and layer sets.

use super::{Run, Runs};
use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_report::Spread;

/// All runs of one method with the same number of layers.
#[derive(Clone, Debug)]
pub struct Summary<'a> {
    /// The row.
    pub method: &'a str,
    /// Number of replaced layers.
    pub layer_count: usize,
    /// The runs, with different seeds and layers.
    pub rows: Vec<&'a Run<'a>>,
}

impl Summary<'_> {
    /// Mean and deviation of a value over the runs that have it.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Run<'_>) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.rows.iter().filter_map(|row| figure(row)).collect::<Vec<_>>())
    }

    /// Mean and deviation of a metric of a task.
    #[must_use]
    pub fn metric(&self, task: &str, metric: &str) -> Option<Spread> {
        self.spread(|row| metric_of(row.results, task, metric))
    }

    /// Mean number of parameters.
    #[must_use]
    pub fn parameters(&self, count: impl Fn(&ParameterCounts) -> f64) -> f64 {
        self.spread(|row| Some(count(&row.parameters))).map_or(0.0, |spread| spread.mean)
    }
}

impl Runs<'_> {
    /// Summaries by number of layers and row; rows in the order of first appearance, numbers of
    /// layers ascending.
    #[must_use]
    pub fn summaries(&self) -> Vec<Summary<'_>> {
        let mut all: Vec<Summary<'_>> = Vec::new();
        for row in &self.rows {
            let same = |summary: &&mut Summary<'_>| {
                summary.method == row.method && summary.layer_count == row.layers.len()
            };
            match all.iter_mut().find(same) {
                Some(summary) => summary.rows.push(row),
                None => all.push(Summary {
                    method: &row.method,
                    layer_count: row.layers.len(),
                    rows: vec![row],
                }),
            }
        }
        // A stable sort keeps rows in the order of first appearance.
        all.sort_by_key(|summary| summary.layer_count);
        all
    }

    /// Rows in the order of first appearance, which determines their colours.
    #[must_use]
    pub fn methods(&self) -> Vec<&str> {
        first_appearances(self.rows.iter().map(|row| row.method.as_str()))
    }
}

/// The value of a metric of a task.
pub(super) fn metric_of(results: &[TaskResult], task: &str, metric: &str) -> Option<f64> {
    let result = results.iter().find(|result| result.task == task)?;
    Some(result.metric(metric)?.value)
}

/// Distinct names in the order of first appearance.
pub(super) fn first_appearances<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
