//! Normalisations over a batch, and over the channels of a place.

use crate::step::{Back, Kept, NetTensor, Pass, Step, TensorUse};
use linwright_tensor::kernels::batch_norm::{
    column_moments, columns_backward, normalise_columns, normalise_rows, rows_backward,
};
use linwright_tensor::{Mat, Scalar};

/// Scale and shift of each channel.
#[derive(Clone, Debug)]
pub(crate) struct Affine<T> {
    pub(crate) name: String,
    pub(crate) scale: Vec<T>,
    pub(crate) shift: Vec<T>,
}

fn vector<'a, T>(name: &str, end: &str, values: &'a mut Vec<T>) -> NetTensor<'a, T> {
    let (shape, purpose) = (vec![values.len()], TensorUse::Vector);
    NetTensor { name: format!("{name}.{end}"), shape, values, purpose }
}

impl<T: Scalar> Affine<T> {
    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let Self { name, scale, shift } = self;
        vec![vector(name, "weight", scale), vector(name, "bias", shift)]
    }

    fn apply(&self, h: &mut Mat<T>) {
        for i in 0..h.rows() {
            for ((h, scale), shift) in h.row_mut(i).iter_mut().zip(&self.scale).zip(&self.shift) {
                *h = *h * *scale + *shift;
            }
        }
    }

    /// Turns the gradient of the output into that of the normalised numbers `h`.
    fn backward(&self, dy: &mut Mat<T>, h: &Mat<T>, grads: Option<&mut [Vec<T>]>) {
        if let Some([of_scale, of_shift, ..]) = grads {
            for i in 0..dy.rows() {
                for (j, (dy, h)) in dy.row(i).iter().zip(h.row(i)).enumerate() {
                    of_scale[j] += *dy * *h;
                    of_shift[j] += *dy;
                }
            }
        }
        for i in 0..dy.rows() {
            dy.row_mut(i).iter_mut().zip(&self.scale).for_each(|(dy, scale)| *dy *= *scale);
        }
    }
}

/// Normalisation of each channel: by the batch in training, by running statistics in use.
#[derive(Clone, Debug)]
pub(crate) struct BatchNorm<T> {
    pub(crate) affine: Affine<T>,
    pub(crate) mean: Vec<T>,
    pub(crate) variance: Vec<T>,
    pub(crate) eps: f64,
    pub(crate) momentum: f64,
}

impl<T: Scalar> Step<T> for BatchNorm<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let name = self.affine.name.clone();
        let statistics = [
            vector(&name, "running_mean", &mut self.mean),
            vector(&name, "running_var", &mut self.variance),
        ];
        let statistics =
            statistics.map(|tensor| NetTensor { purpose: TensorUse::Statistic, ..tensor });
        let mut tensors = self.affine.tensors_mut();
        tensors.extend(statistics);
        tensors
    }

    fn other_parameters(&self) -> usize {
        2 * self.mean.len()
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let training = pass.training.is_some();
        let (mean, variance) = match training {
            true => column_moments(x.view()),
            false => (self.mean.clone(), self.variance.clone()),
        };
        let scale = |v: &T| T::from_f64(1.0 / (v.to_f64() + self.eps).sqrt());
        let scales: Vec<T> = variance.iter().map(scale).collect();
        normalise_columns(&mut x, &mean, &scales);
        let mats = if pass.keep { vec![x.clone()] } else { Vec::new() };
        self.affine.apply(&mut x);
        let vectors = if training { vec![scales, mean, variance] } else { vec![scales] };
        (x, Kept { mats, vectors, ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let (h, scales) = (&kept.mats[0], &kept.vectors[0]);
        self.affine.backward(&mut dy, h, back.grads.as_deref_mut());
        if kept.vectors.len() > 1 {
            columns_backward(h.view(), scales, &mut dy);
        } else {
            for i in 0..dy.rows() {
                dy.row_mut(i).iter_mut().zip(scales).for_each(|(dy, scale)| *dy *= *scale);
            }
        }
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

/// Normalisation of the channels of each place.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm<T> {
    pub(crate) affine: Option<Affine<T>>,
    pub(crate) eps: f64,
}

impl<T: Scalar> Step<T> for LayerNorm<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        self.affine.as_mut().map_or_else(Vec::new, Affine::tensors_mut)
    }

    fn other_parameters(&self) -> usize {
        self.affine.as_ref().map_or(0, |affine| 2 * affine.scale.len())
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let vectors = vec![normalise_rows(&mut x, self.eps)];
        let mats = if pass.keep { vec![x.clone()] } else { Vec::new() };
        if let Some(affine) = &self.affine {
            affine.apply(&mut x);
        }
        (x, Kept { mats, vectors, ..Kept::default() })
    }

    fn backward(&self, mut dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let h = &kept.mats[0];
        if let Some(affine) = &self.affine {
            affine.backward(&mut dy, h, back.grads.as_deref_mut());
        }
        rows_backward(h.view(), &kept.vectors[0], &mut dy);
        dy
    }
}
