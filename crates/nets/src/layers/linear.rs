//! Linear layers.

use crate::step::{Back, Kept, Pass, Step, slot_backward, slot_forward};
use linwright_ops::LinearSlot;
use linwright_tensor::{Mat, Scalar};

/// A linear map of each place.
#[derive(Clone, Debug)]
pub(crate) struct Linear<T: Scalar>(pub(crate) LinearSlot<T>);

impl<T: Scalar> Step<T> for Linear<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        vec![&self.0]
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        vec![&mut self.0]
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let (y, tape) = slot_forward(&self.0, &x, pass);
        let mats = if pass.keep { vec![x] } else { Vec::new() };
        (y, Kept { mats, tapes: vec![tape], ..Kept::default() })
    }

    fn backward(&self, dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let needs = back.needs_dx;
        slot_backward(&self.0, (&kept.mats[0], &kept.tapes[0]), &dy, back, (0, needs))
    }
}
