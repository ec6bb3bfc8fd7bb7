//! Dropout.

use super::Layer;
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::elementwise::multiply;
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// In training, sets a random share of the numbers, drawn with the key of the step, to zero and
/// scales up the others. Otherwise it does nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// The share.
    pub share: f64,
}

impl Layer for Dropout {
    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        chain.below("share", self.share, 1.0).map(|()| input)
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        builder.push(DropoutStep { share: self.share });
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct DropoutStep {
    share: f64,
}

impl<T: Scalar> Step<T> for DropoutStep {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, mut x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let Some(key) = pass.training else {
            return (x, Kept::default());
        };
        let (mut stream, scale) = (key.stream(), T::from_f64(1.0 / (1.0 - self.share)));
        let mut mask = pass.ws.take(x.rows(), x.cols());
        for factor in mask.data_mut() {
            *factor = if stream.uniform() < self.share { T::ZERO } else { scale };
        }
        multiply(x.view_mut(), mask.view());
        (x, Kept::of(mask))
    }

    fn backward(&self, mut dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        if let Some(mask) = kept.mats.first() {
            multiply(dy.view_mut(), mask.view());
        }
        kept.release(back.ws);
        dy
    }
}
