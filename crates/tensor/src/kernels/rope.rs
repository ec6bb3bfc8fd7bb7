//! Rotary position embedding.
//!
//! For position p and frequency f_i: `(a, b) -> (a cos(p f_i) - b sin(p f_i), b cos(p f_i) + a
//! sin(p f_i))` for the i-th pair of features of every head, both outputs times a scale. Source: Su
//! et al. 2021, arXiv:2104.09864, eq. 34. The transpose, which is the backward pass, negates the
//! sine. The scale is YaRN's (Peng et al. 2023, arXiv:2309.00071, section 3.4: a temperature of
//! attention, applied to queries and keys).

use super::instructions::vectorised;
use crate::MatMut;
use crate::parallel::{self, rows_of_piece};
use std::ops::Range;

/// Table of cosines and sines for all positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RopeTable {
    /// Row p holds the cosines of position p, then its sines, in the order of the features of a
    /// row.
    turns: Vec<f32>,
    pairs: usize,
    pairing: Pairing,
    positions: usize,
}

/// Pairing of the features of a head. The first `2 pairs` features are rotated; the rest is
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairing {
    /// Rotary halves: feature i and feature `i + pairs`, as in most checkpoints.
    #[default]
    Halves,
    /// Interleaved: features 2i and 2i + 1, as in the paper and in GPT-J.
    Neighbours,
}

/// Direction of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As in the forward pass.
    Forward,
    /// By the transpose, for gradients: the inverse rotation, times the scale once more.
    Back,
}

/// Rows with consecutive positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RopeRows {
    /// The rows.
    pub rows: Range<usize>,
    /// Position of the first.
    pub first_position: usize,
}

impl RopeTable {
    /// A table for `frequencies` in radians per position, one per pair of features; `scale`
    /// multiplies the result and is one unless attention has a temperature.
    #[must_use]
    pub fn new(frequencies: &[f32], pairing: Pairing, scale: f32, positions: usize) -> Self {
        let pairs = frequencies.len();
        let width = width_of(pairs, pairing);
        let mut turns = vec![0.0; positions * width];
        for (position, row) in turns.chunks_exact_mut(width.max(1)).enumerate() {
            let (cosines, sines) = row.split_at_mut(width / 2);
            for (pair, frequency) in frequencies.iter().enumerate() {
                // The product is rounded to f32 as in the models' own code, which matters in the
                // last digits at large positions; so are cosine and sine before scaling.
                let angle = f64::from(position as f32 * frequency);
                let (cos, sin) = (angle.cos() as f32 * scale, angle.sin() as f32 * scale);
                match pairing {
                    Pairing::Halves => (cosines[pair], sines[pair]) = (cos, sin),
                    Pairing::Neighbours => {
                        cosines[2 * pair..][..2].fill(cos);
                        sines[2 * pair..][..2].copy_from_slice(&[-sin, sin]);
                    }
                }
            }
        }
        Self { turns, pairs, pairing, positions }
    }

    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Rotates the heads of some rows of `x` (rows, heads * head_dim) in place. Rows that are not
    /// listed are unchanged: they may belong to another table.
    ///
    /// # Panics
    /// If the listed rows are out of order, overlap or do not exist, a position is beyond the
    /// table, a head has fewer features than are rotated, or the width of `x` is not a multiple of
    /// a head.
    #[track_caller]
    pub fn rotate(&self, x: MatMut<'_, f32>, head_dim: usize, rows: &[RopeRows], turn: Turn) {
        let cols = x.cols();
        assert!(head_dim > 0 && cols.is_multiple_of(head_dim), "{cols} features, heads {head_dim}");
        assert!(2 * self.pairs <= head_dim, "{} pairs in a head of {head_dim}", self.pairs);
        let mut end = 0;
        for RopeRows { rows, first_position } in rows {
            assert!(end <= rows.start && rows.start <= rows.end, "rows {rows:?} after row {end}");
            let last = first_position + rows.len();
            assert!(last <= self.positions, "position {last} of {}", self.positions);
            end = rows.end;
        }
        assert!(end <= x.rows(), "rows up to {end} of {}", x.rows());
        let width = width_of(self.pairs, self.pairing);
        if width == 0 {
            return;
        }
        let block = rows_of_piece(cols);
        parallel::for_each(x.row_blocks(block), |k, mut x| {
            let (start, end) = (k * block, k * block + x.rows());
            let first = rows.partition_point(|listed| listed.rows.end <= start);
            for RopeRows { rows, first_position } in &rows[first..] {
                if rows.start >= end {
                    break;
                }
                for row in rows.start.max(start)..rows.end.min(end) {
                    let position = first_position + row - rows.start;
                    let turns = &self.turns[position * width..][..width];
                    match self.pairing {
                        Pairing::Halves => {
                            rotate_halves(x.row_mut(row - start), head_dim, turns, turn);
                        }
                        Pairing::Neighbours => {
                            rotate_neighbours(x.row_mut(row - start), head_dim, turns, turn);
                        }
                    }
                }
            }
        });
    }
}

