//! Kinds of layers, one file each: a description and the step that computes it; `sequence` runs
//! through a list of them.

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod conv_dense;
mod dropout;
mod flatten;
mod layer_norm;
mod linear;
mod pool;
mod residual;
mod sequence;

pub use attention::Attention;
pub use batch_norm::BatchNorm;
pub use conv::Conv;
pub use dropout::Dropout;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use pool::{MaxPool, MeanPool};
pub use residual::Residual;

use crate::build::Builder;
use crate::chain::Chain;
use crate::{Extent, NetError};
use activation::Activate;
use flatten::Flatten;
use linwright_tensor::Scalar;
use linwright_tensor::kernels::activation::Activation;
use serde::{Deserialize, Serialize};

/// Default of serde.
pub(crate) fn one() -> usize {
    1
}

/// Default of serde.
fn yes() -> bool {
    true
}

/// The description of a layer of any kind.
trait Layer {
    /// Its name, if it has tensors.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The extent of its output.
    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError>;

    /// Adds its steps.
    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError>;
}

/// The kinds of layers; those without options are written as their name.
macro_rules! layers {
    (
        plain { $($(#[$plain_doc:meta])* $plain:ident = $value:expr,)* }
        options { $($(#[$doc:meta])* $kind:ident,)* }
    ) => {
        /// One layer.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum LayerSpec {
            $($(#[$plain_doc])* $plain,)*
            $($(#[$doc])* $kind($kind),)*
        }

        impl LayerSpec {
            /// Its name, if it has tensors.
            #[must_use]
            pub fn name(&self) -> Option<&str> {
                match self {
                    $(Self::$plain => None,)*
                    $(Self::$kind(layer) => layer.name(),)*
                }
            }

            pub(crate) fn output(
                &self,
                input: Extent,
                chain: &mut Chain,
            ) -> Result<Extent, NetError> {
                match self {
                    $(Self::$plain => $value.output(input, chain),)*
                    $(Self::$kind(layer) => layer.output(input, chain),)*
                }
            }

            pub(crate) fn build<T: Scalar>(
                &self,
                builder: &mut Builder<'_, T>,
            ) -> Result<(), NetError> {
                match self {
                    $(Self::$plain => $value.build(builder),)*
                    $(Self::$kind(layer) => layer.build(builder),)*
                }
            }
        }
    };
}

layers! {
    plain {
        /// `max(x, 0)`.
        Relu = Activate(Activation::Relu),
        /// The exact `gelu`.
        Gelu = Activate(Activation::Gelu),
        /// `x / (1 + exp(-x))`.
        Silu = Activate(Activation::Silu),
        /// Hyperbolic tangent.
        Tanh = Activate(Activation::Tanh),
        /// All numbers of an example as channels of one position, in the order channel, row,
        /// column.
        Flatten = Flatten,
    }
    options {
        /// A linear map of the channels of each position.
        Linear,
        /// A convolution: a linear map of the patch around each position.
        Conv,
        /// Batch normalisation of each channel.
        BatchNorm,
        /// Normalisation over the channels of each position.
        LayerNorm,
        /// The sum of its input and the output of its layers.
        Residual,
        /// The maximum of each channel in windows.
        MaxPool,
        /// The mean of each channel in windows.
        MeanPool,
        /// Attention between the positions of an example.
        Attention,
        /// In training, zeros for a random share of the numbers.
        Dropout,
    }
}
