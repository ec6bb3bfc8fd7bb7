//! The head: from the output of the last layer to logits, and its backward pass.

use super::lens::Lens;
use super::parts_backward::{SlotBackward, slot_backward, through_norm};
use super::{Transformer, TransformerGrads};
use crate::error::ModelError;
use linwright_ops::{LinearSlot, OutputLoss, Tape, Workspace};
use linwright_tensor::kernels::elementwise::{add_rows, multiply, softcap};
use linwright_tensor::kernels::feed_forward::{activate, activate_backward};
use linwright_tensor::kernels::gemm::{Arg, Write, linears, product, through_weight};
use linwright_tensor::kernels::norm::norm;
use linwright_tensor::{Mat, MatMut, MatRef};
use std::ops::Range;

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

/// Memory of the loss computation, and its lens.
pub(super) struct Output<'a, 'p> {
    pub(super) logits: &'a mut Mat<f32>,
    pub(super) tape: &'a mut HeadTape,
    pub(super) workspace: &'a mut Workspace<f32>,
    pub(super) lens: &'a mut Lens<'p>,
}

/// A block of rows whose slots are shown.
pub(super) struct Block<'a, 'p> {
    pub(super) lens: &'a mut Lens<'p>,
    pub(super) rows: Range<usize>,
}

