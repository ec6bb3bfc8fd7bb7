//! Gaussian densities of latents: learnt per channel after the last level, and conditioned on the
//! kept channels where half of the channels leaves.

use crate::coupling::{named, net_spec, random_net};
use crate::{Extent, FlowError};
use linwright_nets::{Batch, Net, NetTensor, TensorUse};
use linwright_ops::Workspace;
use linwright_tensor::{Mat, RngKey, Scalar};

/// `ln sqrt(2 π)`.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_7;

/// Means and logarithms of standard deviations for a row of latents.
type Moments<'a, T> = (&'a [T], &'a [T]);

/// Adds the log-density of latents (examples * places, channels) to that of the examples.
fn add_log_density<'a, T: Scalar>(
    z: &Mat<T>,
    moments: impl Fn(usize) -> Moments<'a, T>,
    log_prior: &mut [f64],
) {
    let places = z.rows() / log_prior.len().max(1);
    for (example, log_prior) in log_prior.iter_mut().enumerate() {
        let mut sum = 0.0;
        for i in example * places..(example + 1) * places {
            let (mean, log_std) = moments(i);
            for ((z, mean), log_std) in z.row(i).iter().zip(mean).zip(log_std) {
                let log_std = log_std.to_f64();
                let e = (z.to_f64() - mean.to_f64()) * (-log_std).exp();
                sum -= 0.5 * e * e + log_std + HALF_LOG_TAU;
            }
        }
        *log_prior += sum;
    }
}

/// Gradients of the log-density times `weight`: of latents, means and logarithms of deviations.
fn gradients<T: Scalar>(weight: f64, z: T, mean: T, log_std: T) -> [f64; 3] {
    let scale = (-log_std.to_f64()).exp();
    let e = (z.to_f64() - mean.to_f64()) * scale;
    [-weight * e * scale, weight * e * scale, weight * (e * e - 1.0)]
}

/// Latents from standard normal latents.
fn scaled<'a, T: Scalar>(standard: &mut Mat<T>, moments: impl Fn(usize) -> Moments<'a, T>) {
    for i in 0..standard.rows() {
        let (mean, log_std) = moments(i);
        for ((z, mean), log_std) in standard.row_mut(i).iter_mut().zip(mean).zip(log_std) {
            *z = *mean + log_std.exp() * *z;
        }
    }
}

/// Standardised latents.
fn standardised<'a, T: Scalar>(z: &mut Mat<T>, moments: impl Fn(usize) -> Moments<'a, T>) {
    for i in 0..z.rows() {
        let (mean, log_std) = moments(i);
        for ((z, mean), log_std) in z.row_mut(i).iter_mut().zip(mean).zip(log_std) {
            *z = (*z - *mean) * (-*log_std).exp();
        }
    }
}

/// Direction of the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    To,
    From,
}

impl Standard {
    fn apply<'a, T: Scalar>(self, z: &mut Mat<T>, moments: impl Fn(usize) -> Moments<'a, T>) {
        match self {
            Self::To => standardised(z, moments),
            Self::From => scaled(z, moments),
        }
    }
}

/// A Gaussian with a mean and a deviation for each channel.
#[derive(Clone, Debug)]
pub(crate) struct Prior<T> {
    mean: Vec<T>,
    log_std: Vec<T>,
}

impl<T: Scalar> Prior<T> {
    pub(crate) fn new(channels: usize) -> Self {
        Self { mean: vec![T::ZERO; channels], log_std: vec![T::ZERO; channels] }
    }

    pub(crate) fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        [("mean", &mut self.mean), ("logstd", &mut self.log_std)]
            .map(|(part, values)| NetTensor {
                name: format!("prior.{part}"),
                shape: vec![values.len()],
                values,
                purpose: TensorUse::Vector,
            })
            .into()
    }

    pub(crate) fn add_log_density(&self, z: &Mat<T>, log_prior: &mut [f64]) {
        add_log_density(z, |_| (&self.mean, &self.log_std), log_prior);
    }

    /// The gradient of the latents; writes those of means and deviations.
    pub(crate) fn backward(&self, z: &Mat<T>, weight: f64, grads: &mut [Vec<T>]) -> Mat<T> {
        let channels = self.mean.len();
        let (mut dz, mut sums) = (Mat::zeros(z.rows(), channels), vec![[0.0; 2]; channels]);
        for i in 0..z.rows() {
            for (c, sums) in sums.iter_mut().enumerate() {
                let of = gradients(weight, z.at(i, c), self.mean[c], self.log_std[c]);
                *dz.at_mut(i, c) = T::from_f64(of[0]);
                sums[0] += of[1];
                sums[1] += of[2];
            }
        }
        for (c, sums) in sums.into_iter().enumerate() {
            (grads[0][c], grads[1][c]) = (T::from_f64(sums[0]), T::from_f64(sums[1]));
        }
        dz
    }

    pub(crate) fn turn(&self, z: &mut Mat<T>, way: Standard) {
        way.apply(z, |_| (&self.mean, &self.log_std));
    }
}

