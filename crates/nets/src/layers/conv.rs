//! Convolutions: linear maps of patches.

use super::conv_dense::DenseConv;
use super::{Layer, one, yes};
use crate::build::{Builder, SlotPlan};
use crate::chain::Chain;
use crate::extent::Windows;
use crate::step::{Back, Kept, Pass, SlotBack, Step};
use crate::{Extent, NetError};
use linwright_ops::{LinearSlot, SlotRole};
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// A convolution: a linear map of the patch around each position. The columns of its slot are
/// channel, row, column of the patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv {
    /// Name of its slot and tensors.
    pub name: String,
    /// Channels out.
    pub out: usize,
    /// Side of a patch.
    pub kernel: usize,
    /// Distance of patches.
    #[serde(default = "one")]
    pub stride: usize,
    /// Zeros around the image.
    #[serde(default)]
    pub padding: usize,
    /// Whether it adds a bias.
    #[serde(default = "yes")]
    pub bias: bool,
}

impl Layer for Conv {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        let Self { kernel, stride, padding, .. } = *self;
        let output = Windows { size: kernel, stride, padding }.over(input, chain.label())?;
        // The matrix of patches is larger than input and output.
        let patch = kernel.saturating_mul(kernel).saturating_mul(input.channels);
        chain.weight(&self.name, [self.out, patch]);
        Extent { channels: patch, ..output }.bounded(chain.label())?;
        Extent { channels: self.out, ..output }.bounded(chain.label())
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        let Extent { height, width, channels } = builder.extent;
        let slot = builder.slot(SlotPlan {
            id: &self.name,
            reads: &self.name,
            role: SlotRole::new("conv", &[]),
            shape: vec![self.out, channels, self.kernel, self.kernel],
            bias: self.bias,
        })?;
        let (size, stride, padding) = (self.kernel, self.stride, self.padding);
        let patches = Patches { height, width, size, stride, padding };
        builder.push(ConvStep { slot, patches });
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct ConvStep<T: Scalar> {
    slot: LinearSlot<T>,
    patches: Patches,
}

impl<T: Scalar> ConvStep<T> {
    fn area(&self) -> usize {
        self.patches.size * self.patches.size
    }

    /// Whether the input already is the matrix of patches.
    fn is_pointwise(&self) -> bool {
        let Patches { size, stride, padding, .. } = self.patches;
        (size, stride, padding) == (1, 1, 0)
    }

    /// The faster path for a dense weight, if no probe needs its patches.
    fn dense(&self, looks: bool) -> Option<DenseConv<'_, T>> {
        if looks { None } else { DenseConv::of(&self.slot, self.patches) }
    }
}

impl<T: Scalar> Step<T> for ConvStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        vec![&self.slot]
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        vec![&mut self.slot]
    }

    fn weight_shape(&self) -> Option<Vec<usize>> {
        let (size, shape) = (self.patches.size, self.slot.shape());
        Some(vec![shape.out, shape.inp / self.area(), size, size])
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        if let Some(dense) = self.dense(pass.watch.looks()) {
            let (y, input) = dense.forward(x, pass);
            return (y, Kept { input: pass.keep_input(&[&self.slot], input), ..Kept::default() });
        }
        if self.is_pointwise() {
            let (y, tape) = pass.through(&self.slot, &x);
            let input = pass.keep_input(&[&self.slot], x);
            return (y, Kept { input, tapes: vec![tape], ..Kept::default() });
        }
        let (down, across) = self.patches.windows();
        let examples = x.rows() / (self.patches.height * self.patches.width);
        let mut patches = pass.ws.take(examples * down * across, x.cols() * self.area());
        self.patches.gather(x.view(), patches.view_mut());
        pass.ws.give(x);
        let (y, tape) = pass.through(&self.slot, &patches);
        let input = pass.keep_input(&[&self.slot], patches);
        (y, Kept { input, tapes: vec![tape], ..Kept::default() })
    }

    fn backward(&self, dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        if let Some(dense) = self.dense(back.watch.looks()) {
            let input = kept.input.expect("the input of a slot with gradients is kept");
            return dense.backward(dy, input, back);
        }
        let needs_dx = back.needs_dx;
        let of_patches = back.through(&SlotBack {
            slot: &self.slot,
            x: kept.input.as_ref(),
            tape: &kept.tapes[0],
            dy: &dy,
            first_tensor: 0,
            needs_dx,
        });
        kept.release(back.ws);
        if !needs_dx || self.is_pointwise() {
            back.ws.give(dy);
            return of_patches;
        }
        let (down, across) = self.patches.windows();
        let rows = dy.rows() / (down * across) * self.patches.height * self.patches.width;
        let mut dx = back.ws.take(rows, of_patches.cols() / self.area());
        self.patches.scatter(of_patches.view(), dx.view_mut());
        back.ws.give(of_patches);
        back.ws.give(dy);
        dx
    }
}
