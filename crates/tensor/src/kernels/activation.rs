//! Elementwise nonlinearities with their slopes.

use crate::{MatMut, MatRef, Scalar, parallel};

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

    /// `y += weight f(x)`.
    ///
    /// # Panics
    /// If the shapes differ.
    #[track_caller]
    pub fn add_weighted(self, weight: T, x: MatRef<'_, T>, y: MatMut<'_, T>) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "input and output of an activation");
        let block = parallel::ROW_BLOCK;
        parallel::for_each(y.row_blocks(block), |k, mut y| {
            for i in 0..y.rows() {
                let (x, y) = (x.row(k * block + i), y.row_mut(i));
                // One loop for each cheap function, so that it has no branch inside.
                match self {
                    Self::Identity => add_row(weight, x, y, |x| x),
                    Self::Leaky { slope } => add_row(weight, x, y, |x| leaky(slope, x)),
                    other => add_row(weight, x, y, |x| other.value(x)),
                }
            }
        });
    }

    /// The gradients of [`Self::add_weighted`]: writes `dx = weight dy f'(x)`, and returns those
    /// of the weight and of a slope below zero.
    ///
    /// # Panics
    /// If the shapes differ.
    #[track_caller]
    pub fn back_weighted(
        self,
        weight: T,
        x: MatRef<'_, T>,
        dy: MatRef<'_, T>,
        dx: MatMut<'_, T>,
    ) -> WeightedSums {
        assert_eq!((x.rows(), x.cols()), (dy.rows(), dy.cols()), "input and gradient");
        assert_eq!((x.rows(), x.cols()), (dx.rows(), dx.cols()), "input and its gradient");
        let block = parallel::ROW_BLOCK;
        let parts = parallel::map(dx.row_blocks(block), |k, mut dx| {
            let mut sums = WeightedSums::default();
            for i in 0..dx.rows() {
                let rows = (x.row(k * block + i), dy.row(k * block + i), dx.row_mut(i));
                // As above.
                let row = match self {
                    Self::Identity => back_row(weight, rows, |x| (x, T::ONE)),
                    Self::Leaky { slope } => {
                        back_row(weight, rows, |x| (leaky(slope, x), leaky_slope(slope, x)))
                    }
                    other => back_row(weight, rows, |x| (other.value(x), other.slope(x))),
                };
                sums.weight += row.weight;
                sums.slope += row.slope;
            }
            sums
        });
        parts.into_iter().fold(WeightedSums::default(), |a, b| WeightedSums {
            weight: a.weight + b.weight,
            slope: a.slope + b.slope,
        })
    }
}

/// Gradients of the two numbers in `weight f(x)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedSums {
    /// With respect to the weight: `Σ dy f(x)`.
    pub weight: f64,
    /// With respect to the slope of [`Activation::Leaky`]: `Σ weight dy min(x, 0)`.
    pub slope: f64,
}

/// `y += weight f(x)` for one row.
#[inline(always)]
fn add_row<T: Scalar>(weight: T, x: &[T], y: &mut [T], f: impl Fn(T) -> T) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y += weight * f(x));
}

/// The gradients of [`add_row`], given value and slope of `f`; sums in a fixed number of lanes.
#[inline(always)]
fn back_row<T: Scalar>(
    weight: T,
    (x, dy, dx): (&[T], &[T], &mut [T]),
    f: impl Fn(T) -> (T, T),
) -> WeightedSums {
    const LANES: usize = 16;
    let (mut by_value, mut below) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    let mut step = |lane: usize, x: T, dy: T, dx: &mut T| {
        let (value, slope) = f(x);
        by_value[lane] += dy * value;
        below[lane] += dy * if x > T::ZERO { T::ZERO } else { x };
        *dx = weight * dy * slope;
    };
    let whole = x.len() - x.len() % LANES;
    for at in (0..whole).step_by(LANES) {
        let (x, dy) = (&x[at..at + LANES], &dy[at..at + LANES]);
        let dx = &mut dx[at..at + LANES];
        for lane in 0..LANES {
            step(lane, x[lane], dy[lane], &mut dx[lane]);
        }
    }
    for at in whole..x.len() {
        step(at - whole, x[at], dy[at], &mut dx[at]);
    }
    let total = |lanes: [T; LANES]| lanes.into_iter().sum::<T>();
    WeightedSums { weight: total(by_value).to_f64(), slope: (weight * total(below)).to_f64() }
}

fn leaky<T: Scalar>(slope: T, x: T) -> T {
    if x > T::ZERO { x } else { slope * x }
}

fn leaky_slope<T: Scalar>(slope: T, x: T) -> T {
    if x > T::ZERO { T::ONE } else { slope }
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
