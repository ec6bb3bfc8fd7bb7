//! The numbers of an example as channels of one position.

use super::Layer;
use crate::build::Builder;
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::channels::{channels_first, channels_last};
use linwright_tensor::{Mat, Scalar};

/// Turns positions into channels: channel, row, column.
pub(super) struct Flatten;

impl Layer for Flatten {
    fn output(&self, input: Extent, _chain: &mut Chain) -> Result<Extent, NetError> {
        Ok(Extent { height: 1, width: 1, channels: input.numbers() })
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        builder.push(FlattenStep { places: builder.extent.places() });
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct FlattenStep {
    places: usize,
}

impl<T: Scalar> Step<T> for FlattenStep {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        if self.places == 1 {
            return (x, Kept::default());
        }
        let mut y = pass.ws.take(x.rows() / self.places, self.places * x.cols());
        channels_first(x.view(), y.view_mut());
        pass.ws.give(x);
        (y, Kept::default())
    }

    fn backward(&self, dy: Mat<T>, _kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        if self.places == 1 {
            return dy;
        }
        let mut dx = back.ws.take(dy.rows() * self.places, dy.cols() / self.places);
        channels_last(dy.view(), dx.view_mut());
        back.ws.give(dy);
        dx
    }
}
