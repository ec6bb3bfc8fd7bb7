//! Speed of operators as a model has them, beside those that they stand for.

use linwright_ops::{Op, Workspace};
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A timing takes this long at least, so that the clock's steps do not show.
const LEAST: Duration = Duration::from_millis(5);
/// Passes of one timing, at most.
const MOST_PASSES: u32 = 1_000;

/// Milliseconds in which each of two lists of operators maps so many drawn rows, one operator after
/// another: rounds in turn, so that a busy machine slows both.
///
/// # Panics
/// If there are no rounds.
#[must_use]
#[track_caller]
pub fn time_beside(lists: [&[&Op<f32>]; 2], rows: usize, rounds: usize) -> [MedianRange; 2] {
    let mut timed = lists.map(|ops| Timed::new(ops, rows));
    // The first pass fetches memory.
    for list in &mut timed {
        let _ = list.pass();
    }
    for list in &mut timed {
        let once = list.pass().as_secs_f64().max(1e-9);
        list.passes = ((LEAST.as_secs_f64() / once).ceil() as u32).clamp(1, MOST_PASSES);
    }
    for _ in 0..rounds {
        timed.iter_mut().for_each(Timed::round);
    }
    timed.map(|list| MedianRange::of(&list.milliseconds))
}

/// Operators with what goes in and out of them.
struct Timed<'a> {
    ops: Vec<(&'a Op<f32>, Mat<f32>, Mat<f32>)>,
    ws: Workspace<f32>,
    /// Passes of a timing.
    passes: u32,
    /// A pass of each round.
    milliseconds: Vec<f64>,
}

impl<'a> Timed<'a> {
    fn new(ops: &[&'a Op<f32>], rows: usize) -> Self {
        let key = RngKey::new(0).fold("rows of operators beside others");
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

/// Median and ends of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianRange {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl MedianRange {
    /// Of at least one value.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "the spread of no values");
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
        // Twenty times, but the machine may be busy.
        assert!(all.min > 4.0 * one.min, "{one:?}, {all:?}");
    }
}
