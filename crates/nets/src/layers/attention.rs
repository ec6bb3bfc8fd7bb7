//! Attention between the places of an example.

use crate::step::{Back, Kept, Pass, Step, slot_backward, slot_forward};
use linwright_ops::LinearSlot;
use linwright_tensor::kernels::softmax_attention::{
    AttentionShape, Projections, attend, attend_backward,
};
use linwright_tensor::{Mat, Scalar};

/// Attention with slots for queries, keys, values and, if there is one, the output.
#[derive(Clone, Debug)]
pub(crate) struct Attention<T: Scalar> {
    pub(crate) slots: Vec<LinearSlot<T>>,
    pub(crate) shape: AttentionShape,
}

impl<T: Scalar> Step<T> for Attention<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        self.slots.iter().collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        self.slots.iter_mut().collect()
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let mut kept = Kept::default();
        let mut projected = Vec::new();
        for slot in &self.slots[..3] {
            let (y, tape) = slot_forward(slot, &x, pass);
            projected.push(y);
            kept.tapes.push(tape);
        }
        let [query, key, value] = [0, 1, 2].map(|i: usize| projected[i].view());
        let (mixed, weights) = attend(self.shape, Projections { query, key, value });
        kept.mats = vec![x];
        kept.mats.append(&mut projected);
        kept.mats.push(weights);
        let Some(output) = self.slots.get(3) else {
            return (mixed, kept);
        };
        let (y, tape) = slot_forward(output, &mixed, pass);
        kept.tapes.push(tape);
        kept.mats.push(mixed);
        (y, if pass.keep { kept } else { Kept::default() })
    }

    fn backward(&self, dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let counts = self
            .slots
            .iter()
            .map(|slot| slot.op().map().params().len() + usize::from(slot.bias().is_some()));
        let counts: Vec<usize> = counts.collect();
        let first = |slot: usize| counts[..slot].iter().sum::<usize>();
        let dy = match self.slots.get(3) {
            Some(output) => {
                let input = (&kept.mats[5], &kept.tapes[3]);
                slot_backward(output, input, &dy, back, (first(3), true))
            }
            None => dy,
        };
        let [query, key, value] = [1, 2, 3].map(|i: usize| kept.mats[i].view());
        let of = Projections { query, key, value };
        let parts = attend_backward(self.shape, of, kept.mats[4].view(), dy.view());
        let (x, needs) = (&kept.mats[0], back.needs_dx);
        let mut dx = Mat::zeros(x.rows(), x.cols());
        for (i, part) in parts.iter().enumerate() {
            let input = (x, &kept.tapes[i]);
            let added = slot_backward(&self.slots[i], input, part, back, (first(i), needs));
            dx.data_mut().iter_mut().zip(added.data()).for_each(|(dx, added)| *dx += *added);
        }
        dx
    }
}
