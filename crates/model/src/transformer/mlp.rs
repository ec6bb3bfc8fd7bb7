//! The MLP, gated or not.

use super::backward::{BackwardPass, BranchBackward, SlotsBackward};
use super::forward::{Pass, finite};
use super::grads::BranchGrads;
use super::memory::BranchTape;
use super::parts_backward::SlotBackward;
use super::weights::Branch;
use crate::Role;
use crate::config::TransformerConfig;
use crate::error::ModelError;
use linwright_ops::Tape;
use linwright_tensor::kernels::feed_forward::{
    activate, activate_backward, gated, gated_backward, gated_halves_backward,
};
use linwright_tensor::{Mat, MatMut, MatRef};

impl Pass<'_> {
    /// Output of the MLP, to be added to the residual stream, from normalised rows.
    pub(super) fn mlp(
        &mut self,
        branch: &Branch,
        x: MatRef<'_, f32>,
        y: &mut Mat<f32>,
        tape: &mut BranchTape,
    ) -> Result<(), ModelError> {
        let count = branch.inputs.len();
        tape.ops.resize_with(count + 1, Tape::default);
        if let Some(inner) = self.lens.known_input(&branch.output) {
            self.linear(&branch.output, inner.view(), y, &mut tape.ops[count]);
            return self.check(&branch.output, y);
        }
        if branch.inputs.is_empty() {
            self.linear(&branch.output, x, y, &mut tape.ops[0]);
            return self.check(&branch.output, y);
        }
        tape.raw.resize_with(count, Mat::default);
        self.linears(&branch.inputs, x, &mut tape.raw, &mut tape.ops[..branch.inputs.len()]);
        if self.lens.has_inputs() {
            return Ok(());
        }
        let mut inner = self.workspace.take(x.rows(), branch.output.shape().inp);
        inside(self.config, branch, &tape.raw, inner.view_mut());
        self.linear(&branch.output, inner.view(), y, &mut tape.ops[count]);
        self.workspace.give(inner);
        let outcome = self.check(&branch.output, y);
        if outcome.is_err() {
            // A product overflows before its factors do; the first non-finite site is reported.
            for (slot, raw) in branch.inputs.iter().zip(&tape.raw) {
                finite(slot.id(), raw)?;
            }
        }
        outcome
    }
}

impl BackwardPass<'_> {
    /// Gradients of the MLP. Overwrites the results of the input projections on the tape.
    pub(super) fn mlp(&mut self, branch: &Branch, args: BranchBackward<'_>) {
        let BranchBackward { x, dy, tape, dx, grads } = args;
        let (of_inputs, of_output) = match grads {
            Some(BranchGrads { inputs, output, .. }) => (Some(inputs), Some(output)),
            None => (None, None),
        };
        if branch.inputs.is_empty() {
            let args = SlotBackward { x, dy, tape: &tape.ops[0], dx, grads: of_output };
            return self.slot(&branch.output, args);
        }
        let BranchTape { raw, ops, .. } = tape;
        let (ops, output) = ops.split_at(branch.inputs.len());
        let width = branch.output.shape().inp;
        let needs_inner = of_output.is_some() || self.lens.needs_input(&branch.output);
        let inner = needs_inner.then(|| {
            let mut inner = self.workspace.take(dy.rows(), width);
            inside(self.config, branch, raw, inner.view_mut());
            inner
        });
        let mut d_inner = self.workspace.take(dy.rows(), width);
        let (x_of_output, tape) = (inner.as_ref(), &output[0]);
        let d_view = d_inner.view_mut();
        let args = SlotBackward { x: x_of_output, dy, tape, dx: d_view, grads: of_output };
        self.slot(&branch.output, args);
        inner.into_iter().for_each(|mat| self.workspace.give(mat));
        if self.lens.is_done() {
            return self.workspace.give(d_inner);
        }
        let activation = self.config.activation;
        match raw.as_mut_slice() {
            [gate, up] => {
                gated_backward(activation, gate.view_mut(), up.view_mut(), d_inner.view());
            }
            [both] if Role::of(&branch.inputs[0]) == Role::GateUp => {
                gated_halves_backward(activation, both.view_mut(), d_inner.view());
            }
            raw => activate_backward(activation, raw[0].view_mut(), d_inner.view()),
        }
        self.workspace.give(d_inner);
        let of_inputs = of_inputs.map(Vec::as_mut_slice);
        self.slots(&branch.inputs, SlotsBackward { x, dy: raw, tapes: ops, dx, grads: of_inputs });
    }
}

/// Activations of the MLP from the results of its input projections.
fn inside(config: &TransformerConfig, branch: &Branch, raw: &[Mat<f32>], inner: MatMut<'_, f32>) {
    let width = inner.cols();
    match raw {
        [gate, up] => gated(config.activation, gate.view(), up.view(), inner),
        [both] if Role::of(&branch.inputs[0]) == Role::GateUp => {
            let [gate, up] = [0, width].map(|first| both.view().columns(first, width));
            gated(config.activation, gate, up, inner);
        }
        raw => activate(config.activation, raw[0].view(), inner),
    }
}