/// A split, where half of the channels leaves: their Gaussian is computed by a convolution of the
/// others.
#[derive(Clone, Debug)]
pub(crate) struct Split<T: Scalar> {
    name: String,
    kept: usize,
    net: Net<T>,
}

impl<T: Scalar> Split<T> {
    /// A split of examples of this extent, whose first `kept` channels continue to the next level.
    pub(crate) fn new(name: String, extent: Extent, kept: usize) -> Result<Self, FlowError> {
        let kernel = if extent.places() > 1 { 3 } else { 1 };
        let spec = net_spec(extent, kept, &[(2 * (extent.channels - kept), kernel)]);
        // The only layer starts at zero, so no random numbers are needed.
        let net = random_net(&spec, RngKey::new(0));
        let net =
            net.map_err(|source| FlowError::Net { layer: name.clone(), source: source.into() })?;
        Ok(Self { name, kept, net })
    }

    pub(crate) fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        named(&self.name, &mut self.net)
    }

    /// Kept channels, and those that leave.
    pub(crate) fn halves(&self, x: &Mat<T>) -> [Mat<T>; 2] {
        let leaving = x.cols() - self.kept;
        [(0, self.kept), (self.kept, leaving)]
            .map(|(start, count)| x.view().columns(start, count).to_mat())
    }

    /// Both halves concatenated.
    pub(crate) fn joined(kept: &Mat<T>, left: &Mat<T>) -> Mat<T> {
        let mut x = Mat::zeros(kept.rows(), kept.cols() + left.cols());
        x.view_mut().columns(0, kept.cols()).copy_from(kept.view());
        x.view_mut().columns(kept.cols(), left.cols()).copy_from(left.view());
        x
    }

    fn moments(
        &self,
        kept: &Mat<T>,
        examples: usize,
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let batch = Batch { rows: kept.clone(), examples };
        let outputs = self.net.outputs_in(batch, ws);
        outputs.map_err(|source| FlowError::Net { layer: self.name.clone(), source: source.into() })
    }

    pub(crate) fn add_log_density(
        &self,
        [kept, z]: [&Mat<T>; 2],
        log_prior: &mut [f64],
        ws: &mut Workspace<T>,
    ) -> Result<(), FlowError> {
        let moments = self.moments(kept, log_prior.len(), ws)?;
        add_log_density(z, |i| moments.row(i).split_at(z.cols()), log_prior);
        Ok(())
    }

    /// The gradient of the latents, and adds that of the kept channels; writes those of the
    /// convolution.
    pub(crate) fn backward(
        &mut self,
        [kept, z]: [&Mat<T>; 2],
        d_kept: &mut Mat<T>,
        (examples, weight): (usize, f64),
        grads: &mut [Vec<T>],
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let batch = Batch { rows: kept.clone(), examples };
        let passed = self.net.pass_in(batch, Some(RngKey::new(0)), ws);
        let (mut moments, passed) = passed
            .map_err(|source| FlowError::Net { layer: self.name.clone(), source: source.into() })?;
        let mut dz = Mat::zeros(z.rows(), z.cols());
        for i in 0..z.rows() {
            let (mean, log_std) = moments.row_mut(i).split_at_mut(z.cols());
            for (c, (mean, log_std)) in mean.iter_mut().zip(log_std).enumerate() {
                let of = gradients(weight, z.at(i, c), *mean, *log_std);
                *dz.at_mut(i, c) = T::from_f64(of[0]);
                (*mean, *log_std) = (T::from_f64(of[1]), T::from_f64(of[2]));
            }
        }
        let own = self.net.gradients_into(passed, moments, grads, ws);
        d_kept.data_mut().iter_mut().zip(own.data()).for_each(|(to, own)| *to += *own);
        Ok(dz)
    }

    pub(crate) fn turn(
        &self,
        [kept, z]: [&Mat<T>; 2],
        examples: usize,
        way: Standard,
        ws: &mut Workspace<T>,
    ) -> Result<Mat<T>, FlowError> {
        let (moments, mut turned) = (self.moments(kept, examples, ws)?, z.clone());
        way.apply(&mut turned, |i| moments.row(i).split_at(z.cols()));
        Ok(turned)
    }
}
