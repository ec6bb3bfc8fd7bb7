//! The head: from the output of the last layer to logits, and its backward pass.

use super::backward::{SlotBackward, Targets, slot_backward, through_norm};
use super::{Transformer, TransformerGrads};
use crate::error::ModelError;
use linwright_ops::{Tape, Workspace};
use linwright_tensor::kernels::cross_entropy::cross_entropy;
use linwright_tensor::kernels::elementwise::{add_rows, multiply, softcap};
use linwright_tensor::kernels::feed_forward::{activate, activate_backward};
use linwright_tensor::kernels::gemm::{Arg, Write, linears, product};
use linwright_tensor::kernels::norm::norm;
use linwright_tensor::{Mat, MatMut, MatRef};

/// Intermediate results of the head, also for its backward pass.
#[derive(Debug, Default)]
pub(super) struct HeadTape {
    /// After the final norm, if there is one.
    normed: Mat<f32>,
    /// After the linear layer of a masked language model.
    dense: Mat<f32>,
    /// After its activation.
    acted: Mat<f32>,
    /// After its norm.
    transformed: Mat<f32>,
    /// After the projection to the width of the embedding, if it differs.
    projected: Mat<f32>,
    /// Derivatives of soft-capped logits.
    slopes: Mat<f32>,
    ops: [Tape<f32>; 3],
}

/// Memory of the loss computation.
pub(super) struct Output<'a> {
    pub(super) logits: &'a mut Mat<f32>,
    pub(super) tape: &'a mut HeadTape,
    pub(super) workspace: &'a mut Workspace<f32>,
}

