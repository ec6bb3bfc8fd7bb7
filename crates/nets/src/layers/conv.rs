//! Convolutions: linear maps of patches.

use crate::step::{Back, Kept, NetTensor, Pass, Step, slot_backward, slot_forward, slot_tensors};
use linwright_ops::LinearSlot;
use linwright_tensor::kernels::patches::Patches;
use linwright_tensor::{Mat, Scalar};

/// A linear map of the patches of an image.
#[derive(Clone, Debug)]
pub(crate) struct Conv<T: Scalar> {
    pub(crate) slot: LinearSlot<T>,
    pub(crate) patches: Patches,
}

impl<T: Scalar> Conv<T> {
    fn area(&self) -> usize {
        self.patches.size * self.patches.size
    }
}

impl<T: Scalar> Step<T> for Conv<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        vec![&self.slot]
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        vec![&mut self.slot]
    }

    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let (size, shape) = (self.patches.size, self.slot.shape());
        let shape = [shape.out, shape.inp / self.area(), size, size];
        slot_tensors(&mut self.slot, Some(&shape))
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let (down, across) = self.patches.windows();
        let examples = x.rows() / (self.patches.height * self.patches.width);
        let mut patches = Mat::zeros(examples * down * across, x.cols() * self.area());
        self.patches.gather(x.view(), patches.view_mut());
        let (y, tape) = slot_forward(&self.slot, &patches, pass);
        let mats = if pass.keep { vec![patches] } else { Vec::new() };
        (y, Kept { mats, tapes: vec![tape], ..Kept::default() })
    }

    fn backward(&self, dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let (patches, needs) = (&kept.mats[0], back.needs_dx);
        let of_patches =
            slot_backward(&self.slot, (patches, &kept.tapes[0]), &dy, back, (0, needs));
        if !needs {
            return of_patches;
        }
        let (down, across) = self.patches.windows();
        let rows = patches.rows() / (down * across) * self.patches.height * self.patches.width;
        let mut dx = Mat::zeros(rows, patches.cols() / self.area());
        self.patches.scatter(of_patches.view(), dx.view_mut());
        dx
    }
}
