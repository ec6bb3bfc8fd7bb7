//! A dense matrix, inverted by elimination (Glow's plain 1 x 1 convolution).

use super::explicit::{Explicit, Form, singular};
use super::{Words, check_formed, linear, random_orthogonal};
use linwright_ops::{LogDet, Op, OpError};
use linwright_tensor::{Mat, RngKey, Scalar, linalg};

pub(super) const FORM: &str = "dense";
pub(super) const ABOUT: &str = "a free matrix, by LU decomposition";

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(0)?;
    check_formed(channels)?;
    let weight = random_orthogonal(channels, key)?.into_vec();
    Ok(linear(Explicit::new(Dense { channels }, vec![weight])))
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels * channels
}

#[derive(Clone, Debug)]
struct Dense {
    channels: usize,
}

impl Form for Dense {
    const NAME: &'static str = "dense";

    fn channels(&self) -> usize {
        self.channels
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        vec![("weight", vec![self.channels; 2])]
    }

    fn matrix(&self, numbers: &[Vec<f64>]) -> Mat<f64> {
        Mat::from_vec(self.channels, self.channels, numbers[0].clone())
    }

    fn pull_back(&self, _numbers: &[Vec<f64>], dw: &Mat<f64>) -> Vec<Vec<f64>> {
        vec![dw.data().to_vec()]
    }

    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError> {
        let unit = Mat::identity(self.channels);
        linalg::solve(self.matrix(numbers).view(), unit.view())
            .map_err(|wrong| singular::<Self>("pivots", wrong.index, wrong.pivot))
    }

    fn log_abs_det(&self, numbers: &[Vec<f64>]) -> Result<LogDet, OpError> {
        let (log_abs, sign) = linalg::log_abs_det(self.matrix(numbers).view());
        match log_abs.is_finite() {
            true => Ok(LogDet { log_abs, sign }),
            false => Err(singular::<Self>("determinant", 0, sign)),
        }
    }

    /// `W⁻ᵀ`.
    fn log_det_gradients(&self, numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError> {
        Ok(vec![self.inverse(numbers)?.transpose().into_vec()])
    }
}
