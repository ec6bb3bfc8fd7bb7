//! One layer of a rotor network: weighted parallel branches of rotor, permutation, normalisation and
//! nonlinearity.

use super::Rotor;
use crate::{Backward, Grads, Map, Shape, Tape, Workspace};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::{layer_norm, permute};
use linwright_tensor::{MatMut, MatRef, Scalar};

/// Added to the variance by LayerNorm, as PyTorch does.
const EPSILON: f64 = 1e-5;

/// A rotor and the permutation behind it.
#[derive(Clone, Debug)]
pub(super) struct Branch<T> {
    pub(super) rotor: Rotor<T>,
    pub(super) order: Option<Vec<u32>>,
}

/// Weighted parallel branches.
#[derive(Clone, Debug)]
pub(super) struct RotorLayer<T> {
    shape: Shape,
    pub(super) branches: Vec<Branch<T>>,
    /// Weight of each branch; a plain layer has one branch and no weight.
    pub(super) alphas: Option<Vec<T>>,
    normalize: bool,
    activated: bool,
    /// Whether the input is added to the output.
    pub(super) residual: bool,
}

/// Gradients of a layer's own numbers.
#[derive(Debug, Default)]
pub(super) struct LayerSums {
    pub(super) alphas: Vec<f64>,
    /// Of the slope of PReLU.
    pub(super) slope: f64,
}

impl<T: Scalar> RotorLayer<T> {
    pub(super) fn empty(shape: Shape, normalize: bool, activated: bool) -> Self {
        let (branches, alphas, residual) = (Vec::new(), None, false);
        Self { shape, branches, alphas, normalize, activated, residual }
    }

    pub(super) fn push(&mut self, rotor: Rotor<T>, order: Option<Vec<u32>>) {
        self.branches.push(Branch { rotor, order });
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Those of the rotors, one for the weight and two for the normalisation of a feature.
    pub(super) fn macs_per_row(&self) -> u64 {
        let around = u64::from(self.alphas.is_some()) + 2 * u64::from(self.normalize);
        let branch = |b: &Branch<T>| b.rotor.macs_per_row() + around * self.shape.out as u64;
        self.branches.iter().map(branch).sum()
    }

    fn weight(&self, branch: usize) -> T {
        self.alphas.as_ref().map_or(T::ONE, |alphas| alphas[branch])
    }

    fn function(&self, activation: Activation<T>) -> Activation<T> {
        if self.activated { activation } else { Activation::Identity }
    }

    /// Leaves on the tape, for each branch, what goes into the nonlinearity and the scales of its
    /// normalisation.
    pub(super) fn forward(
        &self,
        activation: Activation<T>,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        mut tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        if self.residual {
            y.copy_from(x);
        } else {
            y.fill(T::ZERO);
        }
        let (rows, width) = (y.rows(), y.cols());
        let (mut here, mut next) = (ws.take(rows, width), ws.take(rows, width));
        let mut scales = ws.take(rows, 1);
        for (k, branch) in self.branches.iter().enumerate() {
            branch.rotor.forward(x, here.view_mut(), None, ws);
            if let Some(order) = &branch.order {
                permute::gather(here.view(), order, next.view_mut());
                std::mem::swap(&mut here, &mut next);
            }
            if self.normalize {
                layer_norm::forward(here.view(), next.view_mut(), scales.data_mut(), EPSILON);
                std::mem::swap(&mut here, &mut next);
            }
            let function = self.function(activation);
            function.add_weighted(self.weight(k), here.view(), y.reborrow());
            if let Some(tape) = tape.as_deref_mut() {
                std::mem::swap(tape.save(rows, width), &mut here);
                std::mem::swap(tape.save(rows, 1), &mut scales);
            }
        }
        [here, next, scales].into_iter().for_each(|mat| ws.give(mat));
    }

    /// Gradients of rotors go to `rotors`, one for each branch; the `grads` of `args` are not used.
    pub(super) fn backward(
        &self,
        activation: Activation<T>,
        args: Backward<'_, '_, T>,
        rotors: &mut [Grads<T>],
        ws: &mut Workspace<T>,
    ) -> LayerSums {
        let Backward { x, dy, tape, mut dx, .. } = args;
        let (rows, width) = (dy.rows(), dy.cols());
        let (mut here, mut next) = (ws.take(rows, width), ws.take(rows, width));
        let mut d_branch = ws.take(rows, x.cols());
        let mut sums = LayerSums::default();
        for (k, (branch, grads)) in self.branches.iter().zip(rotors).enumerate() {
            let (input, scales) = (tape.saved(2 * k).view(), tape.saved(2 * k + 1).data());
            let function = self.function(activation);
            let parts = function.back_weighted(self.weight(k), input, dy, here.view_mut());
            sums.alphas.push(parts.weight);
            sums.slope += if self.activated { parts.slope } else { 0.0 };
            if self.normalize {
                layer_norm::backward(input, scales, here.view_mut());
            }
            if let Some(order) = &branch.order {
                permute::scatter(here.view(), order, next.view_mut());
                std::mem::swap(&mut here, &mut next);
            }
            let target = dx.is_some().then(|| d_branch.view_mut());
            let args = Backward { x, dy: here.view(), tape, dx: target, grads };
            branch.rotor.backward(args, ws);
            if let Some(dx) = &mut dx {
                add_rows(d_branch.view(), dx, k == 0);
            }
        }
        if let (true, Some(dx)) = (self.residual, &mut dx) {
            add_rows(dy, dx, false);
        }
        [here, next, d_branch].into_iter().for_each(|mat| ws.give(mat));
        sums
    }
}

/// `to = from` for the first term of a sum, `to += from` for the others.
fn add_rows<T: Scalar>(from: MatRef<'_, T>, to: &mut MatMut<'_, T>, first: bool) {
    if first {
        return to.copy_from(from);
    }
    Activation::Identity.add_weighted(T::ONE, from, to.reborrow());
}
