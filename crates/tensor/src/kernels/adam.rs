//! The update of Adam and AdamW, fused: one pass over parameter, gradient and both moments.

use super::instructions::vectorised;
use crate::Scalar;

/// Constants of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Step size.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay (AdamW); zero gives Adam.
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

/// One update of a parameter and of its first and second moments, in place; `step` counts from one.
/// All four slices have the same length.
///
/// Source: Kingma and Ba 2015, Algorithm 1; Loshchilov and Hutter 2019 for the decay. As PyTorch
/// does, epsilon is added after the bias correction of the root.
#[track_caller]
pub fn adam<T: Scalar>(
    constants: &Adam,
    step: u64,
    parameter: &mut [T],
    gradient: &[T],
    first: &mut [T],
    second: &mut [T],
) {
    assert!(
        gradient.len() == parameter.len()
            && first.len() == parameter.len()
            && second.len() == parameter.len(),
        "slices of one parameter differ in length"
    );
    let Adam { rate, beta1, beta2, epsilon, weight_decay } = *constants;
    let exponent = step.min(i32::MAX as u64) as i32;
    let scale = T::from_f64(rate / (1.0 - beta1.powi(exponent)));
    let root = T::from_f64(1.0 / (1.0 - beta2.powi(exponent)).sqrt());
    let (keep1, new1) = (T::from_f64(beta1), T::from_f64(1.0 - beta1));
    let (keep2, new2) = (T::from_f64(beta2), T::from_f64(1.0 - beta2));
    let (decay, epsilon) = (T::from_f64(1.0 - rate * weight_decay), T::from_f64(epsilon));
    let factors = Factors { keep1, new1, keep2, new2, decay, scale, root, epsilon };
    update(&factors, parameter, gradient, first, second);
}

/// [`Adam`] at one step, in the scalar of the parameters.
#[derive(Clone, Copy)]
struct Factors<T> {
    keep1: T,
    new1: T,
    keep2: T,
    new2: T,
    decay: T,
    scale: T,
    root: T,
    epsilon: T,
}

vectorised! {
    // No multiply-add is fused, so that all instruction sets give the same bits.
    fn update<const FUSED: bool, T: Scalar>(
        factors: &Factors<T>,
        parameter: &mut [T],
        gradient: &[T],
        first: &mut [T],
        second: &mut [T],
    ) {
        let Factors { keep1, new1, keep2, new2, decay, scale, root, epsilon } = *factors;
        for (((p, &g), m), v) in parameter.iter_mut().zip(gradient).zip(first).zip(second) {
            *m = keep1 * *m + new1 * g;
            *v = keep2 * *v + new2 * g * g;
            *p = decay * *p - scale * *m / (v.sqrt() * root + epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_step_moves_by_the_rate_against_the_sign_of_the_gradient() {
        let (mut p, mut m, mut v) = ([1.0f64, -2.0], [0.0; 2], [0.0; 2]);
        adam(&Adam { rate: 0.1, ..Adam::default() }, 1, &mut p, &[3.0, -0.5], &mut m, &mut v);
        assert!((p[0] - 0.9).abs() < 1e-8 && (p[1] + 1.9).abs() < 1e-8, "{p:?}");
    }

    #[test]
    fn decay_shrinks_a_parameter_without_gradient() {
        let (mut p, mut m, mut v) = ([2.0f64], [0.0], [0.0]);
        let constants = Adam { rate: 0.1, weight_decay: 0.5, ..Adam::default() };
        adam(&constants, 1, &mut p, &[0.0], &mut m, &mut v);
        assert!((p[0] - 1.9).abs() < 1e-12);
    }
}
