//! Products of reflections, `W = (1 - 2 v_1 v_1ᵀ / |v_1|²) ⋯`: an orthogonal matrix; with as many
//! reflections as channels, any orthogonal matrix.

use super::explicit::{Explicit, Form, singular};
use super::{Words, check_formed, linear};
use linwright_ops::{LogDet, Op, OpError};
use linwright_tensor::{Mat, RngKey, Scalar};

pub(super) const FORM: &str = "householder[:R]";
pub(super) const ABOUT: &str = "R reflections, by default as many as channels; orthogonal";

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(1)?;
    check_formed(channels)?;
    let reflections = words.count(0, channels, channels)?;
    let vectors = key.stream().normals(reflections * channels, 1.0);
    Ok(linear(Explicit::new(Householder { channels, reflections }, vec![vectors])))
}

/// A vector for each reflection.
pub(super) fn least_numbers(words: &Words<'_>, channels: u64) -> u64 {
    words.count(0, channels as usize, channels as usize).map_or(0, |count| count as u64 * channels)
}

#[derive(Clone, Debug)]
struct Householder {
    channels: usize,
    reflections: usize,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `m v`.
fn image(m: &Mat<f64>, v: &[f64]) -> Vec<f64> {
    (0..m.rows()).map(|i| dot(m.row(i), v)).collect()
}

/// `m += factor a bᵀ`.
fn add_outer(m: &mut Mat<f64>, factor: f64, a: &[f64], b: &[f64]) {
    for (i, a) in a.iter().enumerate() {
        m.row_mut(i).iter_mut().zip(b).for_each(|(to, b)| *to += factor * a * b);
    }
}

/// `m (1 - 2 v vᵀ / |v|²)` in place of m; returns `m v`.
fn reflect(m: &mut Mat<f64>, v: &[f64]) -> Vec<f64> {
    let along = image(m, v);
    add_outer(m, -2.0 / dot(v, v), &along, v);
    along
}

impl Householder {
    fn vectors<'a>(&self, numbers: &'a [Vec<f64>]) -> impl DoubleEndedIterator<Item = &'a [f64]> {
        numbers[0].chunks_exact(self.channels)
    }

    /// Checks that every reflection has a direction.
    fn invertible(&self, numbers: &[Vec<f64>]) -> Result<(), OpError> {
        let squares = self.vectors(numbers).map(|v| dot(v, v));
        match squares.enumerate().find(|(_, square)| !square.is_normal()) {
            Some((index, square)) => Err(singular::<Self>("squared norms", index, square)),
            None => Ok(()),
        }
    }
}

impl Form for Householder {
    const NAME: &'static str = "householder";

    fn channels(&self) -> usize {
        self.channels
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        vec![("vectors", vec![self.reflections, self.channels])]
    }

    fn matrix(&self, numbers: &[Vec<f64>]) -> Mat<f64> {
        let mut w = Mat::identity(self.channels);
        self.vectors(numbers).for_each(|v| drop(reflect(&mut w, v)));
        w
    }

    fn pull_back(&self, numbers: &[Vec<f64>], dw: &Mat<f64>) -> Vec<Vec<f64>> {
        let (mut w, mut dw) = (self.matrix(numbers), dw.clone());
        let mut grads = Vec::with_capacity(self.reflections);
        for v in self.vectors(numbers).rev() {
            // Reflections are their own inverses: w becomes the product without this one.
            reflect(&mut w, v);
            let (square, along, dw_v) = (dot(v, v), image(&w, v), image(&dw, v));
            let of_square = 2.0 / (square * square) * dot(&along, &dw_v);
            let (w_t, dw_t) = (w.transpose(), dw.transpose());
            let (through, direct) = (image(&w_t, &dw_v), image(&dw_t, &along));
            let each = through.iter().zip(&direct).zip(v);
            grads.push(
                each.map(|((a, b), v)| -2.0 / square * (a + b) + 2.0 * of_square * v)
                    .collect::<Vec<f64>>(),
            );
            add_outer(&mut dw, -2.0 / square, &dw_v, v);
        }
        grads.reverse();
        vec![grads.concat()]
    }

    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError> {
        self.invertible(numbers)?;
        Ok(self.matrix(numbers).transpose())
    }

    fn log_abs_det(&self, numbers: &[Vec<f64>]) -> Result<LogDet, OpError> {
        self.invertible(numbers)?;
        let sign = if self.reflections.is_multiple_of(2) { 1.0 } else { -1.0 };
        Ok(LogDet { log_abs: 0.0, sign })
    }

    fn log_det_gradients(&self, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError> {
        self.invertible(numbers)?;
        Ok(vec![vec![0.0; numbers[0].len()]])
    }
}