impl Transformer {
    /// Whether the model has a language-model head; a sentence encoder may have none.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.config.is_causal() || self.config.masked_head
    }

    /// Logits (rows, vocab) of rows (rows, hidden) of the last layer's output.
    ///
    /// # Panics
    /// If the rows have a wrong width, or the model has no head.
    #[must_use]
    pub fn logits(&self, hidden: MatRef<'_, f32>) -> Mat<f32> {
        let mut logits = Mat::zeros(hidden.rows(), self.config.vocab);
        self.logits_to(hidden, &mut logits);
        logits
    }

    /// As [`Self::logits`], into memory of the caller: fresh pages for the logits of a long text
    /// cost more than some layers.
    ///
    /// # Panics
    /// As [`Self::logits`].
    pub fn logits_to(&self, hidden: MatRef<'_, f32>, logits: &mut Mat<f32>) {
        let target = logits.view_mut_of(hidden.rows(), self.config.vocab);
        self.memory.lend(|memory| {
            self.logits_into(hidden, &mut memory.head, target, false, &mut memory.workspace);
        });
    }

    /// Writes the logits (rows, vocab), and keeps what a backward pass needs if requested.
    pub(super) fn logits_into(
        &self,
        hidden: MatRef<'_, f32>,
        tape: &mut HeadTape,
        mut logits: MatMut<'_, f32>,
        keep: bool,
        workspace: &mut Workspace<f32>,
    ) {
        assert!(self.has_head(), "a model without a head has no logits");
        let (config, rows) = (&self.config, hidden.rows());
        let HeadTape { normed, dense, acted, transformed, projected, slopes, ops } = tape;
        let [transform_tape, project_tape, head_tape] = ops;
        ops_clear([&mut *transform_tape, &mut *project_tape, &mut *head_tape]);
        let mut x = hidden;
        if let Some(weights) = &self.weights.final_norm {
            normed.resize(rows, config.hidden);
            norm(x, &weights.of(&config.norm, config.hidden), normed.view_mut());
            x = normed.view();
        }
        if let Some((slot, weights)) = &self.weights.transform {
            for mat in [&mut *dense, &mut *acted, &mut *transformed] {
                mat.resize(rows, config.hidden);
            }
            slot.forward(x, dense.view_mut(), keep.then_some(transform_tape), workspace);
            activate(config.head_activation(), dense.view(), acted.view_mut());
            let weights = weights.of(&config.norm, config.hidden);
            norm(acted.view(), &weights, transformed.view_mut());
            x = transformed.view();
        }
        if let Some(slot) = &self.weights.project_out {
            projected.resize(rows, config.embedding_width);
            slot.forward(x, projected.view_mut(), keep.then_some(project_tape), workspace);
            x = projected.view();
        }
        match &self.weights.head {
            Some(head) => {
                head.forward(x, logits.reborrow(), keep.then_some(head_tape), workspace);
            }
            None => linears(x, &mut [(self.weights.embedding.weight(), logits.reborrow())]),
        }
        if let Some(bias) = &self.weights.tied_bias {
            // Broadcasts one vector to all rows: a row stride of zero.
            for i in 0..logits.rows() {
                bias.row(0, Write::Add, logits.row_mut(i));
            }
        }
        if let Some(cap) = config.logit_cap {
            let slopes = keep.then(|| slopes.view_mut_of(rows, config.vocab));
            softcap(logits, cap, slopes);
        }
    }

    /// Loss and gradients of the head, a block of rows at a time; writes the gradient of the last
    /// layer's output to `d_hidden`.
    pub(super) fn head_backward(
        &self,
        hidden: &Mat<f32>,
        Targets { tokens, counted }: Targets<'_>,
        grads: &mut TransformerGrads,
        d_hidden: &mut Mat<f32>,
        memory: &mut Output<'_>,
    ) -> Result<f64, ModelError> {
        let (scale, block) = (1.0 / counted as f32, self.rows_of_logits());
        d_hidden.resize(hidden.rows(), self.config.hidden);
        d_hidden.data_mut().fill(0.0);
        let mut total = 0.0;
        for (index, tokens) in tokens.chunks(block).enumerate() {
            let Output { logits, tape, workspace } = &mut *memory;
            let (start, count) = (index * block, tokens.len());
            let rows = hidden.view().rows_range(start, count);
            let target = logits.view_mut_of(count, self.config.vocab);
            self.logits_into(rows, tape, target, true, workspace);
            total += cross_entropy(logits, tokens, scale);
            if self.config.logit_cap.is_some() {
                multiply(logits.view_mut(), tape.slopes.view());
            }
            let d_rows = d_hidden.view_mut().rows_range(start, count);
            self.logits_backward(rows, memory, grads, d_rows);
        }
        let loss = total / counted as f64;
        match loss.is_finite() {
            true => Ok(loss),
            false => Err(ModelError::NonFinite { site: self.head_site(), what: "loss" }),
        }
    }

    /// Gradients of the head from that of the logits, which is in their place; adds the gradient
    /// of the rows to `d_rows`.
    fn logits_backward(
        &self,
        rows: MatRef<'_, f32>,
        memory: &mut Output<'_>,
        grads: &mut TransformerGrads,
        d_rows: MatMut<'_, f32>,
    ) {
        let Output { logits: d_logits, tape, workspace } = memory;
        let (config, parts) = (&self.config, &mut grads.parts);
        let [transform_tape, project_tape, head_tape] = &tape.ops;
        let count = rows.rows();
        // The input of each step, from the first to the last.
        let rows = rows.to_mat();
        let normed = if self.weights.final_norm.is_some() { &tape.normed } else { &rows };
        let transformed = if self.weights.transform.is_some() { &tape.transformed } else { normed };
        let projected =
            if self.weights.project_out.is_some() { &tape.projected } else { transformed };
        if let Some(grad) = &mut parts.tied_bias {
            for i in 0..count {
                linwright_tensor::kernels::elementwise::add(grad, d_logits.row(i));
            }
        }
        let mut d = workspace.take(count, config.embedding_width);
        match (&self.weights.head, &mut parts.head) {
            (Some(head), Some(grads)) => {
                let (dy, tape, dx) = (&**d_logits, head_tape, d.view_mut());
                slot_backward(head, SlotBackward { x: projected, dy, tape, dx, grads }, workspace);
            }
            _ => {
                let embedding = self.weights.embedding.trained().expect("checked before");
                let grad = MatMut::new(&mut parts.embedding, config.vocab, config.embedding_width);
                let (rows, of) = (Arg::Plain(projected.view()), Arg::Transposed(d_logits.view()));
                product(1.0, of, rows, grad, Write::Add);
                let of = Arg::Plain(d_logits.view());
                product(1.0, of, embedding.into(), d.view_mut(), Write::Set);
            }
        }
        let mut next = workspace.take(count, config.hidden);
        if let (Some(slot), Some(grads)) = (&self.weights.project_out, &mut parts.project_out) {
            let (tape, dx) = (project_tape, next.view_mut());
            slot_backward(
                slot,
                SlotBackward { x: transformed, dy: &d, tape, dx, grads },
                workspace,
            );
            std::mem::swap(&mut d, &mut next);
            next.resize(count, config.hidden);
        }
        if let (Some((slot, weights)), Some((slot_grads, norm_grads))) =
            (&self.weights.transform, &mut parts.transform)
        {
            next.data_mut().fill(0.0);
            through_norm(config, weights, &tape.acted, &d, &mut next, norm_grads);
            let mut dense = workspace.take(count, config.hidden);
            dense.view_mut().copy_from(tape.dense.view());
            activate_backward(config.head_activation(), dense.view_mut(), next.view());
            let args = SlotBackward {
                x: normed,
                dy: &dense,
                tape: transform_tape,
                dx: d.view_mut(),
                grads: slot_grads,
            };
            slot_backward(slot, args, workspace);
            workspace.give(dense);
        }
        match (&self.weights.final_norm, &mut parts.final_norm) {
            (Some(weights), Some(grads)) => {
                next.data_mut().fill(0.0);
                through_norm(config, weights, &rows, &d, &mut next, grads);
                add_rows(d_rows, next.view());
            }
            _ => add_rows(d_rows, d.view()),
        }
        workspace.give(d);
        workspace.give(next);
    }
}

fn ops_clear(tapes: [&mut Tape<f32>; 3]) {
    tapes.into_iter().for_each(Tape::clear);
}
