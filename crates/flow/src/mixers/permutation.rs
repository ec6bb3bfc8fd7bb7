//! A fixed random permutation of the channels (RealNVP's alternation, drawn at random).

use super::explicit::{Explicit, Form};
use super::{Words, check_formed, linear};
use linwright_ops::{LogDet, Op, OpError};
use linwright_tensor::{Mat, RngKey, Scalar};

pub(super) const FORM: &str = "permutation";
pub(super) const ABOUT: &str = "a fixed random order of the channels";

pub(super) fn build<T: Scalar>(
    words: &Words<'_>,
    channels: usize,
    key: RngKey,
) -> Result<Op<T>, String> {
    words.at_most(0)?;
    check_formed(channels)?;
    let order = key.stream().permutation(channels);
    Ok(linear(Explicit::new(Permutation { order }, Vec::new())))
}

pub(super) fn least_numbers(_words: &Words<'_>, channels: u64) -> u64 {
    channels
}

/// `y_i = x_order(i)`.
#[derive(Clone, Debug)]
struct Permutation {
    order: Vec<u32>,
}

/// Whether the numbers are a permutation.
pub(super) fn is_permutation(order: &[u32]) -> bool {
    let mut seen = vec![false; order.len()];
    order.iter().all(|&index| {
        seen.get_mut(index as usize).is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

/// The error for indices that do not form a permutation.
pub(super) fn no_permutation(kind: &'static str, order: &[u32]) -> OpError {
    let reason = format!("is not a permutation of the numbers below {}", order.len());
    OpError::InvalidValues { kind, name: "order".into(), reason }
}

/// The sign of a permutation.
pub(super) fn sign_of(order: &[u32]) -> f64 {
    let (mut sign, mut seen) = (1.0, vec![false; order.len()]);
    for start in 0..order.len() {
        let mut at = start;
        while !std::mem::replace(&mut seen[at], true) {
            at = order[at] as usize;
            if at != start {
                sign = -sign;
            }
        }
    }
    sign
}

impl Form for Permutation {
    const NAME: &'static str = "permutation";

    fn channels(&self) -> usize {
        self.order.len()
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        Vec::new()
    }

    fn indices(&self) -> Vec<(&'static str, &[u32])> {
        vec![("order", &self.order)]
    }

    fn indices_mut(&mut self) -> Vec<(&'static str, &mut [u32])> {
        vec![("order", &mut self.order)]
    }

    fn check(&self) -> Result<(), OpError> {
        match is_permutation(&self.order) {
            true => Ok(()),
            false => Err(no_permutation(Self::NAME, &self.order)),
        }
    }

    fn matrix(&self, _numbers: &[Vec<f64>]) -> Mat<f64> {
        let n = self.order.len();
        Mat::from_fn(n, n, |i, j| f64::from(u8::from(self.order[i] as usize == j)))
    }

    fn pull_back(&self, _numbers: &[Vec<f64>], _dw: &Mat<f64>) -> Vec<Vec<f64>> {
        Vec::new()
    }

    fn inverse(&self, numbers: &[Vec<f64>]) -> Result<Mat<f64>, OpError> {
        Ok(self.matrix(numbers).transpose())
    }

    fn log_abs_det(&self, _numbers: &[Vec<f64>]) -> Result<LogDet, OpError> {
        Ok(LogDet { log_abs: 0.0, sign: sign_of(&self.order) })
    }

    fn log_det_gradients(&self, _numbers: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, OpError> {
        Ok(Vec::new())
    }
}
