//! The view of a pass for a probe.

use crate::batch::Batch;
use linwright_ops::{ExampleRows, LinearSlot, Probe, Seen, SeenGradient};
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

/// A probe, with the rows of the batch that it observes.
pub(super) struct Lens<'a> {
    probe: &'a mut dyn Probe,
    examples: Vec<ExampleRows>,
    /// Number of slots whose gradient is wanted and has not been shown yet; never zero in a pass
    /// that goes to the end.
    left: usize,
}

impl<'a> Lens<'a> {
    /// A lens for passes to the end.
    pub(super) fn new(probe: &'a mut dyn Probe, batch: &Batch) -> Self {
        Self { probe, examples: ExampleRows::of_spans(batch.spans()), left: usize::MAX }
    }

    /// Ends the backward pass once the gradients of this number of slots were shown.
    pub(super) fn ends_after(&mut self, slots: usize) {
        self.left = slots;
    }

    /// Whether everything wanted was shown, so that the backward pass ends.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether the probe needs no more of the forward pass.
    pub(super) fn is_satisfied(&self) -> bool {
        self.probe.satisfied()
    }

    /// Whether the pass ends within a stage, since the probe has all inputs that it needs.
    pub(super) fn has_inputs(&self) -> bool {
        self.probe.needs_inputs_alone() && self.probe.satisfied()
    }

    pub(super) fn wants_gradient(&self, slot: &LinearSlot) -> bool {
        self.probe.wants_gradient(slot.id())
    }

    /// Whether the backward pass of a slot reads its input, without gradients of parameters.
    pub(super) fn needs_input(&self, slot: &LinearSlot) -> bool {
        slot.op().map().weight().is_none() || self.wants_input_again(slot)
    }

    fn wants_input_again(&self, slot: &LinearSlot) -> bool {
        self.wants_gradient(slot) && self.probe.wants_input_again(slot.id())
    }

    /// Shows a slot before its output is computed, if the probe only needs its input; whether it
    /// did.
    pub(super) fn show_input(&mut self, slot: &LinearSlot, x: MatRef<'_, f32>) -> bool {
        let shows = self.probe.needs_inputs_alone() && self.probe.wants(slot.id());
        if shows {
            let y = MatRef::new(&[], 0, slot.shape().out);
            self.probe.on_forward(slot.id(), Seen { x, y, examples: &self.examples });
        }
        shows
    }

    /// The input of the last slot of a branch, if the probe knows it.
    pub(super) fn known_input(&mut self, slot: &LinearSlot) -> Option<Mat<f32>> {
        self.probe.known_input(slot.id())
    }

    /// Shows all rows of a slot.
    pub(super) fn show(&mut self, slot: &LinearSlot, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        if self.probe.wants(slot.id()) {
            self.probe.on_forward(slot.id(), Seen { x, y, examples: &self.examples });
        }
    }

    /// Shows a block of the rows of a slot.
    pub(super) fn show_block(
        &mut self,
        slot: &LinearSlot,
        block: &Range<usize>,
        xy: [MatRef<'_, f32>; 2],
    ) {
        if self.probe.wants(slot.id()) {
            let ([x, y], examples) = (xy, ExampleRows::within(&self.examples, block));
            self.probe.on_forward(slot.id(), Seen { x, y, examples: &examples });
        }
    }

    /// Shows the gradient of all rows of a slot.
    pub(super) fn show_gradient(
        &mut self,
        slot: &LinearSlot,
        x: Option<MatRef<'_, f32>>,
        dy: MatRef<'_, f32>,
    ) {
        if self.wants_gradient(slot) {
            let x = x.filter(|_| self.wants_input_again(slot));
            self.probe.on_backward(slot.id(), SeenGradient { x, dy, examples: &self.examples });
            self.left -= 1;
        }
    }

    /// Shows the gradient of a block of the rows of a slot, which does not count as shown.
    pub(super) fn show_block_gradient(
        &mut self,
        slot: &LinearSlot,
        block: &Range<usize>,
        [x, dy]: [MatRef<'_, f32>; 2],
    ) {
        if self.wants_gradient(slot) {
            let examples = ExampleRows::within(&self.examples, block);
            let x = Some(x).filter(|_| self.wants_input_again(slot));
            self.probe.on_backward(slot.id(), SeenGradient { x, dy, examples: &examples });
        }
    }
}
