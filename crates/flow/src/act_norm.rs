//! ActNorm: a scale and a shift of each channel, initialised from the first batch.
//!
//! `y = (x + bias) exp(logscale)`, `log|det| = places Σ logscale` (Kingma and Dhariwal 2018,
//! section 3.1). [`ActNorm::start`] makes the outputs of a batch zero on average, with unit
//! variance; it runs once, before training, but not in a resumed run.

use linwright_nets::{NetTensor, TensorUse};
use linwright_tensor::{Mat, Scalar, parallel};

/// Smallest standard deviation of a channel: a channel that is constant in the first batch is
/// centred, and scaled at most by its inverse.
const LEAST_DEVIATION: f64 = 1e-6;
/// Rows of a work item.
const ROWS: usize = 512;

/// Scale and shift of each channel.
#[derive(Clone, Debug)]
pub(crate) struct ActNorm<T> {
    name: String,
    bias: Vec<T>,
    log_scale: Vec<T>,
}

impl<T: Scalar> ActNorm<T> {
    pub(crate) fn new(name: String, channels: usize) -> Self {
        Self { name, bias: vec![T::ZERO; channels], log_scale: vec![T::ZERO; channels] }
    }

    pub(crate) fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let Self { name, bias, log_scale } = self;
        [("bias", bias), ("logscale", log_scale)]
            .map(|(part, values)| NetTensor {
                name: format!("{name}.{part}"),
                shape: vec![values.len()],
                values,
                purpose: TensorUse::Vector,
            })
            .into()
    }

    /// Makes the outputs of these rows zero on average, with unit variance.
    pub(crate) fn start(&mut self, x: &Mat<T>) {
        let count = x.rows().max(1) as f64;
        let channels = self.bias.iter_mut().zip(&mut self.log_scale);
        for (c, (bias, log_scale)) in channels.enumerate() {
            let column = || (0..x.rows()).map(|i| x.at(i, c).to_f64());
            let mean = column().sum::<f64>() / count;
            let variance = column().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
            *bias = T::from_f64(-mean);
            *log_scale = T::from_f64(-variance.sqrt().max(LEAST_DEVIATION).ln());
        }
    }

    /// Determinant at one position.
    pub(crate) fn log_det(&self) -> f64 {
        self.log_scale.iter().map(|scale| scale.to_f64()).sum()
    }

    fn scales(&self, sign: f64) -> Vec<T> {
        self.log_scale.iter().map(|scale| T::from_f64((sign * scale.to_f64()).exp())).collect()
    }

    pub(crate) fn forward(&self, x: &mut Mat<T>) {
        let scales = self.scales(1.0);
        self.each_row(x, |x, c| (x + self.bias[c]) * scales[c]);
    }

    pub(crate) fn inverse(&self, y: &mut Mat<T>) {
        let scales = self.scales(-1.0);
        self.each_row(y, |y, c| y * scales[c] - self.bias[c]);
    }

    /// Converts output and its gradient to those of the input; writes the gradients of bias and
    /// scale. `of_log_det` is the gradient of the log-determinant over all positions.
    pub(crate) fn backward(
        &self,
        y: &mut Mat<T>,
        dy: &mut Mat<T>,
        of_log_det: f64,
        grads: &mut [Vec<T>],
    ) {
        let (scales, channels) = (self.scales(1.0), self.bias.len());
        let [mut bias, mut scale] = [vec![0.0; channels], vec![0.0; channels]];
        for i in 0..y.rows() {
            let row = y.row(i).iter().zip(dy.row(i));
            for (c, (y, dy)) in row.enumerate() {
                bias[c] += dy.to_f64();
                scale[c] += y.to_f64() * dy.to_f64();
            }
        }
        let of_bias = bias.iter().zip(&scales).map(|(sum, scale)| sum * scale.to_f64());
        grads[0].iter_mut().zip(of_bias).for_each(|(to, of)| *to = T::from_f64(of));
        let of_scale = scale.iter().map(|sum| sum + of_log_det);
        grads[1].iter_mut().zip(of_scale).for_each(|(to, of)| *to = T::from_f64(of));
        self.each_row(dy, |dy, c| dy * scales[c]);
        self.inverse(y);
    }

    fn each_row(&self, rows: &mut Mat<T>, f: impl Fn(T, usize) -> T + Sync + Send) {
        parallel::for_each(rows.view_mut().row_blocks(ROWS), |_, mut block| {
            for i in 0..block.rows() {
                for (c, value) in block.row_mut(i).iter_mut().enumerate() {
                    *value = f(*value, c);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    #[test]
    fn the_first_batch_is_normalised_and_a_constant_channel_is_centred() {
        let mut stream = RngKey::new(4).stream();
        let x: Mat<f64> = Mat::from_fn(64, 3, |_, c| match c {
            2 => 7.5,
            c => 3.0 * c as f64 + 0.2 * stream.normal(),
        });
        let mut norm = ActNorm::new("n".into(), 3);
        norm.start(&x);
        let mut y = x.clone();
        norm.forward(&mut y);
        for c in 0..2 {
            let mean = (0..64).map(|i| y.at(i, c)).sum::<f64>() / 64.0;
            let square = (0..64).map(|i| y.at(i, c).powi(2)).sum::<f64>() / 64.0;
            assert!(mean.abs() < 1e-12 && (square - 1.0).abs() < 1e-12, "{c}: {mean}, {square}");
        }
        assert!((0..64).all(|i| y.at(i, 2) == 0.0));
        assert!(norm.log_det().is_finite());
        norm.inverse(&mut y);
        assert!(y.data().iter().zip(x.data()).all(|(y, x)| (y - x).abs() < 1e-12));
    }
}
