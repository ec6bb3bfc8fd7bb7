//! Nonlinearities of each number.

use super::Layer;
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::activation::{Activation, activate_any, activate_any_backward};
use linwright_tensor::{Mat, Scalar};

/// A nonlinearity.
pub(super) struct Activate(pub(super) Activation<f64>);

impl Layer for Activate {
    fn output(&self, input: Extent, _chain: &mut Chain) -> Result<Extent, NetError> {
        Ok(input)
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        builder.push(ActivateStep(self.0.cast()));
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct ActivateStep<T>(Activation<T>);

impl<T: Scalar> Step<T> for ActivateStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let mut y = pass.ws.take(x.rows(), x.cols());
        activate_any(self.0, x.view(), y.view_mut());
        if pass.keeps() {
            return (y, Kept::of(x));
        }
        pass.ws.give(x);
        (y, Kept::default())
    }

    fn backward(&self, dy: Mat<T>, mut kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let mut x = kept.mats.remove(0);
        activate_any_backward(self.0, x.view_mut(), dy.view());
        back.ws.give(dy);
        x
    }
}
