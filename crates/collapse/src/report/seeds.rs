//! Values of reference networks, over the seeds of each depth.

use crate::depth::DepthRow;

/// A value of a network.
pub(super) type Value = fn(&DepthRow) -> Option<f64>;

pub(super) const NC1: Value = |row| row.nc1_quotient;
pub(super) const GAP: Value = |row| row.gap;

/// The depths of rows, ascending.
pub(super) fn depths(rows: &[DepthRow]) -> Vec<usize> {
    let mut depths: Vec<usize> = rows.iter().map(|row| row.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    depths
}

/// Mean and deviation over the seeds of a depth.
pub(super) fn over_seeds(rows: &[DepthRow], depth: usize, value: Value) -> (f64, Option<f64>) {
    let rows = rows.iter().filter(|row| row.depth == depth);
    mean_and_deviation(&rows.filter_map(value).collect::<Vec<f64>>())
}

/// Mean and deviation of some values.
pub(super) fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}