impl Transformer {
    /// Whether the model has a language-model head; a sentence encoder may have none.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.config.is_causal() || self.config.masked_head
    }

    /// Rows (rows, hidden) of the last layer's output after the final norm, if there is one.
    #[must_use]
    pub fn normed(&self, hidden: MatRef<'_, f32>) -> Mat<f32> {
        let mut normed = hidden.to_mat();
        if let Some(weights) = &self.weights.final_norm {
            let weights = weights.of(&self.config.norm, self.config.hidden);
            norm(hidden, &weights, normed.view_mut());
        }
        normed
    }

    /// Rows (tokens, hidden) of the head for some tokens, which are multiplied with the output of
    /// [`Self::normed`]; none if there is no head, or another layer in between.
    ///
    /// # Panics
    /// If a token is not in the vocabulary.
    #[must_use]
    pub fn head_rows(&self, tokens: &[u32]) -> Option<Mat<f32>> {
        if !self.has_head()
            || self.weights.transform.is_some()
            || self.weights.project_out.is_some()
        {
            return None;
        }
        let mut rows = Mat::zeros(tokens.len(), self.config.hidden);
        match &self.weights.head {
            Some(head) => {
                let dense = head.op().to_dense().ok()?;
                for (i, &token) in tokens.iter().enumerate() {
                    rows.row_mut(i).copy_from_slice(dense.row(token as usize));
                }
            }
            None => {
                for (i, &token) in tokens.iter().enumerate() {
                    self.weights.embedding.row(token as usize, Write::Set, rows.row_mut(i));
                }
            }
        }
        Some(rows)
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
            self.logits_into(hidden, &mut memory.head, target, None, &mut memory.workspace);
        });
        self.weights.release_head();
    }

    /// Writes the logits (rows, vocab); with `keep`, keeps the data for a backward pass, and shows
    /// the slots.
    pub(super) fn logits_into(
        &self,
        hidden: MatRef<'_, f32>,
        tape: &mut HeadTape,
        mut logits: MatMut<'_, f32>,
        mut keep: Option<Block<'_, '_>>,
        workspace: &mut Workspace<f32>,
    ) {
        assert!(self.has_head(), "a model without a head has no logits");
        let (config, rows) = (&self.config, hidden.rows());
        let HeadTape { normed, dense, acted, transformed, projected, slopes, ops } = tape;
        let [transform_tape, project_tape, head_tape] = ops;
        ops_clear([&mut *transform_tape, &mut *project_tape, &mut *head_tape]);
        let mut x = hidden;
        let mut forward = |slot: &LinearSlot, x, mut y: MatMut<'_, f32>, tape| {
            slot.forward(x, y.reborrow(), keep.is_some().then_some(tape), workspace);
            if let Some(block) = &mut keep {
                block.lens.show_block(slot, &block.rows, [x, y.as_ref()]);
            }
        };
        if let Some(weights) = &self.weights.final_norm {
            normed.resize(rows, config.hidden);
            norm(x, &weights.of(&config.norm, config.hidden), normed.view_mut());
            x = normed.view();
        }
        if let Some((slot, weights)) = &self.weights.transform {
            for mat in [&mut *dense, &mut *acted, &mut *transformed] {
                mat.resize(rows, config.hidden);
            }
            forward(slot, x, dense.view_mut(), transform_tape);
            activate(config.head_activation(), dense.view(), acted.view_mut());
            let weights = weights.of(&config.norm, config.hidden);
            norm(acted.view(), &weights, transformed.view_mut());
            x = transformed.view();
        }
        if let Some(slot) = &self.weights.project_out {
            projected.resize(rows, config.embedding_width);
            forward(slot, x, projected.view_mut(), project_tape);
            x = projected.view();
        }
        match &self.weights.head {
            Some(head) => forward(head, x, logits.reborrow(), head_tape),
            None => linears(x, &mut [(self.weights.embedding.weight(), logits.reborrow())]),
        }
        if let Some(bias) = &self.weights.tied_bias {
            // Broadcasts one vector to all rows: a row stride of zero.
            for i in 0..logits.rows() {
                bias.row(0, Write::Add, logits.row_mut(i));
            }
        }
        if let Some(cap) = config.logit_cap {
            let slopes = keep.is_some().then(|| slopes.view_mut_of(rows, config.vocab));
            softcap(logits, cap, slopes);
        }
    }

    /// Loss and gradients of the head, a block of rows at a time; writes the gradient of the last
    /// layer's output to `d_hidden`, if a slot below the head is wanted.
    pub(super) fn head_backward(
        &self,
        hidden: &Mat<f32>,
        loss: &mut dyn OutputLoss,
        mut grads: Option<&mut TransformerGrads>,
        d_hidden: &mut Mat<f32>,
        memory: &mut Output<'_, '_>,
    ) -> Result<f64, ModelError> {
        d_hidden.resize(hidden.rows(), self.config.hidden);
        d_hidden.data_mut().fill(0.0);
        let mut total = 0.0;
        for start in (0..hidden.rows()).step_by(self.rows_of_logits()) {
            let Output { logits, tape, workspace, lens } = &mut *memory;
            let count = self.rows_of_logits().min(hidden.rows() - start);
            let (rows, block) = (hidden.view().rows_range(start, count), start..start + count);
            let target = logits.view_mut_of(count, self.config.vocab);
            let keep = Some(Block { lens, rows: block.clone() });
            self.logits_into(rows, tape, target, keep, workspace);
            total += loss.of_rows(start, logits.view_mut());
            if self.config.logit_cap.is_some() {
                multiply(logits.view_mut(), tape.slopes.view());
            }
            let d_rows = d_hidden.view_mut().rows_range(start, count);
            self.logits_backward((rows, block), memory, grads.as_deref_mut(), d_rows);
        }
        match total.is_finite() {
            true => Ok(total),
            false => Err(ModelError::NonFinite { site: self.head_site(), what: "loss" }),
        }
    }

    /// Gradients of the head from that of the logits, which replaced them; adds the gradient of the
    /// rows to `d_rows`.
    fn logits_backward(
        &self,
        (rows, block): (MatRef<'_, f32>, Range<usize>),
        memory: &mut Output<'_, '_>,
        mut grads: Option<&mut TransformerGrads>,
        d_rows: MatMut<'_, f32>,
    ) {
        let Output { logits: d_logits, tape, workspace, lens } = memory;
        let [transform_tape, project_tape, head_tape] = &tape.ops;
        let (config, count) = (&self.config, rows.rows());
        // The input of each step, from the first to the last.
        let rows = rows.to_mat();
        let normed = if self.weights.final_norm.is_some() { &tape.normed } else { &rows };
        let transformed = if self.weights.transform.is_some() { &tape.transformed } else { normed };
        let projected =
            if self.weights.project_out.is_some() { &tape.projected } else { transformed };
        if let Some(head) = &self.weights.head {
            lens.show_block_gradient(head, &block, [projected.view(), d_logits.view()]);
        }
        let transform = self.weights.transform.as_ref().map(|(slot, _)| slot);
        let mut above = self.weights.project_out.iter().chain(transform);
        if grads.is_none() && lens.is_done() && !above.any(|slot| lens.wants_gradient(slot)) {
            return;
        }
        let mut d = workspace.take(count, config.embedding_width);
        self.output_backward(
            d_logits,
            (projected, head_tape),
            grads.as_deref_mut(),
            &mut d,
            workspace,
        );
        let mut next = workspace.take(count, config.hidden);
        if let Some(slot) = &self.weights.project_out {
            lens.show_block_gradient(slot, &block, [transformed.view(), d.view()]);
            let grads = grads.as_mut().and_then(|grads| grads.parts.project_out.as_mut());
            let (tape, dx) = (project_tape, next.view_mut());
            let args = SlotBackward { x: Some(transformed), dy: &d, tape, dx, grads };
            slot_backward(slot, args, workspace);
            std::mem::swap(&mut d, &mut next);
            next.resize(count, config.hidden);
        }
        if let Some((slot, weights)) = &self.weights.transform {
            let of_transform = grads.as_mut().and_then(|grads| grads.parts.transform.as_mut());
            let (of_slot, of_norm) = match of_transform {
                Some((slot, norm)) => (Some(slot), Some(norm)),
                None => (None, None),
            };
            next.data_mut().fill(0.0);
            through_norm((config, weights), &tape.acted, &d, &mut next, of_norm);
            let mut dense = workspace.take(count, config.hidden);
            dense.view_mut().copy_from(tape.dense.view());
            activate_backward(config.head_activation(), dense.view_mut(), next.view());
            lens.show_block_gradient(slot, &block, [normed.view(), dense.view()]);
            let (tape, dx) = (transform_tape, d.view_mut());
            let args = SlotBackward { x: Some(normed), dy: &dense, tape, dx, grads: of_slot };
            slot_backward(slot, args, workspace);
            workspace.give(dense);
        }
        match &self.weights.final_norm {
            Some(weights) => {
                let grads = grads.and_then(|grads| grads.parts.final_norm.as_mut());
                next.data_mut().fill(0.0);
                through_norm((config, weights), &rows, &d, &mut next, grads);
                add_rows(d_rows, next.view());
            }
            None => add_rows(d_rows, d.view()),
        }
        workspace.give(d);
        workspace.give(next);
    }

    /// Gradients of the output matrix, its bias and, in `d`, its input.
    fn output_backward(
        &self,
        d_logits: &Mat<f32>,
        (x, tape): (&Mat<f32>, &Tape<f32>),
        mut grads: Option<&mut TransformerGrads>,
        d: &mut Mat<f32>,
        workspace: &mut Workspace<f32>,
    ) {
        if let Some(grad) = grads.as_mut().and_then(|grads| grads.parts.tied_bias.as_mut()) {
            for i in 0..d_logits.rows() {
                linwright_tensor::kernels::elementwise::add(grad, d_logits.row(i));
            }
        }
        if let Some(head) = &self.weights.head {
            let grads = grads.and_then(|grads| grads.parts.head.as_mut());
            let dx = d.view_mut();
            let args = SlotBackward { x: Some(x), dy: d_logits, tape, dx, grads };
            return slot_backward(head, args, workspace);
        }
        if let Some(grads) = grads {
            let (vocab, width) = (self.config.vocab, self.config.embedding_width);
            let grad = MatMut::new(&mut grads.parts.embedding, vocab, width);
            let of = Arg::Transposed(d_logits.view());
            product(1.0, of, Arg::Plain(x.view()), grad, Write::Add);
        }
        through_weight(d_logits.view(), self.weights.embedding.weight(), d.view_mut());
    }
}

fn ops_clear(tapes: [&mut Tape<f32>; 3]) {
    tapes.into_iter().for_each(Tape::clear);
}
