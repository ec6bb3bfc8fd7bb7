//! The exponential of a skew-symmetric matrix: a rotation.
//!
//! Scaling and squaring with a Taylor polynomial in double precision. The gradient is the Fréchet
//! derivative at the transpose, the upper right block of `exp [[Aᵀ, G], [0, Aᵀ]]` (Mathias 1996).

use super::explicit::{Explicit, Form, singular, times};
use super::{Words, check_formed, linear};
use linwright_ops::{LogDet, Op, OpError};
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{Mat, RngKey, Scalar};

pub(super) const FORM: &str = "exponential";
pub(super) const ABOUT: &str = "the exponential of a skew-symmetric matrix; a rotation";

/// Norm below which the polynomial is exact to rounding.
const SMALL: f64 = 0.5;
/// Degree of the polynomial: the next term is below `SMALL^16 / 16!`.
const DEGREE: u32 = 15;

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(0)?;
    check_formed(channels)?;
    let count = channels * channels.saturating_sub(1) / 2;
    // Eigenvalues i θ with θ spread over about half a turn.
    let size = 1.0 / (channels as f64).sqrt();
    let angles = key.stream().normals(count, size);
    Ok(linear(Explicit::new(Exponential { channels }, vec![angles])))
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels * channels.saturating_sub(1) / 2
}

#[derive(Clone, Debug)]
struct Exponential {
    channels: usize,
}

/// The exponential of a square matrix.
fn exponential(a: &Mat<f64>) -> Mat<f64> {
    let norm = (0..a.rows()).map(|i| a.row(i).iter().map(|v| v.abs()).sum::<f64>());
    let norm = norm.fold(0.0, f64::max);
    let squarings = (norm / SMALL).log2().ceil().clamp(0.0, 64.0) as u32;
    let scale = 0.5_f64.powi(squarings.cast_signed());
    let unit = Mat::identity(a.rows());
    let mut sum = unit.clone();
    // Horner: 1 + A (1 + A / 2 (1 + A / 3 ..)).
    for k in (1..=DEGREE).rev() {
        sum = times(Arg::Plain(a.view()), Arg::Plain(sum.view()));
        let factor = scale / f64::from(k);
        let with_unit = sum.data_mut().iter_mut().zip(unit.data());
        with_unit.for_each(|(value, unit)| *value = *value * factor + unit);
    }
    for _ in 0..squarings {
        sum = times(Arg::Plain(sum.view()), Arg::Plain(sum.view()));
    }
    sum
}

impl Exponential {
    fn skew(&self, numbers: &[Vec<f64>]) -> Mat<f64> {
        let mut a = Mat::zeros(self.channels, self.channels);
        let pairs = (0..self.channels).flat_map(|i| (0..i).map(move |j| (i, j)));
        for ((i, j), value) in pairs.zip(&numbers[0]) {
            (*a.at_mut(i, j), *a.at_mut(j, i)) = (*value, -*value);
        }
        a
    }

    fn finite(&self, numbers: &[Vec<f64>]) -> Result<(), OpError> {
        match numbers[0].iter().enumerate().find(|(_, value)| !value.is_finite()) {
            Some((index, value)) => Err(singular::<Self>("skew", index, *value)),
            None => Ok(()),
        }
    }
}

impl Form for Exponential {
    const NAME: &'static str = "exponential";

    fn channels(&self) -> usize {
        self.channels
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        vec![("skew", vec![self.channels * self.channels.saturating_sub(1) / 2])]
    }

    fn matrix(&self, numbers: &[Vec<f64>]) -> Mat<f64> {
        exponential(&self.skew(numbers))
    }

    fn pull_back(&self, numbers: &[Vec<f64>], dw: &Mat<f64>) -> Vec<Vec<f64>> {
        let (a, n) = (self.skew(numbers), self.channels);
        let block = Mat::from_fn(2 * n, 2 * n, |i, j| match (i < n, j < n) {
            (true, true) => a.at(j, i),
            (false, false) => a.at(j - n, i - n),
            (true, false) => dw.at(i, j - n),
            (false, true) => 0.0,
        });
        let of_block = exponential(&block);
        let da = |i: usize, j: usize| of_block.at(i, n + j);
        let pairs = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
        vec![pairs.map(|(i, j)| da(i, j) - da(j, i)).collect()]
    }

    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError> {
        self.finite(numbers)?;
        Ok(self.matrix(numbers).transpose())
    }

    fn log_abs_det(&self, numbers: &[Vec<f64>]) -> Result<LogDet, OpError> {
        self.finite(numbers)?;
        Ok(LogDet { log_abs: 0.0, sign: 1.0 })
    }

    fn log_det_gradients(&self, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError> {
        self.finite(numbers)?;
        Ok(vec![vec![0.0; numbers[0].len()]])
    }
}
