//! Nonlinearities of numbers with tangents, which take two derivatives; SiLU in registers.

use super::{Jets, JetsMut};
use crate::Scalar;
use crate::kernels::functions::sigmoid;
use crate::kernels::instructions::vectorised;
use crate::kernels::lanes::{each, multiply_add};
use std::any::TypeId;

/// `y = f(x)`, where `f` gives value, slope and curvature.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn curve<T: Scalar>(f: impl Fn(T) -> [T; 3], x: Jets<'_, T>, y: JetsMut<'_, T>) {
    assert_eq!(x.lens(), y.lens(), "numbers and tangents");
    if x.tangent.is_empty() {
        return y.value.iter_mut().zip(x.value).for_each(|(y, x)| *y = f(*x)[0]);
    }
    let to = y.value.iter_mut().zip(y.tangent);
    for ((y, y_tangent), (x, tangent)) in to.zip(x.value.iter().zip(x.tangent)) {
        let [value, slope, _] = f(*x);
        (*y, *y_tangent) = (value, slope * *tangent);
    }
}

/// Backward pass of [`curve`]: overwrites the gradient `dy` of its result by that of `x`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn curve_backward<T: Scalar>(f: impl Fn(T) -> [T; 3], x: Jets<'_, T>, dy: JetsMut<'_, T>) {
    assert_eq!(x.lens(), dy.lens(), "numbers and tangents");
    if x.tangent.is_empty() {
        return dy.value.iter_mut().zip(x.value).for_each(|(dy, x)| *dy *= f(*x)[1]);
    }
    let to = dy.value.iter_mut().zip(dy.tangent);
    for ((dy, dy_tangent), (x, tangent)) in to.zip(x.value.iter().zip(x.tangent)) {
        let [_, slope, bend] = f(*x);
        *dy_tangent = *dy_tangent * slope + *dy * bend * *tangent;
        *dy *= slope;
    }
}

/// Value, slope and curvature of `x / (1 + e^-x)`.
fn derivatives<T: Scalar>(x: T) -> [T; 3] {
    // e^-|x| cannot overflow.
    let small = (-x.abs()).exp();
    let above = T::ONE / (T::ONE + small);
    let (s, rest) = if x < T::ZERO { (small * above, above) } else { (above, small * above) };
    let bend = s * rest;
    [x * s, s + x * bend, bend * (T::ONE + T::ONE + x * (rest - s))]
}

/// `y = x / (1 + e^-x)`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn silu<T: Scalar>(x: Jets<'_, T>, y: JetsMut<'_, T>) {
    if TypeId::of::<T>() != TypeId::of::<f32>() {
        return curve(derivatives, x, y);
    }
    assert_eq!(x.lens(), y.lens(), "numbers and tangents");
    let (x, y) = (x.of_scalar::<f32>(), y.of_scalar::<f32>());
    match x.tangent.is_empty() {
        true => values(x.value, y.value),
        false => values_and_tangents([x.value, x.tangent], y.value, y.tangent),
    }
}

/// Backward pass of [`silu`]: overwrites the gradient `dy` of its result by that of `x`.
///
/// # Panics
/// If lengths do not match.
#[track_caller]
pub fn silu_backward<T: Scalar>(x: Jets<'_, T>, dy: JetsMut<'_, T>) {
    if TypeId::of::<T>() != TypeId::of::<f32>() {
        return curve_backward(derivatives, x, dy);
    }
    assert_eq!(x.lens(), dy.lens(), "numbers and tangents");
    let (x, dy) = (x.of_scalar::<f32>(), dy.of_scalar::<f32>());
    match x.tangent.is_empty() {
        true => slopes(x.value, dy.value),
        false => slopes_and_bends([x.value, x.tangent], dy.value, dy.tangent),
    }
}

vectorised! {
    fn values<const FUSED: bool>(x: &[f32], y: &mut [f32]) {
        each([y], [x], |_, [x]| [x * sigmoid::<FUSED>(x).0]);
    }
}

vectorised! {
    fn values_and_tangents<const FUSED: bool>(
        x: [&[f32]; 2],
        y: &mut [f32],
        tangent: &mut [f32],
    ) {
        each([y, tangent], x, |_, [x, t]| {
            let (s, rest) = sigmoid::<FUSED>(x);
            let value = x * s;
            [value, t * multiply_add::<FUSED>(value, rest, s)]
        });
    }
}

vectorised! {
    fn slopes<const FUSED: bool>(x: &[f32], dy: &mut [f32]) {
        each([dy], [x], |[dy], [x]| {
            let (s, rest) = sigmoid::<FUSED>(x);
            [dy * multiply_add::<FUSED>(x * s, rest, s)]
        });
    }
}

vectorised! {
    fn slopes_and_bends<const FUSED: bool>(
        x: [&[f32]; 2],
        dy: &mut [f32],
        tangent: &mut [f32],
    ) {
        each([dy, tangent], x, |[dy, dy_tangent], [x, t]| {
            let (s, rest) = sigmoid::<FUSED>(x);
            let bend = s * rest;
            let slope = multiply_add::<FUSED>(x, bend, s);
            let curvature = bend * multiply_add::<FUSED>(x, rest - s, 2.0);
            [dy * slope, multiply_add::<FUSED>(dy_tangent, slope, dy * curvature * t)]
        });
    }
}
