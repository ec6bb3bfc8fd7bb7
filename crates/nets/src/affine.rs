//! Scale and shift of each channel, after a normalisation.

use crate::step::{NetTensor, TensorUse};
use linwright_tensor::kernels::batch_norm::{
    column_dots, column_sums, scale_and_shift, scale_columns,
};
use linwright_tensor::{Mat, Scalar};

/// Scale and shift of each channel.
#[derive(Clone, Debug)]
pub(crate) struct Affine<T> {
    pub(crate) name: String,
    pub(crate) scale: Vec<T>,
    pub(crate) shift: Vec<T>,
}

impl<T: Scalar> Affine<T> {
    pub(crate) fn vectors(&self) -> Vec<(String, &[T])> {
        let Self { name, scale, shift } = self;
        vec![(format!("{name}.weight"), scale), (format!("{name}.bias"), shift)]
    }

    pub(crate) fn vectors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let Self { name, scale, shift } = self;
        vec![
            NetTensor::vector(format!("{name}.weight"), scale, TensorUse::Vector),
            NetTensor::vector(format!("{name}.bias"), shift, TensorUse::Vector),
        ]
    }

    pub(crate) fn apply(&self, h: &mut Mat<T>) {
        scale_and_shift(h.view_mut(), &self.scale, &self.shift);
    }

    /// Turns the gradient of the output into that of the normalised numbers `h`; overwrites those
    /// of scale and shift.
    pub(crate) fn backward(&self, dy: &mut Mat<T>, h: &Mat<T>, grads: Option<&mut [Vec<T>]>) {
        if let Some([of_scale, of_shift, ..]) = grads {
            let rounded = |sums: Vec<f64>| sums.into_iter().map(T::from_f64).collect();
            *of_scale = rounded(column_dots(dy.view(), h.view()));
            *of_shift = rounded(column_sums(dy.view()));
        }
        scale_columns(dy.view_mut(), &self.scale);
    }
}
