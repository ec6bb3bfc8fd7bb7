//! The backward pass, for training.
//!
//! The forward pass keeps for each layer the residual stream before and between its halves, the
//! rotated queries and keys, values, what attention gave, gate and up. Norms and the product of
//! gate and up are cheap and are computed anew.

use super::forward::{Pass, attention_of, norm_of, rope_rows};
use super::grads::{LayerGrads, SlotGrads};
use super::layer::Layer;
use super::memory::LayerTape;
use super::{TrainingMemory, Transformer, TransformerGrads};
use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::error::ModelError;
use linwright_ops::{Backward, LinearSlot, NoProbe, Tape, Workspace};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::attention::{Gradients, Inputs};
use linwright_tensor::kernels::cross_entropy::{IGNORE, cross_entropy};
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::feed_forward::{gated, gated_backward};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::kernels::norm::{norm, norm_backward};
use linwright_tensor::kernels::rope::{RopeTable, Turn};
use linwright_tensor::{Mat, MatMut};
use std::ops::Range;

impl Transformer {
    /// Mean negative log-likelihood in nats of `targets` (one token a row, `u32::MAX` for a row
    /// that predicts nothing), and its gradient with respect to every parameter, added into
    /// `grads`.
    ///
    /// # Errors
    /// [`ModelError`] if tokens or targets are outside the vocabulary, there is no target, or
    /// numbers are not finite.
    ///
    /// # Panics
    /// If `targets` or `grads` do not belong to the batch or the model.
    pub fn loss_and_grads(
        &self,
        batch: &Batch,
        targets: &[u32],
        grads: &mut TransformerGrads,
        memory: &mut TrainingMemory,
    ) -> Result<f64, ModelError> {
        let counted = self.check_targets(batch, targets)?;
        let rope = self.rope_for(batch)?;
        let TrainingMemory { layers, workspace, head, hidden, d_hidden, logits } = memory;
        layers.resize_with(self.layers.len(), LayerTape::default);
        self.embed_into(batch, hidden)?;
        let mut pass = Pass {
            config: &self.config,
            spans: batch.spans(),
            rope: &rope,
            probe: &mut NoProbe,
            workspace,
            keep: true,
        };
        for (layer, tape) in self.layers.iter().zip(&mut *layers) {
            pass.layer(layer, hidden, tape)?;
        }
        let mut output = Output { logits, tape: head, workspace };
        let loss = self.head_backward((hidden, targets, counted), grads, d_hidden, &mut output)?;
        let mut back =
            BackwardPass { config: &self.config, spans: batch.spans(), rope: &rope, workspace };
        for ((layer, tape), grads) in self.layers.iter().zip(layers).zip(&mut grads.layers).rev() {
            back.mlp(layer, tape, grads, d_hidden);
            back.attention(layer, tape, grads, d_hidden);
        }
        for (row, &token) in batch.tokens().iter().enumerate() {
            let at = token as usize * self.config.hidden;
            let grad = &mut grads.embedding[at..at + self.config.hidden];
            grad.iter_mut().zip(d_hidden.row(row)).for_each(|(grad, d)| *grad += d);
        }
        Ok(loss)
    }

    /// Number of rows that have a target.
    fn check_targets(&self, batch: &Batch, targets: &[u32]) -> Result<usize, ModelError> {
        assert_eq!(targets.len(), batch.len(), "one target a row");
        let vocab = self.config.vocab;
        let mut counted = 0;
        for (row, &token) in targets.iter().enumerate().filter(|(_, token)| **token != IGNORE) {
            if token as usize >= vocab {
                return Err(ModelError::TokenOutOfRange { token, row, vocab });
            }
            counted += 1;
        }
        if counted == 0 { Err(ModelError::NoTargets) } else { Ok(counted) }
    }

