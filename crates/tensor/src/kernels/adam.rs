//! The updates of Adam, AdamW and Adamax, fused: one pass over parameter, gradient and moments.

#![allow(unsafe_code, reason = "threads update disjoint parts of one matrix")]

use super::gemm::consumed::{Block, Consumer, consumed_product};
use super::gemm::{Arg, Pointer};
use super::instructions::vectorised;
use super::lanes::sum_of;
use crate::{MatRef, Scalar};

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
    update(&constants.factors(step), parameter, gradient, first, second);
}

/// One update of Adamax: `[parameter, first, second]` are a parameter, its first moment and the
/// decayed largest size of its gradient, in place; `step` counts from one.
///
/// Source: Kingma and Ba 2015, Algorithm 2. As PyTorch does, epsilon is added to each gradient's
/// size. Deviation: weight decay is decoupled, as in AdamW.
///
/// # Panics
/// If the slices differ in length.
#[track_caller]
pub fn adamax<T: Scalar>(
    constants: &Adam,
    step: u64,
    [parameter, first, second]: [&mut [T]; 3],
    gradient: &[T],
) {
    let count = gradient.len();
    let lengths = [parameter.len(), first.len(), second.len()];
    assert_eq!(lengths, [count; 3], "slices of one parameter");
    let Factors { keep1, new1, keep2, decay, scale, epsilon, .. } = constants.factors::<T>(step);
    let moments = first.iter_mut().zip(second);
    for ((p, g), (m, u)) in parameter.iter_mut().zip(gradient).zip(moments) {
        *m = keep1 * *m + new1 * *g;
        let (old, new) = (keep2 * *u, g.abs() + epsilon);
        *u = if new > old { new } else { old };
        *p = decay * *p - scale * *m / *u;
    }
}

/// [`adam`] of a matrix (rows, cols) whose gradient is `scale dyᵀ x`, with `dy` (n, rows) and `x`
/// (n, cols): the gradient of a linear layer's weight. It is computed block by block and never
/// stored as a whole. Returns the sum of its squares.
///
/// # Panics
/// If the shapes do not match.
#[track_caller]
pub fn adam_of_product(
    constants: &Adam,
    step: u64,
    parameter: [&mut [f32]; 3],
    gradient: ProductGradient<'_>,
) -> f64 {
    let ProductGradient { dy, x, scale } = gradient;
    let (rows, cols) = (dy.cols(), x.cols());
    assert_eq!(dy.rows(), x.rows(), "rows of a gradient's factors");
    assert!(parameter.iter().all(|part| part.len() == rows * cols), "parameter of its gradient");
    let arrays = parameter.map(|part| Pointer(part.as_mut_ptr()));
    let reads = [0, 1, 2].map(|k: usize| arrays[k].0.cast_const());
    let updates = Updates { factors: constants.factors(step), scale, arrays, reads, cols };
    consumed_product(Arg::Transposed(dy), Arg::Plain(x), &updates)
}

/// Updates of blocks of a parameter and its moments.
struct Updates {
    factors: Factors<f32>,
    scale: f32,
    arrays: [Pointer<f32>; 3],
    reads: [*const f32; 3],
    cols: usize,
}

// SAFETY: blocks of a product are disjoint, and each is updated by one thread.
unsafe impl Sync for Updates {}

impl Consumer for Updates {
    fn consume(&self, block: &Block<'_>) -> f64 {
        let Block { rows, cols, numbers, stride } = block;
        let mut sum = 0.0;
        for (row, gradient) in rows.clone().zip(numbers.chunks(*stride)) {
            // SAFETY: the row and the columns are within the matrix, whose size was checked, and
            // no other block has them.
            let [parameter, first, second] = self.arrays.each_ref().map(|array| unsafe {
                let at = array.0.add(row * self.cols + cols.start);
                std::slice::from_raw_parts_mut(at, cols.len())
            });
            let gradient = &gradient[..cols.len()];
            sum += scaled_update(&self.factors, self.scale, parameter, gradient, first, second);
        }
        sum
    }

    fn reads(&self) -> &[*const f32] {
        &self.reads
    }
}

/// The gradient `scale dyᵀ x`.
#[derive(Clone, Copy, Debug)]
pub struct ProductGradient<'a> {
    /// Gradient of the outputs (n, rows).
    pub dy: MatRef<'a, f32>,
    /// Inputs (n, cols).
    pub x: MatRef<'a, f32>,
    /// Factor of the product.
    pub scale: f32,
}

