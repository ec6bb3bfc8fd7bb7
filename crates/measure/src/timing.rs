//! Time of operators compared with the operators they replace.

use linwright_ops::{Op, Workspace};
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Smallest duration of one timing, far above the resolution of the clock.
const MIN_DURATION: Duration = Duration::from_millis(5);
/// Largest number of passes in one timing.
const MAX_PASSES: u32 = 1_000;

/// Milliseconds of one pass of `rows` random rows through two lists of operators, one operator
/// after another. The lists alternate in rounds, so that load of the machine affects both.
///
/// # Panics
/// If `rounds` is zero.
#[must_use]
#[track_caller]
pub fn time_beside(lists: [&[&Op<f32>]; 2], rows: usize, rounds: usize) -> [MedianRange; 2] {
    let mut timed = lists.map(|ops| Timed::new(ops, rows));
    // The first pass allocates memory.
    for list in &mut timed {
        let _ = list.pass();
    }
    for list in &mut timed {
        let once = list.pass().as_secs_f64().max(1e-9);
        list.passes = ((MIN_DURATION.as_secs_f64() / once).ceil() as u32).clamp(1, MAX_PASSES);
    }
    for _ in 0..rounds {
        timed.iter_mut().for_each(Timed::round);
    }
    timed.map(|list| MedianRange::of(&list.milliseconds))
}

/// Operators with their inputs and outputs.
struct Timed<'a> {
    ops: Vec<(&'a Op<f32>, Mat<f32>, Mat<f32>)>,
    ws: Workspace<f32>,
    /// Passes per timing.
    passes: u32,
    /// Milliseconds per pass, by round.
    milliseconds: Vec<f64>,
}

impl<'a> Timed<'a> {
    fn new(ops: &[&'a Op<f32>], rows: usize) -> Self {
        let key = RngKey::new(0).fold("rows of two lists of operators");
        let with_rows = |op: &&'a Op<f32>| {
            let shape = op.map().shape();
            let x = Mat::from_vec(rows, shape.inp, key.stream().normals(rows * shape.inp, 1.0));
            (*op, x, Mat::zeros(rows, shape.out))
        };
        let ops = ops.iter().map(with_rows).collect();
        Self { ops, ws: Workspace::default(), passes: 1, milliseconds: Vec::new() }
    }

    fn pass(&mut self) -> Duration {
        let began = Instant::now();
        for (op, x, y) in &mut self.ops {
            op.map().forward(x.view(), y.view_mut(), None, &mut self.ws);
        }
        began.elapsed()
    }

    fn round(&mut self) {
        let taken: Duration = (0..self.passes).map(|_| self.pass()).sum();
        self.milliseconds.push(1e3 * taken.as_secs_f64() / f64::from(self.passes));
    }
}

/// Median and range over rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MedianRange {
    /// Median: the mean of the middle two for an even number.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl MedianRange {
    /// Median and range of values.
    ///
    /// # Panics
    /// If there are no values.
    #[must_use]
    #[track_caller]
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "no values");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        } else {
            sorted[middle]
        };
        Self { median, min: sorted[0], max: sorted[sorted.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{OpSpec, Shape};

    #[test]
    fn many_operators_take_longer_than_one() {
        let shape = Shape { out: 64, inp: 96 };
        let spec: OpSpec = serde_json::from_str(r#"{"kind": "dense"}"#).unwrap();
        let op: Op<f32> = spec.random(shape, RngKey::new(1)).unwrap();
        let many = vec![&op; 20];
        let [one, all] = time_beside([&[&op], &many], 32, 3);
        assert!(one.min > 0.0 && one.min <= one.median && one.median <= one.max, "{one:?}");
        // Twenty times in theory; less is required, since the machine may be loaded.
        assert!(all.min > 4.0 * one.min, "{one:?}, {all:?}");
    }
}