    /// Loss, gradients of head and final norm, and into `d_hidden` that of the rows that left the
    /// last layer; a block of rows at a time.
    fn head_backward(
        &self,
        (hidden, targets, counted): (&Mat<f32>, &[u32], usize),
        grads: &mut TransformerGrads,
        d_hidden: &mut Mat<f32>,
        memory: &mut Output<'_>,
    ) -> Result<f64, ModelError> {
        let Output { logits, tape, workspace } = memory;
        let (scale, block, width) =
            (1.0 / counted as f32, self.rows_of_logits(), self.config.hidden);
        d_hidden.resize(hidden.rows(), width);
        d_hidden.data_mut().fill(0.0);
        let mut total = 0.0;
        for (index, targets) in targets.chunks(block).enumerate() {
            let (start, count) = (index * block, targets.len());
            let rows = hidden.view().rows_range(start, count);
            let mut normed = workspace.take(count, width);
            let mut d_normed = workspace.take(count, width);
            tape.clear();
            let target = logits.view_mut_of(count, self.config.vocab);
            self.logits_into(rows, &mut normed, target, Some(tape), workspace);
            total += cross_entropy(logits, targets, scale);
            match (&self.head, &mut grads.head) {
                (Some(head), Some(grads)) => {
                    let target = (Some(d_normed.view_mut()), grads);
                    slot_backward(head, (&normed, logits), tape, target, workspace);
                }
                _ => {
                    let (embedding, d_logits) = (self.embedding.view(), logits.view());
                    let grad = MatMut::new(&mut grads.embedding, self.config.vocab, width);
                    let rows = Arg::Plain(normed.view());
                    product(1.0, Arg::Transposed(d_logits), rows, grad, Write::Add);
                    let target = d_normed.view_mut();
                    product(1.0, Arg::Plain(d_logits), embedding.into(), target, Write::Set);
                }
            }
            let d_rows = d_hidden.view_mut().rows_range(start, count);
            let params = norm_of(&self.config, &self.norm);
            norm_backward(rows, &params, d_normed.view(), d_rows, Some(&mut grads.norm), None);
            workspace.give(normed);
            workspace.give(d_normed);
        }
        let loss = total / counted as f64;
        match loss.is_finite() {
            true => Ok(loss),
            false => Err(ModelError::NonFinite { site: self.head_site(), stage: "loss" }),
        }
    }
}

/// What the end of a training pass computes in.
struct Output<'a> {
    logits: &'a mut Mat<f32>,
    tape: &'a mut Tape<f32>,
    workspace: &'a mut Workspace<f32>,
}

/// A backward pass on its way through the layers.
struct BackwardPass<'a> {
    config: &'a TransformerConfig,
    spans: &'a [Range<usize>],
    rope: &'a RopeTable,
    workspace: &'a mut Workspace<f32>,
}

