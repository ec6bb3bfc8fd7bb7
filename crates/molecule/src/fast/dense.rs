//! Linear layers and nonlinearities of the fast path.

use crate::tensornet::Nonlinearity;
use linwright_ops::LinearSlot;
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::feed_forward::{activate, activate_backward};
use linwright_tensor::kernels::gemm::{Arg, PackedRight, Write, linear};
use linwright_tensor::{Mat, MatMut, MatRef, Scalar};

/// Value and derivative of a nonlinearity.
pub(super) fn curve<T: Scalar>(kind: Nonlinearity, x: T) -> [T; 2] {
    let x = x.to_f64();
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    // log(1 + e^x), without overflow.
    let soft = x.max(0.0) + (-x.abs()).exp().ln_1p();
    let [value, slope] = match kind {
        Nonlinearity::Silu => [x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid))],
        Nonlinearity::Ssp => [soft - std::f64::consts::LN_2, sigmoid],
        Nonlinearity::Tanh => [x.tanh(), 1.0 - x.tanh() * x.tanh()],
        Nonlinearity::Sigmoid => [sigmoid, sigmoid * (1.0 - sigmoid)],
        Nonlinearity::Mish => {
            let tanh = soft.tanh();
            [x * tanh, tanh + x * (1.0 - tanh * tanh) * sigmoid]
        }
    };
    [T::from_f64(value), T::from_f64(slope)]
}

/// `y = f(x)` for rows.
pub(super) fn apply_curve(kind: Nonlinearity, x: MatRef<'_, f32>, mut y: MatMut<'_, f32>) {
    if kind == Nonlinearity::Silu {
        return activate(Activation::Silu, x, y);
    }
    for i in 0..x.rows() {
        y.row_mut(i).iter_mut().zip(x.row(i)).for_each(|(y, x)| *y = curve(kind, *x)[0]);
    }
}

/// Overwrites `x` by its gradient, from that of `f(x)`.
pub(super) fn apply_slope(kind: Nonlinearity, mut x: MatMut<'_, f32>, dy: MatRef<'_, f32>) {
    if kind == Nonlinearity::Silu {
        return activate_backward(Activation::Silu, x, dy);
    }
    for i in 0..dy.rows() {
        x.row_mut(i).iter_mut().zip(dy.row(i)).for_each(|(x, dy)| *x = curve(kind, *x)[1] * dy);
    }
}

/// A linear layer with bias, for many rows at a time.
#[derive(Clone, Debug)]
pub(super) struct Affine<T> {
    pub weight: Mat<T>,
    pub bias: Vec<T>,
}

impl<T: Scalar> Affine<T> {
    /// From a slot with a dense weight.
    pub(super) fn new(slot: &LinearSlot<f64>) -> Self {
        let weight = dense(slot);
        let bias = slot.bias().unwrap_or(&[]).iter().map(|bias| T::from_f64(*bias)).collect();
        Self { weight: weight.cast(), bias }
    }

    /// Values and derivatives of the output from those of the input.
    pub(super) fn jet(&self, x: &[Mat<T>; 2]) -> [Mat<T>; 2] {
        let mut y = [(); 2].map(|()| Mat::zeros(x[0].rows(), self.weight.rows()));
        for (x, y) in x.iter().zip(&mut y) {
            linear(x.view(), self.weight.view(), y.view_mut(), Write::Set);
        }
        for i in 0..y[0].rows() {
            y[0].row_mut(i).iter_mut().zip(&self.bias).for_each(|(y, bias)| *y += *bias);
        }
        y
    }
}

/// The weight of a slot of a model whose slots are dense.
pub(super) fn dense(slot: &LinearSlot<f64>) -> Mat<f64> {
    slot.op().to_dense().expect("a model cast to another type has dense weights")
}

/// A linear layer for blocks of atoms, packed in both directions.
#[derive(Debug)]
pub(super) struct Packed {
    forward: PackedRight,
    backward: PackedRight,
    bias: Vec<f32>,
}

impl Packed {
    pub(super) fn new(slot: &LinearSlot<f64>) -> Self {
        let weight: Mat<f32> = dense(slot).cast();
        Self {
            forward: PackedRight::new(Arg::Transposed(weight.view())),
            backward: PackedRight::new(Arg::Plain(weight.view())),
            bias: slot.bias().unwrap_or(&[]).iter().map(|bias| *bias as f32).collect(),
        }
    }

    /// Maps every one of `groups` column blocks.
    pub(super) fn forward(&self, groups: usize, x: MatRef<'_, f32>, mut y: MatMut<'_, f32>) {
        self.forward.apply(groups, x, y.reborrow());
        if !self.bias.is_empty() {
            for i in 0..y.rows() {
                y.row_mut(i).iter_mut().zip(&self.bias).for_each(|(y, bias)| *y += bias);
            }
        }
    }

    /// The gradient of the input from that of the output.
    pub(super) fn backward(&self, groups: usize, dy: MatRef<'_, f32>, dx: MatMut<'_, f32>) {
        self.backward.apply(groups, dy, dx);
    }
}

/// Mixing of the channels of the three parts of a tensor.
#[derive(Debug)]
pub(super) struct Mixing([Packed; 3]);

impl Mixing {
    pub(super) fn new(slots: [&LinearSlot<f64>; 3]) -> Self {
        Self(slots.map(Packed::new))
    }

    /// `x` and `y`: (atoms, 9, channels).
    pub(super) fn forward(&self, channels: usize, x: &[f32], y: &mut [f32]) {
        each_part(channels, x, y, |part, groups, x, y| self.0[part].forward(groups, x, y));
    }

    pub(super) fn backward(&self, channels: usize, dy: &[f32], dx: &mut [f32]) {
        each_part(channels, dy, dx, |part, groups, dy, dx| self.0[part].backward(groups, dy, dx));
    }
}

fn each_part(
    channels: usize,
    x: &[f32],
    y: &mut [f32],
    map: impl Fn(usize, usize, MatRef<'_, f32>, MatMut<'_, f32>),
) {
    use linwright_tensor::kernels::irreps::{COMPONENTS, PARTS, STARTS};
    let width = COMPONENTS * channels;
    let atoms = x.len() / width;
    for part in 0..PARTS {
        let (start, groups) = (STARTS[part] * channels, STARTS[part + 1] - STARTS[part]);
        let x = MatRef::new(x, atoms, width).columns(start, groups * channels);
        let y = MatMut::new(y, atoms, width).columns(start, groups * channels);
        map(part, groups, x, y);
    }
}
