//! `W = P L (U + diag(s))`, as Glow parametrises its 1 x 1 convolution (Kingma and Dhariwal 2018,
//! eq. 10): a fixed permutation, a unit lower and a strictly upper triangle, and `s = ± exp(t)`.
//!
//! The determinant is a sum, the inverse two substitutions.

use super::explicit::{Explicit, Form, singular, times};
use super::permutation::{is_permutation, no_permutation, sign_of};
use super::{Words, check_formed, linear, random_orthogonal};
use linwright_ops::{LogDet, Op, OpError};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{Mat, RngKey, Scalar};

pub(super) const FORM: &str = "plu";
pub(super) const ABOUT: &str = "a permutation and two triangles, as in Glow";

/// From the decomposition of a random rotation.
pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(0)?;
    check_formed(channels)?;
    let (form, numbers) = decomposed(random_orthogonal(channels, key)?);
    Ok(linear(Explicit::new(form, numbers)))
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels * channels
}

/// Row `order[i]` of W is row i of `L R`, with `R = U + diag(s)`.
#[derive(Clone, Debug)]
struct Plu {
    order: Vec<u32>,
    /// One where s is negative.
    negative: Vec<u32>,
}

/// Elimination with partial pivoting of an invertible matrix.
fn decomposed(mut a: Mat<f64>) -> (Plu, Vec<Vec<f64>>) {
    let n = a.rows();
    let mut order: Vec<u32> = (0..n as u32).collect();
    for k in 0..n {
        let size = |i: &usize| a.at(*i, k).abs();
        let pivot = (k..n).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(k);
        if pivot != k {
            order.swap(k, pivot);
            for j in 0..n {
                let (upper, lower) = (a.at(k, j), a.at(pivot, j));
                (*a.at_mut(k, j), *a.at_mut(pivot, j)) = (lower, upper);
            }
        }
        for i in k + 1..n {
            let factor = a.at(i, k) / a.at(k, k);
            *a.at_mut(i, k) = factor;
            for j in k + 1..n {
                *a.at_mut(i, j) -= factor * a.at(k, j);
            }
        }
    }
    let lower = pairs(n).map(|(i, j)| a.at(i, j)).collect();
    let upper = pairs(n).map(|(i, j)| a.at(j, i)).collect();
    let diagonal: Vec<f64> = (0..n).map(|k| a.at(k, k)).collect();
    let negative = diagonal.iter().map(|s| u32::from(*s < 0.0)).collect();
    let logs = diagonal.iter().map(|s| s.abs().ln()).collect();
    (Plu { order, negative }, vec![lower, upper, logs])
}

/// Rows and columns of a strictly lower triangle, row by row.
fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(|i| (0..i).map(move |j| (i, j)))
}

impl Plu {
    fn triangles(&self, numbers: &[Vec<f64>]) -> [Mat<f64>; 2] {
        let n = self.order.len();
        let (mut left, mut right) = (Mat::identity(n), Mat::zeros(n, n));
        for ((i, j), (lower, upper)) in pairs(n).zip(numbers[0].iter().zip(&numbers[1])) {
            *left.at_mut(i, j) = *lower;
            *right.at_mut(j, i) = *upper;
        }
        for (k, s) in self.diagonal(numbers).enumerate() {
            *right.at_mut(k, k) = s;
        }
        [left, right]
    }

    fn diagonal(&self, numbers: &[Vec<f64>]) -> impl Iterator<Item = f64> {
        let logs = numbers[2].iter().zip(&self.negative);
        logs.map(|(log, negative)| if *negative == 1 { -log.exp() } else { log.exp() })
    }

    /// Checks that no number of s is zero or infinite.
    fn invertible(&self, numbers: &[Vec<f64>]) -> Result<(), OpError> {
        match self.diagonal(numbers).enumerate().find(|(_, s)| *s == 0.0 || !s.is_finite()) {
            Some((index, s)) => Err(singular::<Self>("s", index, s)),
            None => Ok(()),
        }
    }

