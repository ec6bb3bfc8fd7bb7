//! Batch normalisation.

use super::Layer;
use crate::affine::Affine;
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, NetTensor, Pass, Step, TensorUse};
use crate::{Extent, NetError};
use linwright_tensor::kernels::batch_norm::{
    column_moments, columns_backward, normalise_columns, scale_columns,
};
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// Normalisation of each channel, with scale and shift: by the batch in training, by running
/// statistics otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchNorm {
    /// Name of its tensors.
    pub name: String,
    /// Added to the variance.
    #[serde(default = "BatchNorm::default_eps")]
    pub eps: f64,
    /// Part of a batch in the running statistics.
    #[serde(default = "BatchNorm::default_momentum")]
    pub momentum: f64,
}

impl BatchNorm {
    fn default_eps() -> f64 {
        1e-5
    }

    fn default_momentum() -> f64 {
        0.1
    }
}

impl Layer for BatchNorm {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        chain.below("momentum", self.momentum, 1.0 + f64::EPSILON)?;
        chain.below("eps", self.eps, f64::INFINITY).map(|()| input)
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        let (name, channels) = (&self.name, [builder.extent.channels]);
        let step = BatchNormStep {
            affine: builder.affine(name)?,
            mean: builder.tensor(&format!("{name}.running_mean"), &channels)?,
            variance: builder.tensor(&format!("{name}.running_var"), &channels)?,
            eps: self.eps,
            momentum: self.momentum,
        };
        builder.push(step);
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct BatchNormStep<T> {
    affine: Affine<T>,
    mean: Vec<T>,
    variance: Vec<T>,
    eps: f64,
    momentum: f64,
}

impl<T: Scalar> Step<T> for BatchNormStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn vectors(&self) -> Vec<(String, &[T])> {
        let name = &self.affine.name;
        let mut vectors = self.affine.vectors();
        vectors.push((format!("{name}.running_mean"), &self.mean));
        vectors.push((format!("{name}.running_var"), &self.variance));
        vectors
    }

    fn vectors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let name = self.affine.name.clone();
        let mut tensors = self.affine.vectors_mut();
        let statistics = [("running_mean", &mut self.mean), ("running_var", &mut self.variance)];
        tensors.extend(statistics.map(|(end, values)| {
            NetTensor::vector(format!("{name}.{end}"), values, TensorUse::Statistic)
        }));
        tensors
    }

    fn other_parameters(&self) -> usize {
        2 * self.mean.len()
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let training = pass.training.is_some();
        let moments = training.then(|| column_moments(x.view()));
        let (mean, variance) = match &moments {
            Some((mean, variance)) => (mean, variance),
            None => (&self.mean, &self.variance),
        };
        let scale = |v: &T| T::from_f64(1.0 / (v.to_f64() + self.eps).sqrt());
        let scales: Vec<T> = variance.iter().map(scale).collect();
        normalise_columns(x.view_mut(), mean, &scales);
        let mats = if pass.keeps() { vec![x.clone()] } else { Vec::new() };
        self.affine.apply(&mut x);
        let moments = moments.into_iter().flat_map(|(mean, variance)| [mean, variance]);
        let vectors = std::iter::once(scales).chain(moments).collect();
        (x, Kept { mats, vectors, ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let (h, scales) = (&kept.mats[0], &kept.vectors[0]);
        self.affine.backward(&mut dy, h, back.numbers(0));
        match kept.vectors.len() {
            1 => scale_columns(dy.view_mut(), scales),
            _ => columns_backward(h.view(), scales, dy.view_mut()),
        }
        kept.release(back.ws);
        dy
    }

    fn learn(&mut self, kept: &Kept<T>) {
        let ([_, mean, variance], Some(h)) = (&kept.vectors[..], kept.mats.first()) else {
            return;
        };
        let rows = h.rows() as f64;
        // The running variance is the unbiased one, as in torch.
        let unbiased = rows / (rows - 1.0).max(1.0);
        let part = self.momentum;
        let mix =
            |old: &mut T, new: f64| *old = T::from_f64((1.0 - part) * old.to_f64() + part * new);
        self.mean.iter_mut().zip(mean).for_each(|(old, new)| mix(old, new.to_f64()));
        let variances = self.variance.iter_mut().zip(variance);
        variances.for_each(|(old, new)| mix(old, unbiased * new.to_f64()));
    }
}
