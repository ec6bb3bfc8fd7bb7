//! The list of operators. A new one is a file here and a line of the list below.

use crate::{LinearOp, Map, Op, OpError, Shape, Structured};
use linwright_tensor::{RngKey, Scalar};
use serde::{Deserialize, Serialize};

/// Most numbers of one operator: those of a dense 32,768 x 32,768 weight.
pub const MAX_NUMBERS: u64 = 1 << 30;

/// Wraps a linear operator.
fn linear<T: Scalar>(op: impl LinearOp<T> + 'static) -> Op<T> {
    Op::Linear(Box::new(op))
}

/// Wraps a map with a nonlinearity.
fn map<T: Scalar>(op: impl Map<T> + 'static) -> Op<T> {
    Op::Map(Box::new(op))
}

macro_rules! operators {
    ($($module:ident => $name:ident, $class:ident;)*) => {
        $(mod $module; pub use $module::*;)*

        /// All that is needed to rebuild an operator, its parameters apart.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum OpSpec {
            $(#[doc = concat!("See [`", stringify!($name), "`].")]
            $name(<$name<f32> as Structured<f32>>::Spec),)*
        }

        impl OpSpec {
            /// Every kind, in the order of the list.
            pub const KINDS: &'static [&'static str] = &[$(<$name<f32> as Structured<f32>>::KIND),*];

            /// The tag of this kind.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => <$name<f32> as Structured<f32>>::KIND,)*
                }
            }

            /// See [`Structured::numbers`].
            #[must_use]
            pub fn numbers(&self, shape: Shape) -> u64 {
                match self {
                    $(Self::$name(spec) => <$name<f32> as Structured<f32>>::numbers(spec, shape),)*
                }
            }

            /// An operator with random parameters, drawn as its source draws them.
            ///
            /// # Errors
            /// [`OpError::Unsupported`] if the kind does not exist for this shape and options, or
            /// would hold more than [`MAX_NUMBERS`].
            pub fn random<T: Scalar>(&self, shape: Shape, key: RngKey) -> Result<Op<T>, OpError> {
                let numbers = self.numbers(shape);
                if numbers > MAX_NUMBERS {
                    let reason = format!("it would hold {numbers} numbers, at most {MAX_NUMBERS} are possible");
                    return Err(OpError::Unsupported { kind: self.kind(), shape, reason });
                }
                match self {
                    $(Self::$name(spec) => {
                        <$name<T> as Structured<T>>::random(spec, shape, key).map($class)
                    })*
                }
            }

            /// Small cases of every kind, for the conformance suite.
            #[must_use]
            pub fn examples() -> Vec<(Self, Shape)> {
                let mut all = Vec::new();
                $(all.extend(
                    <$name<f32> as Structured<f32>>::examples()
                        .into_iter()
                        .map(|(spec, shape)| (Self::$name(spec), shape)),
                );)*
                all
            }
        }
    };
}

mod circulant_parameters;
mod rotor_chunks;
mod rotor_layer;
#[cfg(test)]
mod rotor_oracle;
mod rotor_planes;

pub use rotor_planes::{RotorPlane, rotor_planes};

operators! {
    dense => Dense, linear;
    low_rank => LowRank, linear;
    block_hadamard => BlockHadamard, linear;
    circulant_diagonal => CirculantDiagonal, linear;
    rotor => Rotor, linear;
    rotor_network => RotorNetwork, map;
}