impl Adam {
    fn factors<T: Scalar>(&self, step: u64) -> Factors<T> {
        let Self { rate, beta1, beta2, epsilon, weight_decay } = *self;
        let exponent = step.min(i32::MAX as u64) as i32;
        let scale = T::from_f64(rate / (1.0 - beta1.powi(exponent)));
        let root = T::from_f64(1.0 / (1.0 - beta2.powi(exponent)).sqrt());
        let (keep1, new1) = (T::from_f64(beta1), T::from_f64(1.0 - beta1));
        let (keep2, new2) = (T::from_f64(beta2), T::from_f64(1.0 - beta2));
        let (decay, epsilon) = (T::from_f64(1.0 - rate * weight_decay), T::from_f64(epsilon));
        Factors { keep1, new1, keep2, new2, decay, scale, root, epsilon }
    }
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

vectorised! {
    /// [`update`] with a factor of the gradient; returns the sum of squares of the scaled gradient.
    fn scaled_update<const FUSED: bool>(
        factors: &Factors<f32>,
        by: f32,
        parameter: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) -> f64 {
        let Factors { keep1, new1, keep2, new2, decay, scale, root, epsilon } = *factors;
        for (((p, &g), m), v) in parameter.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = by * g;
            *m = keep1 * *m + new1 * g;
            *v = keep2 * *v + new2 * g * g;
            *p = decay * *p - scale * *m / (v.sqrt() * root + epsilon);
        }
        let by = f64::from(by);
        by * by * f64::from(sum_of([gradient], |[g]| g * g))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::gemm::{Write, product};
    use crate::{Mat, RngKey};

    #[test]
    fn adamax_is_its_definition() {
        let constants = Adam { rate: 0.01, weight_decay: 0.1, ..Adam::default() };
        let gradients = [[0.5, -2.0, 0.0], [-0.25, 0.1, 0.0], [0.4, 0.1, 1e-9]];
        let (mut p, mut m, mut u) = ([1.0, -1.0, 0.5], [0.0; 3], [0.0; 3]);
        let (mut q, mut n, mut v) = (p, m, u);
        for (step, g) in (1..).zip(&gradients) {
            adamax(&constants, step, [&mut p, &mut m, &mut u], g);
            for i in 0..3 {
                n[i] = 0.9 * n[i] + 0.1 * g[i];
                v[i] = f64::max(0.999 * v[i], g[i].abs() + 1e-8);
                let rate = 0.01 / (1.0 - 0.9_f64.powi(step as i32));
                q[i] = q[i] * (1.0 - 0.01 * 0.1) - rate * n[i] / v[i];
                assert!((p[i] - q[i]).abs() < 1e-15, "step {step}, {i}: {}, {}", p[i], q[i]);
            }
        }
    }

    #[test]
    fn the_gradient_of_a_product_need_not_be_formed() {
        for (n, rows, cols) in [(256, 300, 200), (7, 5, 9), (600, 130, 70)] {
            let random = |rows: usize, cols: usize, key| -> Mat<f32> {
                Mat::from_vec(rows, cols, RngKey::new(key).stream().normals(rows * cols, 1.0))
            };
            let (dy, x) = (random(n, rows, 1), random(n, cols, 2));
            let start = [3, 4, 5].map(|key| random(rows, cols, key).into_vec());
            let start =
                [start[0].clone(), start[1].clone(), start[2].iter().map(|v| v * v).collect()];
            let constants = Adam { rate: 0.1, weight_decay: 0.5, ..Adam::default() };
            let [mut p, mut m, mut v] = start.clone();
            let of = ProductGradient { dy: dy.view(), x: x.view(), scale: 0.5 };
            let squares = adam_of_product(&constants, 3, [&mut p, &mut m, &mut v], of);
            let mut gradient = Mat::zeros(rows, cols);
            let (a, b) = (Arg::Transposed(dy.view()), Arg::Plain(x.view()));
            product(0.5, a, b, gradient.view_mut(), Write::Set);
            let [mut p2, mut m2, mut v2] = start;
            adam(&constants, 3, &mut p2, gradient.data(), &mut m2, &mut v2);
            for (a, b) in [(p, p2), (m, m2), (v, v2)] {
                let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5 * b.abs().max(1.0);
                assert!(a.iter().zip(&b).all(close), "{n} x {rows} x {cols}");
            }
            let want: f64 = gradient.data().iter().map(|g| f64::from(*g).powi(2)).sum();
            assert!((squares / want - 1.0).abs() < 1e-5, "{squares} is not {want}");
        }
    }

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
