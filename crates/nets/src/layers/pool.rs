//! Pooling.

use super::Layer;
use crate::build::Builder;
use crate::chain::Chain;
use crate::extent::Windows;
use crate::step::{Back, Kept, Pass, Step};
use crate::{Extent, NetError};
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::kernels::pooling::{
    max_pool, max_pool_backward, mean_pool, mean_pool_backward,
};
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident: $max:literal,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                /// Side of a window.
                pub size: usize,
                /// Distance between windows; the side by default.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub stride: Option<usize>,
            }

            impl Layer for $name {
                fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
                    let (size, stride) = (self.size, self.stride.unwrap_or(self.size));
                    Windows { size, stride, padding: 0 }.over(input, chain.label())
                }

                fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
                    let Extent { height, width, .. } = builder.extent;
                    let (size, stride) = (self.size, self.stride.unwrap_or(self.size));
                    let windows = Patches { height, width, size, stride, padding: 0 };
                    builder.push(PoolStep { windows, max: $max });
                    Ok(())
                }
            }
        )*
    };
}

pools! {
    /// The maximum of each channel in windows.
    MaxPool: true,
    /// The mean of each channel in windows.
    MeanPool: false,
}

/// The maximum or the mean of each channel in windows.
#[derive(Clone, Debug)]
struct PoolStep {
    windows: Patches,
    max: bool,
}

impl PoolStep {
    /// Positions and windows of an image.
    fn counts(&self) -> [usize; 2] {
        let (down, across) = self.windows.windows();
        [self.windows.height * self.windows.width, down * across]
    }
}

impl<T: Scalar> Step<T> for PoolStep {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let [places, windows] = self.counts();
        let mut y = pass.ws.take(x.rows() / places * windows, x.cols());
        let mut kept = Kept::default();
        match self.max {
            true => kept.picks = max_pool(&self.windows, x.view(), y.view_mut()),
            false => mean_pool(&self.windows, x.view(), y.view_mut()),
        }
        pass.ws.give(x);
        (y, kept)
    }

    fn backward(&self, dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let [places, windows] = self.counts();
        let mut dx = back.ws.take(dy.rows() / windows * places, dy.cols());
        match self.max {
            true => max_pool_backward(&self.windows, &kept.picks, dy.view(), dx.view_mut()),
            false => mean_pool_backward(&self.windows, dy.view(), dx.view_mut()),
        }
        back.ws.give(dy);
        dx
    }
}