    /// The rows of a matrix in the order of W, from that of `L R`.
    fn ordered(&self, a: &Mat<f64>) -> Mat<f64> {
        let mut w = Mat::zeros(a.rows(), a.cols());
        for (i, to) in self.order.iter().enumerate() {
            w.row_mut(*to as usize).copy_from_slice(a.row(i));
        }
        w
    }
}

impl Form for Plu {
    const NAME: &'static str = "plu";

    fn channels(&self) -> usize {
        self.order.len()
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        let n = self.order.len();
        let triangle = n * n.saturating_sub(1) / 2;
        vec![("lower", vec![triangle]), ("upper", vec![triangle]), ("log_s", vec![n])]
    }

    fn indices(&self) -> Vec<(&'static str, &[u32])> {
        vec![("order", &self.order), ("negative", &self.negative)]
    }

    fn indices_mut(&mut self) -> Vec<(&'static str, &mut [u32])> {
        vec![("order", &mut self.order), ("negative", &mut self.negative)]
    }

    fn check(&self) -> Result<(), OpError> {
        if !is_permutation(&self.order) {
            return Err(no_permutation(Self::NAME, &self.order));
        }
        match self.negative.iter().position(|sign| *sign > 1) {
            None => Ok(()),
            Some(at) => {
                let reason = format!("holds {} at {at}, expected 0 or 1", self.negative[at]);
                Err(OpError::InvalidValues { kind: Self::NAME, name: "negative".into(), reason })
            }
        }
    }

    fn matrix(&self, numbers: &[Vec<f64>]) -> Mat<f64> {
        let [left, right] = self.triangles(numbers);
        self.ordered(&times(Arg::Plain(left.view()), Arg::Plain(right.view())))
    }

    fn pull_back(&self, numbers: &[Vec<f64>], dw: &Mat<f64>) -> Vec<Vec<f64>> {
        let ([left, right], n) = (self.triangles(numbers), self.order.len());
        let da = Mat::from_fn(n, n, |i, j| dw.at(self.order[i] as usize, j));
        let d_left = times(Arg::Plain(da.view()), Arg::Transposed(right.view()));
        let d_right = times(Arg::Transposed(left.view()), Arg::Plain(da.view()));
        let logs = self.diagonal(numbers).enumerate().map(|(k, s)| d_right.at(k, k) * s);
        vec![
            pairs(n).map(|(i, j)| d_left.at(i, j)).collect(),
            pairs(n).map(|(i, j)| d_right.at(j, i)).collect(),
            logs.collect(),
        ]
    }

    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError> {
        self.invertible(numbers)?;
        let ([left, right], n) = (self.triangles(numbers), self.order.len());
        // Column order[i] of the unit matrix in the order of L R is unit vector i.
        let mut x = Mat::from_fn(n, n, |i, j| f64::from(u8::from(self.order[i] as usize == j)));
        for i in 0..n {
            for k in 0..i {
                subtract(&mut x, i, k, left.at(i, k));
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                subtract(&mut x, i, k, right.at(i, k));
            }
            let s = right.at(i, i);
            x.row_mut(i).iter_mut().for_each(|value| *value /= s);
        }
        Ok(x)
    }

    fn log_abs_det(&self, numbers: &[Vec<f64>]) -> Result<LogDet, OpError> {
        self.invertible(numbers)?;
        let odd = self.negative.iter().sum::<u32>() % 2 == 1;
        let sign = if odd { -sign_of(&self.order) } else { sign_of(&self.order) };
        Ok(LogDet { log_abs: numbers[2].iter().sum(), sign })
    }

    fn log_det_gradients(&self, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError> {
        self.invertible(numbers)?;
        let zeros = |k: usize| vec![0.0; numbers[k].len()];
        Ok(vec![zeros(0), zeros(1), vec![1.0; numbers[2].len()]])
    }
}

/// Subtracts a multiple of row k from row i.
fn subtract(x: &mut Mat<f64>, i: usize, k: usize, factor: f64) {
    for j in 0..x.cols() {
        let value = x.at(k, j);
        *x.at_mut(i, j) -= factor * value;
    }
}
