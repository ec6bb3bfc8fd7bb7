//! Growth of times with the number of features, and crossover with the dense operator.

use super::{Entry, OperatorBench, Pass};
use serde::{Deserialize, Serialize};

/// Size at which an operator's forward pass becomes faster than the dense one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The operator.
    pub label: String,
    /// Number of features at which both take equal time, interpolated linearly on logarithmic axes;
    /// the smallest measured number if the operator is always faster, `None` if it is not faster at
    /// the largest one.
    pub features: Option<f64>,
    /// Whether it is faster at all measured sizes.
    pub always: bool,
}

/// Forward milliseconds of a label at square shapes, by ascending number of features.
pub(crate) fn forward_times(bench: &OperatorBench, label: &str) -> Vec<(f64, f64)> {
    let square = |entry: &&Entry| entry.shape.out == entry.shape.inp && entry.label == label;
    let point = |entry: &Entry| {
        let time = entry.pass(Pass::Forward)?;
        Some((entry.shape.inp as f64, time.milliseconds.median))
    };
    let mut points: Vec<_> = bench.results.iter().filter(square).filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Distinct labels in the order of first appearance.
pub(crate) fn labels(bench: &OperatorBench) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for entry in &bench.results {
        if !labels.contains(&entry.label.as_str()) {
            labels.push(&entry.label);
        }
    }
    labels
}

/// Last crossover of every operator other than dense.
#[must_use]
pub fn crossovers(bench: &OperatorBench) -> Vec<Crossover> {
    let dense = forward_times(bench, "dense");
    let others = labels(bench).into_iter().filter(|label| *label != "dense");
    others.map(|label| crossover(label, &forward_times(bench, label), &dense)).collect()
}

fn crossover(label: &str, times: &[(f64, f64)], dense: &[(f64, f64)]) -> Crossover {
    // Log ratio of dense to operator time at common sizes: positive is faster.
    let leads: Vec<(f64, f64)> = times
        .iter()
        .filter_map(|&(features, time)| {
            let (_, dense) = dense.iter().find(|(other, _)| *other == features)?;
            Some((features, (dense / time).ln()))
        })
        .collect();
    let always = !leads.is_empty() && leads.iter().all(|(_, lead)| *lead > 0.0);
    let faster_at_last = leads.last().is_some_and(|(_, lead)| *lead > 0.0);
    let change = leads.windows(2).rev().find(|pair| pair[0].1 <= 0.0 && pair[1].1 > 0.0);
    let features = match change {
        _ if !faster_at_last => None,
        Some(pair) => {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            let share = low / (low - high);
            Some((from.ln() + share * (to.ln() - from.ln())).exp())
        }
        None => leads.first().map(|(features, _)| *features),
    };
    Crossover { label: label.to_owned(), features, always }
}

/// CSV with one line per operator, shape and pass.
#[must_use]
pub fn to_csv(bench: &OperatorBench) -> String {
    let mut lines = vec![
        "operator,out,inp,rows,pass,median_ms,min_ms,max_ms,times_dense,parameters,macs_per_row"
            .to_owned(),
    ];
    for entry in &bench.results {
        for time in &entry.passes {
            let spread = time.milliseconds;
            let ratio = time.times_dense.map_or_else(String::new, |ratio| format!("{ratio:.6}"));
            lines.push(format!(
                "\"{}\",{},{},{},{},{:.6},{:.6},{:.6},{ratio},{},{}",
                entry.label.replace('"', "\"\""),
                entry.shape.out,
                entry.shape.inp,
                bench.rows,
                time.pass.name(),
                spread.median,
                spread.min,
                spread.max,
                entry.parameters,
                entry.macs_per_row,
            ));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(times: &[f64]) -> Vec<(f64, f64)> {
        times.iter().enumerate().map(|(k, time)| (64.0 * 2f64.powi(k as i32), *time)).collect()
    }

    #[test]
    fn a_crossover_lies_where_both_lines_meet() {
        let dense = squares(&[1.0, 4.0, 16.0]);
        // Slower by 2 at 64, faster by 2 at 128: half-way on logarithmic axes.
        let found = crossover("a", &squares(&[2.0, 2.0, 2.0]), &dense);
        assert!((found.features.unwrap() - 64.0 * 2f64.sqrt()).abs() < 1e-9);
        assert!(!found.always);
    }

    #[test]
    fn the_ends_are_told_apart() {
        let dense = squares(&[1.0, 4.0, 16.0]);
        let always = crossover("a", &squares(&[0.5, 1.0, 2.0]), &dense);
        assert_eq!((always.features, always.always), (Some(64.0), true));
        let never = crossover("a", &squares(&[2.0, 5.0, 17.0]), &dense);
        assert_eq!((never.features, never.always), (None, false));
        let lost_again = crossover("a", &squares(&[2.0, 1.0, 17.0]), &dense);
        assert_eq!(lost_again.features, None);
        let unknown = crossover("a", &[], &dense);
        assert_eq!((unknown.features, unknown.always), (None, false));
    }
}
