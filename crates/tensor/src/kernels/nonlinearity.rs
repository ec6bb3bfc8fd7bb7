//! Elementwise nonlinearities with their slopes, one number at a time.
//!
//! The methods here compute through libm; matrices of `f32` use
//! [`feed_forward`](super::feed_forward), whose tests take these methods as naive twins.

use crate::Scalar;

/// A nonlinearity, with its constants.
///
/// Sources: GELU and its tanh form from Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2;
/// squared ReLU from So et al. 2021, arXiv:2109.08668.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation<T> {
    /// `x`.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `x` above zero, `slope · x` below: leaky ReLU, and PReLU with a trained slope.
    Leaky {
        /// Slope below zero.
        slope: T,
    },
    /// `x Φ(x)` with the normal distribution function `Φ`, exact (through erf).
    Gelu,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2`: what checkpoints call `gelu_new`,
    /// `gelu_pytorch_tanh` and `gelu_fast`.
    GeluTanh,
    /// `x / (1 + exp(-1.702 x))`.
    QuickGelu,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x` above zero, `exp(x) - 1` below.
    Elu,
    /// Hyperbolic tangent.
    Tanh,
}

impl<T: Scalar> Activation<T> {
    /// Value at `x`.
    #[inline]
    pub fn value(self, x: T) -> T {
        match self {
            Self::Identity => x,
            Self::Relu => {
                if x > T::ZERO {
                    x
                } else {
                    T::ZERO
                }
            }
            Self::ReluSquared => {
                let above = Self::Relu.value(x);
                above * above
            }
            Self::Leaky { slope } => {
                if x > T::ZERO {
                    x
                } else {
                    slope * x
                }
            }
            Self::Gelu => x * normal_distribution(x),
            Self::GeluTanh => x * sigmoid(gelu_tanh_argument(x).0),
            Self::QuickGelu => x * sigmoid(T::from_f64(QUICK) * x),
            Self::Silu => x * sigmoid(x),
            Self::Elu => {
                if x > T::ZERO {
                    x
                } else {
                    T::from_f64(libm::expm1(x.to_f64()))
                }
            }
            Self::Tanh => T::from_f64(libm::tanh(x.to_f64())),
        }
    }

    /// Derivative at `x`; at a kink the left one, as in PyTorch.
    #[inline]
    pub fn slope(self, x: T) -> T {
        match self {
            Self::Identity => T::ONE,
            Self::Relu => {
                if x > T::ZERO {
                    T::ONE
                } else {
                    T::ZERO
                }
            }
            Self::ReluSquared => Self::Relu.value(x) + Self::Relu.value(x),
            Self::Leaky { slope } => {
                if x > T::ZERO {
                    T::ONE
                } else {
                    slope
                }
            }
            Self::Gelu => {
                let density =
                    T::from_f64(0.398_942_280_401_432_7) * (T::from_f64(-0.5) * x * x).exp();
                normal_distribution(x) + x * density
            }
            Self::GeluTanh => {
                let (u, slope) = gelu_tanh_argument(x);
                times_sigmoid_slope(x, u, slope)
            }
            Self::QuickGelu => {
                let quick = T::from_f64(QUICK);
                times_sigmoid_slope(x, quick * x, quick)
            }
            Self::Silu => times_sigmoid_slope(x, x, T::ONE),
            Self::Elu => {
                if x > T::ZERO {
                    T::ONE
                } else {
                    x.exp()
                }
            }
            Self::Tanh => {
                let tanh = Self::Tanh.value(x);
                T::ONE - tanh * tanh
            }
        }
    }

    /// The same with constants of another scalar.
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Activation<U> {
        match self {
            Self::Identity => Activation::Identity,
            Self::Relu => Activation::Relu,
            Self::ReluSquared => Activation::ReluSquared,
            Self::Leaky { slope } => Activation::Leaky { slope: U::from_f64(slope.to_f64()) },
            Self::Gelu => Activation::Gelu,
            Self::GeluTanh => Activation::GeluTanh,
            Self::QuickGelu => Activation::QuickGelu,
            Self::Silu => Activation::Silu,
            Self::Elu => Activation::Elu,
            Self::Tanh => Activation::Tanh,
        }
    }
}

/// Factor in the sigmoid of [`Activation::QuickGelu`].
const QUICK: f64 = 1.702;

/// Twice the argument of the tanh of [`Activation::GeluTanh`], and its derivative:
/// `(1 + tanh(u)) / 2` is `sigmoid(2u)`.
fn gelu_tanh_argument<T: Scalar>(x: T) -> (T, T) {
    let twice = T::from_f64(2.0 * (2.0 / std::f64::consts::PI).sqrt());
    let cubic = T::from_f64(0.044_715) * x * x;
    (twice * x * (T::ONE + cubic), twice * (T::ONE + cubic + cubic + cubic))
}

/// Derivative of `x sigmoid(u)`.
fn times_sigmoid_slope<T: Scalar>(x: T, u: T, slope_of_u: T) -> T {
    let s = sigmoid(u);
    s + x * s * (T::ONE - s) * slope_of_u
}

fn sigmoid<T: Scalar>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

fn normal_distribution<T: Scalar>(x: T) -> T {
    T::from_f64(0.5 * libm::erfc(-x.to_f64() * std::f64::consts::FRAC_1_SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_central_differences_and_values_are_known_ones() {
        let all = [
            Activation::Identity,
            Activation::Relu,
            Activation::Leaky { slope: 0.01 },
            Activation::ReluSquared,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::QuickGelu,
            Activation::Silu,
            Activation::Elu,
            Activation::Tanh,
        ];
        for f in all {
            for x in [-6.0f64, -1.3, -0.2, 0.4, 2.0, 7.0] {
                let slope = (f.value(x + 1e-5) - f.value(x - 1e-5)) / 2e-5;
                assert!((slope - f.slope(x)).abs() < 1e-9, "{f:?} at {x}");
            }
        }
        assert_eq!(Activation::Tanh.value(-0.5f64), (-0.5f64).tanh());
        assert!((Activation::Gelu.value(1.0f64) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((Activation::GeluTanh.value(1.0f64) - 0.841_191_990_608_276_8).abs() < 1e-15);
        assert!((Activation::QuickGelu.value(1.0f64) - 0.845_795_765_932_821_2).abs() < 1e-15);
        assert_eq!(Activation::ReluSquared.value(-3.0f64), 0.0);
        assert_eq!(Activation::ReluSquared.value(3.0f64), 9.0);
        assert!((Activation::Silu.value(1.0f64) - 0.731_058_578_630_004_9).abs() < 1e-15);
    }
}
