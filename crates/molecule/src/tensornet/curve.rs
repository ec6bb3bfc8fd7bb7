//! Nonlinearities with two derivatives.

use super::config::Nonlinearity;
use super::number::{Number, Rows};
use linwright_tensor::Scalar;
use linwright_tensor::kernels::irreps::jets;

/// Value, slope and curvature of a nonlinearity.
pub(crate) fn curve<T: Scalar>(kind: Nonlinearity, x: T) -> [T; 3] {
    let (one, two) = (T::ONE, T::from_f64(2.0));
    // e^-|x| cannot overflow.
    let small = (-x.abs()).exp();
    let above = one / (one + small);
    let (s, rest) = if x < T::ZERO { (small * above, above) } else { (above, small * above) };
    let bend = s * rest;
    match kind {
        Nonlinearity::Silu => {
            let turn = x * (one - two * s);
            [x * s, s + x * bend, bend * (two + turn)]
        }
        Nonlinearity::Sigmoid => [s, bend, bend * (one - two * s)],
        Nonlinearity::Ssp => [softplus(x, small) - T::from_f64(std::f64::consts::LN_2), s, bend],
        Nonlinearity::Tanh => {
            let t = tanh_of_positive(x.abs());
            let t = if x < T::ZERO { -t } else { t };
            let slope = one - t * t;
            [t, slope, -two * t * slope]
        }
        Nonlinearity::Mish => {
            let t = tanh_of_positive(softplus(x, small));
            let slope = one - t * t;
            let first = slope * s;
            let second = slope * (bend - two * t * s * s);
            [x * t, t + x * first, two * first + x * second]
        }
    }
}

/// `log(1 + e^x)` from `e^-|x|`.
fn softplus<T: Scalar>(x: T, small: T) -> T {
    let above = if x > T::ZERO { x } else { T::ZERO };
    above + T::from_f64(small.to_f64().ln_1p())
}

/// `tanh x` for x >= 0.
fn tanh_of_positive<T: Scalar>(x: T) -> T {
    T::from_f64(x.to_f64().tanh())
}

/// The nonlinearity of every number.
pub(crate) fn activated<N: Number>(kind: Nonlinearity, x: &Rows<N>) -> Rows<N> {
    let mut y = Rows::unset(x.rows(), x.cols());
    match kind {
        Nonlinearity::Silu => jets::silu(x.jets(), y.jets_mut()),
        Nonlinearity::Ssp | Nonlinearity::Tanh | Nonlinearity::Sigmoid | Nonlinearity::Mish => {
            jets::curve(|x| curve(kind, x), x.jets(), y.jets_mut());
        }
    }
    y
}

/// Overwrites the gradient of [`activated`]'s result by that of `x`.
pub(crate) fn through_activation<N: Number>(kind: Nonlinearity, x: &Rows<N>, dy: &mut Rows<N>) {
    match kind {
        Nonlinearity::Silu => jets::silu_backward(x.jets(), dy.jets_mut()),
        Nonlinearity::Ssp | Nonlinearity::Tanh | Nonlinearity::Sigmoid | Nonlinearity::Mish => {
            jets::curve_backward(|x| curve(kind, x), x.jets(), dy.jets_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_and_curvatures_equal_differences() {
        use Nonlinearity::{Mish, Sigmoid, Silu, Ssp, Tanh};
        for kind in [Silu, Ssp, Tanh, Sigmoid, Mish] {
            for k in -20..=20 {
                let (x, h) = (f64::from(k) * 0.37, 1e-5);
                let [below, at, above] = [x - h, x, x + h].map(|x| curve(kind, x));
                for order in 0..2 {
                    let want = (above[order] - below[order]) / (2.0 * h);
                    assert!((at[order + 1] - want).abs() < 1e-8, "{kind:?} {order} at {x}");
                }
            }
        }
        assert_eq!(curve(Silu, -1000.0_f64), [-0.0, 0.0, 0.0]);
    }
}
