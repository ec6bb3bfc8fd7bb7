//! Operators with an inverse and a determinant.
//!
//! A square weight W maps rows, `y = W x`. An operator that can solve this for x, and knows
//! `log|det W|`, can be a layer of a normalizing flow: both are computed from its parameters,
//! without the dense weight.

use crate::{Backward, Grads, Map, OpError, Tape, Workspace};
use linwright_tensor::kernels::elementwise::scale as scale_numbers;
use linwright_tensor::{Mat, MatMut, MatRef, Scalar};

/// Determinant of a weight, as log-magnitude and sign: the determinant itself overflows for a few
/// hundred features.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogDet {
    /// `log|det W|`, natural, finite.
    pub log_abs: f64,
    /// 1 or -1.
    pub sign: f64,
}

/// An invertible linear map, obtained by [`Map::invertible`].
pub trait Invertible<T: Scalar>: Map<T> {
    /// Maps the rows of `y` (rows, features) to the `x` (rows, features) with `W x = y`.
    ///
    /// # Errors
    /// [`OpError::Singular`] with the singular part of the operator; the contents of `x` are then
    /// unspecified.
    ///
    /// # Panics
    /// If the shapes do not match.
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<(), OpError>;

    /// `W⁻¹` (features, features), the same map as [`Self::inverse`]. By default the inverse of the
    /// unit vectors.
    ///
    /// # Errors
    /// [`OpError::Singular`] as for [`Self::inverse`].
    fn inverse_dense(&self) -> Result<Mat<T>, OpError> {
        let features = self.shape().inp;
        let mut columns = Mat::zeros(features, features);
        let units = Mat::identity(features);
        self.inverse(units.view(), columns.view_mut(), &mut Workspace::default())?;
        Ok(columns.transpose())
    }

    /// The determinant of W, accumulated in `f64` for parameters of any precision.
    ///
    /// # Errors
    /// [`OpError::Singular`] as for [`Self::inverse`].
    fn log_abs_det(&self) -> Result<LogDet, OpError>;

    /// Adds `scale` times the gradients of `log|det W|` to `grads`. By default those of the map of
    /// unit vectors, at `W⁻ᵀ`, the gradient of `log|det W|` with respect to W.
    ///
    /// # Errors
    /// [`OpError::Singular`] as for [`Self::inverse`].
    fn log_det_backward(&self, scale: f64, grads: &mut Grads<T>) -> Result<(), OpError> {
        let (mut dy, features) = (self.inverse_dense()?, self.shape().inp);
        scale_numbers(dy.view_mut(), T::from_f64(scale));
        let (mut y, mut tape) = (Mat::zeros(features, features), Tape::default());
        let (units, mut ws) = (Mat::identity(features), Workspace::default());
        self.forward(units.view(), y.view_mut(), Some(&mut tape), &mut ws);
        let (x, dy, grads) = (units.view(), dy.view(), Some(grads));
        self.backward(Backward { x, dy, tape: &tape, dx: None, grads }, &mut ws);
        Ok(())
    }
}
