//! Rotary position embedding, pairing feature i of a head with feature i + head_dim / 2.
//!
//! For position p and frequency f_i: `(a, b) -> (a cos(p f_i) - b sin(p f_i), b cos(p f_i) +
//! a sin(p f_i))`. Source: Su et al. 2021, arXiv:2104.09864, eq. 34, with the pairing of Hugging
//! Face checkpoints. The inverse rotation, which is the gradient too, negates the sine.

use crate::MatMut;
use crate::parallel::{self, ROW_BLOCK};
use std::ops::Range;

/// Cosines and sines of all positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RopeTable {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
    positions: usize,
}

/// Direction of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As in the forward pass.
    Forward,
    /// Back, as gradients turn.
    Back,
}

impl RopeTable {
    /// For `frequencies` in radians per position, one for each pair of features.
    #[must_use]
    pub fn new(frequencies: &[f32], positions: usize) -> Self {
        let angles = (0..positions).flat_map(|position| {
            // The product is rounded to f32 as in the models' own code, which matters to the last
            // digits at large positions.
            frequencies.iter().map(move |f| f64::from(position as f32 * f))
        });
        let (sin, cos) = angles.map(|angle| (angle.sin() as f32, angle.cos() as f32)).unzip();
        Self { cos, sin, half: frequencies.len(), positions }
    }

    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Rotates the heads of `x` (rows, heads * head_dim) in place. Each span of rows is a sequence
    /// whose positions count from zero.
    ///
    /// # Panics
    /// If a span is longer than the table, or the width of `x` is no multiple of a head.
    #[track_caller]
    pub fn rotate(&self, x: MatMut<'_, f32>, spans: &[Range<usize>], turn: Turn) {
        let head_dim = 2 * self.half;
        assert!(x.cols().is_multiple_of(head_dim), "{} features of heads of {head_dim}", x.cols());
        let mut positions = vec![0; x.rows()];
        for span in spans {
            assert!(span.len() <= self.positions, "{} of {} positions", span.len(), self.positions);
            span.clone().enumerate().for_each(|(position, row)| positions[row] = position);
        }
        parallel::for_each(x.row_blocks(ROW_BLOCK), |block, mut rows| {
            for i in 0..rows.rows() {
                let at = positions[block * ROW_BLOCK + i] * self.half;
                let angles = (&self.cos[at..at + self.half], &self.sin[at..at + self.half]);
                rotate_row(rows.row_mut(i), angles, turn);
            }
        });
    }
}

fn rotate_row(row: &mut [f32], (cos, sin): (&[f32], &[f32]), turn: Turn) {
    let sign = if turn == Turn::Forward { 1.0 } else { -1.0 };
    for head in row.chunks_exact_mut(2 * cos.len()) {
        let (first, second) = head.split_at_mut(cos.len());
        for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            let s = sign * s;
            (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn rotation_equals_its_naive_twin_and_turns_back() {
        let (frequencies, width) = ([1.0f32, 0.1, 0.003], 12);
        let table = RopeTable::new(&frequencies, 200);
        let spans = [0..130, 130..131, 131..200];
        let x = Mat::from_vec(200, width, RngKey::new(1).stream().normals::<f32>(200 * width, 1.0));
        let mut y = x.clone();
        table.rotate(y.view_mut(), &spans, Turn::Forward);
        for span in &spans {
            for (position, row) in span.clone().enumerate() {
                for (head, pair) in [(0, 0), (0, 1), (0, 2), (6, 0), (6, 1), (6, 2)] {
                    let angle = f64::from(frequencies[pair]) * position as f64;
                    let a = f64::from(x.at(row, head + pair));
                    let b = f64::from(x.at(row, head + pair + 3));
                    let want = a * angle.cos() - b * angle.sin();
                    let error = (f64::from(y.at(row, head + pair)) - want).abs();
                    assert!(error < 2e-5, "row {row}: off by {error}");
                }
            }
        }
        table.rotate(y.view_mut(), &spans, Turn::Back);
        for (x, y) in x.data().iter().zip(y.data()) {
            assert!((x - y).abs() < 1e-5, "{y} is not {x}");
        }
    }
}