/// Cosines and sines of a position. Interleaved pairs have each twice, one per feature, so that
/// registers of features and of the table match.
fn width_of(pairs: usize, pairing: Pairing) -> usize {
    match pairing {
        Pairing::Halves => 2 * pairs,
        Pairing::Neighbours => 4 * pairs,
    }
}

/// Features per register group.
const LANES: usize = 16;

vectorised! {
    fn rotate_halves<const FUSED: bool>(
        row: &mut [f32],
        head_dim: usize,
        turns: &[f32],
        turn: Turn,
    ) {
        let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
        let pairs = turns.len() / 2;
        let (cos, sin) = turns.split_at(pairs);
        let ((cos, cos_end), (sin, sin_end)) = (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
        for head in row.chunks_exact_mut(head_dim) {
            let (first, second) = head[..2 * pairs].split_at_mut(pairs);
            let (first, first_end) = first.as_chunks_mut::<LANES>();
            let (second, second_end) = second.as_chunks_mut::<LANES>();
            for (((first, second), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                // Copies let the compiler assume that they do not alias the output.
                let (a, b, c, s) = (*first, *second, *cos, sin.map(|s| sign * s));
                *first = std::array::from_fn(|k| a[k] * c[k] - b[k] * s[k]);
                *second = std::array::from_fn(|k| b[k] * c[k] + a[k] * s[k]);
            }
            let turns = cos_end.iter().zip(sin_end);
            for ((a, b), (c, s)) in first_end.iter_mut().zip(second_end).zip(turns) {
                let s = sign * s;
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
    }
}

vectorised! {
    fn rotate_neighbours<const FUSED: bool>(
        row: &mut [f32],
        head_dim: usize,
        turns: &[f32],
        turn: Turn,
    ) {
        let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
        let (cos, sin) = turns.split_at(turns.len() / 2);
        let ((cos, cos_end), (sin, sin_end)) = (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
        for head in row.chunks_exact_mut(head_dim) {
            let (head, end) = head[..turns.len() / 2].as_chunks_mut::<LANES>();
            for ((head, cos), sin) in head.iter_mut().zip(cos).zip(sin) {
                let (x, c, s) = (*head, *cos, sin.map(|s| sign * s));
                *head = std::array::from_fn(|k| x[k] * c[k] + x[k ^ 1] * s[k]);
            }
            let turns = cos_end.as_chunks::<2>().0.iter().zip(sin_end.as_chunks::<2>().0);
            for (x, (c, s)) in end.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                *x = [x[0] * c[0] + x[1] * (sign * s[0]), x[1] * c[1] + x[0] * (sign * s[1])];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    const HEADS: usize = 2;
    const ROWS: usize = 2_500;
    const POSITIONS: usize = 5_000;

    /// Frequencies of fewer pairs than a register holds, and of more.
    fn frequencies(pairs: usize) -> Vec<f32> {
        (0..pairs).map(|pair| 0.5f32.powi(pair as i32)).collect()
    }

    fn table(pairs: usize, pairing: Pairing, scale: f32) -> RopeTable {
        RopeTable::new(&frequencies(pairs), pairing, scale, POSITIONS)
    }

    fn random(seed: u64, head_dim: usize) -> Mat<f32> {
        let width = HEADS * head_dim;
        Mat::from_vec(ROWS, width, RngKey::new(seed).stream().normals(ROWS * width, 1.0))
    }

    /// Two sequences and a piece of a third; rows between them are not listed.
    fn rows() -> Vec<RopeRows> {
        [(0..1_900, 0), (1_901..1_902, 4_000), (2_100..2_499, 4_601)]
            .map(|(rows, first_position)| RopeRows { rows, first_position })
            .to_vec()
    }

    #[derive(Clone, Copy, Debug)]
    struct Case {
        pairs: usize,
        head_dim: usize,
        pairing: Pairing,
        scale: f32,
    }

    /// The rotated row by its definition.
    fn naive(x: &[f32], position: usize, case: Case) -> Vec<f64> {
        let Case { pairs, head_dim, pairing, scale } = case;
        let mut y: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
        for head in y.chunks_mut(head_dim) {
            for (pair, frequency) in frequencies(pairs).into_iter().enumerate() {
                let (i, j) = match pairing {
                    Pairing::Halves => (pair, pair + pairs),
                    Pairing::Neighbours => (2 * pair, 2 * pair + 1),
                };
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                let (a, b) = (head[i], head[j]);
                head[i] = f64::from(scale) * (a * cos - b * sin);
                head[j] = f64::from(scale) * (b * cos + a * sin);
            }
        }
        y
    }

    fn each(mut check: impl FnMut(Case)) {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            for (pairs, head_dim) in [(3, 6), (3, 10), (19, 40), (32, 64)] {
                for scale in [1.0, 1.25] {
                    check(Case { pairs, head_dim, pairing, scale });
                }
            }
        }
    }

    #[test]
    fn rotation_equals_its_naive_twin_and_leaves_other_rows_alone() {
        each(|case| {
            let Case { pairs, head_dim, pairing, scale } = case;
            let x = random(1, head_dim);
            let mut y = x.clone();
            table(pairs, pairing, scale).rotate(y.view_mut(), head_dim, &rows(), Turn::Forward);
            let mut wanted: Vec<Vec<f64>> =
                (0..ROWS).map(|i| x.row(i).iter().map(|&v| f64::from(v)).collect()).collect();
            for RopeRows { rows, first_position } in rows() {
                for (row, position) in rows.zip(first_position..) {
                    wanted[row] = naive(x.row(row), position, case);
                }
            }
            for (row, wanted) in wanted.iter().enumerate() {
                for (y, want) in y.row(row).iter().zip(wanted) {
                    let error = (f64::from(*y) - want).abs();
                    assert!(error < 2e-6, "{case:?}, row {row}: off by {error}");
                }
            }
        });
    }

    #[test]
    fn turning_back_is_the_gradient_and_the_inverse_times_the_square_of_the_scale() {
        each(|case| {
            let Case { pairs, head_dim, pairing, scale } = case;
            let table = table(pairs, pairing, scale);
            let (x, dy) = (random(1, head_dim), random(2, head_dim));
            let mut dx = dy.clone();
            table.rotate(dx.view_mut(), head_dim, &rows(), Turn::Back);
            for (row, position) in [(0, 0), (77, 77), (1_901, 4_000), (2_498, 4_999)] {
                let loss = |at: usize, by: f32| -> f64 {
                    let mut x = x.row(row).to_vec();
                    x[at] += by;
                    let y = naive(&x, position, case);
                    y.iter().zip(dy.row(row)).map(|(y, d)| y * f64::from(*d)).sum()
                };
                for at in 0..x.cols() {
                    // The map is linear, so a difference over any step is the slope.
                    let (up, down) = (x.at(row, at) + 1.0, x.at(row, at) - 1.0);
                    let step = f64::from(up) - f64::from(down);
                    let want = (loss(at, 1.0) - loss(at, -1.0)) / step;
                    let error = (f64::from(dx.at(row, at)) - want).abs();
                    assert!(error < 5e-6, "{case:?}, row {row}: off by {error}");
                }
            }
            let mut y = x.clone();
            table.rotate(y.view_mut(), head_dim, &rows(), Turn::Forward);
            table.rotate(y.view_mut(), head_dim, &rows(), Turn::Back);
            for j in 0..x.cols() {
                let factor = if j % head_dim < 2 * pairs { scale * scale } else { 1.0 };
                assert!((y.at(2_300, j) - factor * x.at(2_300, j)).abs() < 1e-5, "feature {j}");
            }
        });
    }

    #[test]
    #[should_panic(expected = "position 5001 of 5000")]
    fn a_position_beyond_the_table_is_refused() {
        let rows = [RopeRows { rows: 0..2, first_position: 4_999 }];
        table(3, Pairing::Halves, 1.0).rotate(Mat::zeros(2, 6).view_mut(), 6, &rows, Turn::Forward);
    }

    #[test]
    #[should_panic(expected = "rows 1..3 after row 2")]
    fn rows_that_overlap_are_refused() {
        let rows = [0..2, 1..3].map(|rows| RopeRows { rows, first_position: 0 });
        table(3, Pairing::Halves, 1.0).rotate(Mat::zeros(3, 6).view_mut(), 6, &rows, Turn::Forward);
    }
}