impl BackwardPass<'_> {
    /// Turns `d_hidden`, the gradient behind the layer's MLP, into the one before it. Gate and up
    /// on the tape are used up.
    fn mlp(
        &mut self,
        layer: &Layer,
        tape: &mut LayerTape,
        grads: &mut LayerGrads,
        d_hidden: &mut Mat<f32>,
    ) {
        let LayerTape { middle, gate, up, ops, .. } = tape;
        let [.., gate_slot, up_slot, down_slot] = &layer.linears;
        let [.., gate_tape, up_tape, down_tape] = ops;
        let [.., gate_grads, up_grads, down_grads] = &mut grads.linears;
        let (rows, width) = (d_hidden.rows(), self.config.hidden);

        let mut inner = self.workspace.take(rows, gate.cols());
        let mut d_inner = self.workspace.take(rows, gate.cols());
        gated(Activation::Silu, gate.view(), up.view(), inner.view_mut());
        let target = (Some(d_inner.view_mut()), down_grads);
        slot_backward(down_slot, (&inner, d_hidden), down_tape, target, self.workspace);
        gated_backward(Activation::Silu, gate.view_mut(), up.view_mut(), d_inner.view());
        self.workspace.give(inner);
        self.workspace.give(d_inner);

        let (normed, mut d_normed) = self.normed(middle, &layer.norms[1]);
        let target = (Some(d_normed.view_mut()), gate_grads);
        slot_backward(gate_slot, (&normed, gate), gate_tape, target, self.workspace);
        let mut part = self.workspace.take(rows, width);
        let target = (Some(part.view_mut()), up_grads);
        slot_backward(up_slot, (&normed, up), up_tape, target, self.workspace);
        add(d_normed.data_mut(), part.data());
        self.workspace.give(part);
        self.norm_backward(
            (middle, &layer.norms[1]),
            [normed, d_normed],
            d_hidden,
            &mut grads.norms[1],
        );
    }

    /// Turns `d_hidden`, the gradient behind the layer's attention, into the one before it.
    fn attention(
        &mut self,
        layer: &Layer,
        tape: &LayerTape,
        grads: &mut LayerGrads,
        d_hidden: &mut Mat<f32>,
    ) {
        let [q, k, v, o, ..] = &layer.linears;
        let [q_tape, k_tape, v_tape, o_tape, ..] = &tape.ops;
        let [q_grads, k_grads, v_grads, o_grads, ..] = &mut grads.linears;
        let rows = d_hidden.rows();
        let mut d_attended = self.workspace.take(rows, self.config.query_width());
        let target = (Some(d_attended.view_mut()), o_grads);
        slot_backward(o, (&tape.attended, d_hidden), o_tape, target, self.workspace);
        let [d_query, d_key, d_value] = self.attend_backward(tape, &d_attended);
        self.workspace.give(d_attended);

        let (normed, mut d_normed) = self.normed(&tape.input, &layer.norms[0]);
        let target = (Some(d_normed.view_mut()), q_grads);
        slot_backward(q, (&normed, &d_query), q_tape, target, self.workspace);
        let mut part = self.workspace.take(rows, self.config.hidden);
        for (slot, dy, tape, grads) in
            [(k, &d_key, k_tape, k_grads), (v, &d_value, v_tape, v_grads)]
        {
            let target = (Some(part.view_mut()), grads);
            slot_backward(slot, (&normed, dy), tape, target, self.workspace);
            add(d_normed.data_mut(), part.data());
        }
        [part, d_query, d_key, d_value].into_iter().for_each(|mat| self.workspace.give(mat));
        let norm = (&tape.input, layer.norms[0].as_slice());
        self.norm_backward(norm, [normed, d_normed], d_hidden, &mut grads.norms[0]);
    }

    /// Gradients of queries and keys before their rotation, and of values.
    fn attend_backward(&mut self, tape: &LayerTape, d_attended: &Mat<f32>) -> [Mat<f32>; 3] {
        let LayerTape { query, key, value, attended, log_sums, .. } = tape;
        let mut grads = [query, key, value].map(|mat| self.workspace.take(mat.rows(), mat.cols()));
        let [d_query, d_key, d_value] = &mut grads;
        attention_of(self.config).backward(
            self.spans,
            Inputs { query: query.view(), key: key.view(), value: value.view() },
            (attended.view(), log_sums.view()),
            d_attended.view(),
            Gradients {
                query: d_query.view_mut(),
                key: d_key.view_mut(),
                value: d_value.view_mut(),
            },
        );
        let (head_dim, rows) = (self.config.head_dim, rope_rows(self.spans));
        self.rope.rotate(d_query.view_mut(), head_dim, &rows, Turn::Back);
        self.rope.rotate(d_key.view_mut(), head_dim, &rows, Turn::Back);
        grads
    }

    /// The normalised rows anew, and memory for their gradient.
    fn normed(&mut self, rows: &Mat<f32>, weight: &[f32]) -> (Mat<f32>, Mat<f32>) {
        let mut normed = self.workspace.take(rows.rows(), rows.cols());
        norm(rows.view(), &norm_of(self.config, weight), normed.view_mut());
        (normed, self.workspace.take(rows.rows(), rows.cols()))
    }

    /// Adds the gradient that went through a norm to that of the residual stream, and gives memory
    /// back.
    fn norm_backward(
        &mut self,
        (rows, weight): (&Mat<f32>, &[f32]),
        [normed, d_normed]: [Mat<f32>; 2],
        d_hidden: &mut Mat<f32>,
        grad: &mut [f32],
    ) {
        let (params, d_rows) = (norm_of(self.config, weight), d_hidden.view_mut());
        norm_backward(rows.view(), &params, d_normed.view(), d_rows, Some(grad), None);
        self.workspace.give(normed);
        self.workspace.give(d_normed);
    }
}

/// Gradients of a slot, given its input and the gradient of its output.
fn slot_backward(
    slot: &LinearSlot,
    (x, dy): (&Mat<f32>, &Mat<f32>),
    tape: &Tape<f32>,
    (dx, grads): (Option<MatMut<'_, f32>>, &mut SlotGrads),
    workspace: &mut Workspace<f32>,
) {
    let args = Backward { x: x.view(), dy: dy.view(), tape, dx, grads: &mut grads.op };
    slot.backward(args, grads.bias.as_deref_mut(), workspace);
}
