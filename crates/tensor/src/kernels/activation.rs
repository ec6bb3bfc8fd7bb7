//! Elementwise nonlinearities with their slopes.

use crate::Scalar;

/// A nonlinearity, with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation<T> {
    /// `x`.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `x` above zero, `slope · x` below: leaky ReLU, and PReLU with a trained slope.
    Leaky {
        /// Slope below zero.
        slope: T,
    },
    /// `x Φ(x)` with the normal distribution function `Φ`, exactly (by erf).
    Gelu,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x` above zero, `exp(x) - 1` below.
    Elu,
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
            Self::Leaky { slope } => {
                if x > T::ZERO {
                    x
                } else {
                    slope * x
                }
            }
            Self::Gelu => x * normal_distribution(x),
            Self::Silu => x * sigmoid(x),
            Self::Elu => {
                if x > T::ZERO {
                    x
                } else {
                    T::from_f64(libm::expm1(x.to_f64()))
                }
            }
        }
    }

    /// Derivative at `x`; at a kink, that from below, as PyTorch has it.
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
            Self::Silu => {
                let s = sigmoid(x);
                s * (T::ONE + x * (T::ONE - s))
            }
            Self::Elu => {
                if x > T::ZERO {
                    T::ONE
                } else {
                    x.exp()
                }
            }
        }
    }
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
            Activation::Gelu,
            Activation::Silu,
            Activation::Elu,
        ];
        for f in all {
            for x in [-6.0f64, -1.3, -0.2, 0.4, 2.0, 7.0] {
                let slope = (f.value(x + 1e-5) - f.value(x - 1e-5)) / 2e-5;
                assert!((slope - f.slope(x)).abs() < 1e-9, "{f:?} at {x}");
            }
        }
        assert!((Activation::Gelu.value(1.0f64) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((Activation::Silu.value(1.0f64) - 0.731_058_578_630_004_9).abs() < 1e-15);
    }
}
