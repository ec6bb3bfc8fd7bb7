//! The nonlinearities of [`Activation`](super::nonlinearity::Activation) on `f32`, each its own
//! type, so that a loop over one of them has no branches and vectorises.

use super::functions::{exp_less_one, normal, sigmoid, tanh};
use super::lanes::multiply_add;

/// A branch-free nonlinearity.
pub(super) trait Curve: Copy + Send + Sync {
    /// Value and derivative at `x`; at a kink the left one.
    fn both<const FUSED: bool>(self, x: f32) -> (f32, f32);

    /// Value at `x`.
    #[inline(always)]
    fn value<const FUSED: bool>(self, x: f32) -> f32 {
        // After inlining, code for the unused derivative is eliminated.
        self.both::<FUSED>(x).0
    }
}

/// A curve without constants, by its value and derivative.
macro_rules! curve {
    ($name:ident, $fused:ident, |$x:ident| $both:expr) => {
        #[derive(Clone, Copy)]
        pub(super) struct $name;

        impl Curve for $name {
            #[inline(always)]
            fn both<const $fused: bool>(self, $x: f32) -> (f32, f32) {
                $both
            }
        }
    };
}

curve!(Identity, FUSED, |x| (x, 1.0));

curve!(Relu, FUSED, |x| (above_zero(x), if x > 0.0 { 1.0 } else { 0.0 }));

curve!(ReluSquared, FUSED, |x| {
    let above = above_zero(x);
    (above * above, 2.0 * above)
});

curve!(Tanh, FUSED, |x| tanh::<FUSED>(x));

curve!(Gelu, FUSED, |x| {
    let (below, density) = normal::<FUSED>(x);
    (x * below, multiply_add::<FUSED>(x, density, below))
});

curve!(GeluTanh, FUSED, |x| {
    /// `2 sqrt(2 / pi)`: with `tanh(u) = 2 sigmoid(2u) - 1` the curve is `x sigmoid(2u)`.
    const TWICE: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    /// Here the sigmoid has long reached 0 and 1, and the cube is far from overflow.
    const FAR: f32 = 16.0;
    let near = if x > FAR { FAR } else { x };
    let near = if near < -FAR { -FAR } else { near };
    let square = near * near;
    let u = TWICE * near * multiply_add::<FUSED>(CUBIC, square, 1.0);
    let slope_of_u = TWICE * multiply_add::<FUSED>(3.0 * CUBIC, square, 1.0);
    times_sigmoid::<FUSED>(x, u, near * slope_of_u)
});

curve!(QuickGelu, FUSED, |x| {
    let u = 1.702 * x;
    times_sigmoid::<FUSED>(x, u, u)
});

curve!(Silu, FUSED, |x| times_sigmoid::<FUSED>(x, x, x));

curve!(Elu, FUSED, |x| {
    let (less_one, power) = exp_less_one::<FUSED>(if x > 0.0 { 0.0 } else { x });
    if x > 0.0 { (x, 1.0) } else { (less_one, power) }
});

/// `x` above zero, `slope x` below.
#[derive(Clone, Copy)]
pub(super) struct Leaky {
    pub(super) slope: f32,
}

impl Curve for Leaky {
    #[inline(always)]
    fn both<const FUSED: bool>(self, x: f32) -> (f32, f32) {
        if x > 0.0 { (x, 1.0) } else { (self.slope * x, self.slope) }
    }
}

/// `x sigmoid(u)` and its derivative, given `x du/dx`.
#[inline(always)]
fn times_sigmoid<const FUSED: bool>(x: f32, u: f32, x_slope_of_u: f32) -> (f32, f32) {
    let (share, other) = sigmoid::<FUSED>(u);
    (x * share, multiply_add::<FUSED>(x_slope_of_u * share, other, share))
}

/// `max(x, 0)`; NaN stays.
#[inline(always)]
fn above_zero(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::activation::Activation;

    /// Error of a value beside what it may be: the largest of it over the grid is below one.
    const TOLERANCE: f64 = 8e-7;

    fn check<const FUSED: bool>(curve: impl Curve, twin: Activation<f64>) {
        for step in -40_000..=40_000 {
            let x = step as f32 * 5.1e-4;
            let (value, slope) = curve.both::<FUSED>(x);
            assert_eq!(value, curve.value::<FUSED>(x), "{twin:?} at {x}");
            let want = twin.value(f64::from(x));
            let error = (f64::from(value) - want).abs();
            // Relative to the value itself: tails keep their digits. Two lose some, as their
            // sigmoid's argument is a rounded cubic or a rounded multiple of x.
            let share = if twin == Activation::GeluTanh {
                2e-5
            } else if twin == Activation::QuickGelu {
                4e-6
            } else {
                TOLERANCE
            };
            assert!(error <= share * want.abs() + 1e-30, "{twin:?} at {x}: {value}, not {want}");
            let error = (f64::from(slope) - twin.slope(f64::from(x))).abs();
            assert!(error < TOLERANCE, "slope of {twin:?} at {x}: off by {error}");
        }
        for far in [1e4, 1e30] {
            let ends = [curve.both::<FUSED>(far), curve.both::<FUSED>(-far)];
            assert!(!ends.iter().any(|(v, s)| v.is_nan() || s.is_nan()), "{twin:?}: {ends:?}");
        }
        if twin != Activation::Identity {
            assert!(curve.value::<FUSED>(f32::NAN).is_nan(), "{twin:?} hides a NaN");
        }
    }

    #[test]
    fn every_curve_equals_its_twin_in_f64() {
        macro_rules! each {
            ($($name:ident),*) => {
                $(
                    check::<false>($name, Activation::$name);
                    check::<true>($name, Activation::$name);
                )*
            };
        }
        each!(Identity, Relu, ReluSquared, Gelu, GeluTanh, QuickGelu, Silu, Elu);
        check::<true>(Leaky { slope: 0.25 }, Activation::Leaky { slope: 0.25 });
        check::<false>(Leaky { slope: 0.25 }, Activation::Leaky { slope: 0.25 });
    }
}
