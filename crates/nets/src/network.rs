//! Small networks as networks with slots, for capture, fits and attribution.

use crate::net::{Batch, NetState};
use crate::step::{Back, Keep, Pass, Watch};
use crate::{Net, NetError};
use linwright_ops::{
    Differentiable, ExampleRows, LinearSlot, Network, OutputLoss, Probe, Seen, SeenGradient, Sites,
    Workspace,
};
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

impl Sites for Net {
    fn slots(&self) -> Vec<&LinearSlot> {
        self.stages.iter().flat_map(|stage| stage.step.slots()).collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        self.stages.iter_mut().flat_map(|stage| stage.step.slots_mut()).collect()
    }
}

/// Shows slots to a probe.
struct Probing<'a> {
    probe: &'a mut dyn Probe,
    examples: usize,
}

impl Probing<'_> {
    /// Rows of each example, the same for all.
    fn examples(&self, rows: usize) -> Vec<ExampleRows> {
        let each = rows / self.examples.max(1);
        let spans: Vec<_> = (0..self.examples).map(|i| i * each..(i + 1) * each).collect();
        ExampleRows::of_spans(&spans)
    }
}

impl Watch<f32> for Probing<'_> {
    fn forward(&mut self, slot: &LinearSlot, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        if self.probe.wants(slot.id()) {
            let examples = &self.examples(x.rows());
            self.probe.on_forward(slot.id(), Seen { x, y, examples });
        }
    }

    fn wants_input(&self, slot: &LinearSlot) -> bool {
        self.probe.wants_gradient(slot.id()) && self.probe.wants_input_again(slot.id())
    }

    fn backward(&mut self, slot: &LinearSlot, x: Option<&Mat<f32>>, dy: &Mat<f32>) {
        if self.probe.wants_gradient(slot.id()) {
            let examples = &self.examples(dy.rows());
            let x = x.filter(|_| self.wants_input(slot)).map(Mat::view);
            let seen = SeenGradient { x, dy: dy.view(), examples };
            self.probe.on_backward(slot.id(), seen);
        }
    }
}

impl Differentiable for Net {
    /// The loss of the output's rows (examples * positions, channels). Batch norms use their
    /// running statistics, and dropout is off. The input of a dense weight is kept only if the
    /// probe needs it in the backward pass.
    fn loss_to_slots(
        &self,
        input: &Batch,
        loss: &mut dyn OutputLoss,
        probe: &mut dyn Probe,
    ) -> Result<f64, NetError> {
        let slots = self.slots().into_iter();
        let wanted = slots.filter(|slot| probe.wants_gradient(slot.id()));
        let first = wanted.filter_map(LinearSlot::stage).min().unwrap_or(self.stages.len());
        let mut watch = Probing { probe, examples: input.examples };
        let ws = &mut Workspace::default();
        let mut state = self.start(input)?;
        let mut kept = Vec::new();
        for index in 0..self.stages.len() {
            let (stack, watch) = (&mut state.stack, &mut watch);
            let keep = if index < first { Keep::Nothing } else { Keep::ForInputs };
            let mut pass = Pass { stack, watch, keep, training: None, ws: &mut *ws };
            let of_step = self.step(index, &mut state.rows, &mut pass)?;
            if index >= first {
                kept.push(of_step);
            }
        }
        let mut dy = state.rows;
        let total = loss.of_rows(0, dy.view_mut());
        if !total.is_finite() {
            return Err(NetError::LossNotFinite);
        }
        let mut stack = Vec::new();
        for (index, kept) in (first..self.stages.len()).zip(kept).rev() {
            let (stack, watch, needs_dx) = (&mut stack, &mut watch, index > first);
            let mut back = Back { stack, watch, grads: None, needs_dx, ws: &mut *ws };
            dy = self.stages[index].step.backward(dy, kept, &mut back);
        }
        Ok(total)
    }
}

impl Network for Net {
    type Input = Batch;
    type State = NetState;
    type Error = NetError;

    fn stages(&self) -> usize {
        self.stages.len()
    }

    fn begin(&self, input: &Batch) -> Result<NetState, NetError> {
        self.start(input)
    }

    fn run_stages(
        &self,
        state: &mut NetState,
        input: &Batch,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), NetError> {
        let ws = &mut Workspace::default();
        for index in stages {
            let mut watch = Probing { probe: &mut *probe, examples: input.examples };
            let (stack, watch, keep) = (&mut state.stack, &mut watch, Keep::Nothing);
            let mut pass = Pass { stack, watch, keep, training: None, ws: &mut *ws };
            self.step(index, &mut state.rows, &mut pass)?;
            if probe.satisfied() {
                break;
            }
        }
        Ok(())
    }

    fn state_bytes(state: &NetState) -> usize {
        let numbers = |mat: &Mat<f32>| mat.data().len();
        (numbers(&state.rows) + state.stack.iter().map(numbers).sum::<usize>()) * size_of::<f32>()
    }

    /// Biases, scales and shifts; running statistics are not parameters.
    fn other_parameters(&self) -> u64 {
        self.stages.iter().map(|stage| stage.step.other_parameters() as u64).sum()
    }
}
