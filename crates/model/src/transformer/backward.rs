//! The backward pass, for training.
//!
//! The forward pass keeps for each layer the residual stream before each of its two stages
//! (attention, MLP), the projections, the attended queries, keys and values, the output of
//! attention, and the inputs of post-norms. Pre-norms and the activations of the MLP are cheap and
//! are recomputed.

use super::forward::Pass;
use super::grads::{BranchGrads, LayerGrads, NormGrads, SlotGrads};
use super::memory::{BranchTape, LayerTape, Rotations};
use super::weights::{Branch, Layer, NormWeights};
use super::{TrainingMemory, Transformer, TransformerGrads};
use crate::batch::Batch;
use crate::config::{ParallelNorms, TransformerConfig};
use crate::error::ModelError;
use linwright_ops::{Backward, LinearSlot, NoProbe, Tape, Workspace};
use linwright_tensor::kernels::cross_entropy::IGNORE;
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::norm::{norm, norm_backward};
use linwright_tensor::{Mat, MatMut};
use std::ops::Range;

impl Transformer {
    /// Mean negative log-likelihood in nats of `targets` (one token per row, `u32::MAX` for a row
    /// without a target); its gradient with respect to every parameter is added to `grads`.
    ///
    /// # Errors
    /// [`ModelError`] if tokens or targets are outside the vocabulary, there is no target, a weight
    /// is held in 16 bits, or numbers are not finite.
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
        if let Some((name, _)) = self.held_in_half() {
            return Err(ModelError::HeldInHalf { name });
        }
        let targets = self.check_targets(batch, targets)?;
        let rotations = self.memory.rotations(&self.config, batch);
        let TrainingMemory { layers, workspace, embedded, head, hidden, d_hidden, logits } = memory;
        layers.resize_with(self.weights.layers.len(), LayerTape::default);
        self.embed_into(batch, hidden, workspace, Some(embedded))?;
        let mut pass = Pass {
            config: &self.config,
            batch,
            rotations: &rotations,
            probe: &mut NoProbe,
            workspace,
            cache: None,
            index: 0,
            keep: true,
        };
        for (index, (layer, tape)) in self.weights.layers.iter().zip(&mut *layers).enumerate() {
            pass.index = index;
            pass.layer(layer, hidden, tape)?;
        }
        let mut output = super::head::Output { logits, tape: head, workspace };
        let loss = self.head_backward(hidden, targets, grads, d_hidden, &mut output)?;
        let mut back = BackwardPass {
            config: &self.config,
            spans: batch.spans(),
            rotations: &rotations,
            workspace,
            index: 0,
        };
        let all = self.weights.layers.iter().zip(layers).zip(&mut grads.parts.layers);
        for (index, ((layer, tape), grads)) in all.enumerate().rev() {
            back.index = index;
            back.layer(layer, tape, grads, d_hidden);
        }
        self.embed_backward(batch, embedded, d_hidden, grads, workspace);
        Ok(loss)
    }

    fn check_targets<'a>(
        &self,
        batch: &Batch,
        tokens: &'a [u32],
    ) -> Result<Targets<'a>, ModelError> {
        assert_eq!(tokens.len(), batch.len(), "one target a row");
        let vocab = self.config.vocab;
        let mut counted = 0;
        for (row, &token) in tokens.iter().enumerate().filter(|(_, token)| **token != IGNORE) {
            if token as usize >= vocab {
                return Err(ModelError::TokenOutOfRange { token, row, vocab });
            }
            counted += 1;
        }
        if counted == 0 { Err(ModelError::NoTargets) } else { Ok(Targets { tokens, counted }) }
    }
}

/// Targets that are within the vocabulary.
#[derive(Clone, Copy)]
pub(super) struct Targets<'a> {
    /// One for each row.
    pub(super) tokens: &'a [u32],
    /// Number of rows with a target, at least one.
    pub(super) counted: usize,
}

/// Arguments of the backward pass of attention or MLP, without its norms.
pub(super) struct BranchBackward<'a> {
    /// Its input (rows, hidden).
    pub(super) x: &'a Mat<f32>,
    /// Gradient of its output, of the same shape.
    pub(super) dy: &'a Mat<f32>,
    /// Results of its forward pass.
    pub(super) tape: &'a mut BranchTape,
    /// Receives the gradient of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of its parameters are added to these.
    pub(super) grads: &'a mut BranchGrads,
}

/// Arguments of the backward pass of a slot.
pub(super) struct SlotBackward<'a> {
    /// Its input (rows, inp).
    pub(super) x: &'a Mat<f32>,
    /// Gradient of its output (rows, out).
    pub(super) dy: &'a Mat<f32>,
    /// What its forward pass saved.
    pub(super) tape: &'a Tape<f32>,
    /// Receives the gradient of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of its parameters are added to these.
    pub(super) grads: &'a mut SlotGrads,
}

/// Arguments of the backward pass of slots with the same input, see [`SlotBackward`].
pub(super) struct SlotsBackward<'a> {
    /// Their input.
    pub(super) x: &'a Mat<f32>,
    /// Gradient of each output.
    pub(super) dy: &'a [Mat<f32>],
    /// What the forward pass of each saved.
    pub(super) tapes: &'a [Tape<f32>],
    /// Receives the sum of the gradients of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of the parameters of each are added to these.
    pub(super) grads: &'a mut [SlotGrads],
}

/// State of a backward pass.
pub(super) struct BackwardPass<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) spans: &'a [Range<usize>],
    pub(super) rotations: &'a Rotations,
    pub(super) workspace: &'a mut Workspace<f32>,
    /// Index of the current layer.
    pub(super) index: usize,
}

impl BackwardPass<'_> {
    /// Converts `d_hidden` from the gradient of a layer's output to that of its input.
    fn layer(
        &mut self,
        layer: &Layer,
        tape: &mut LayerTape,
        grads: &mut LayerGrads,
        d_hidden: &mut Mat<f32>,
    ) {
        if let (Some(_), Some(attention), Some(mlp)) =
            (self.config.parallel, &layer.attention, &layer.mlp)
        {
            return self.side_by_side(attention, mlp, tape, grads, d_hidden);
        }
        if let (Some(mlp), Some(grads)) = (&layer.mlp, &mut grads.mlp) {
            self.branch(mlp, &mut tape.mlp, grads, d_hidden, Self::mlp);
        }
        if let (Some(attention), Some(grads)) = (&layer.attention, &mut grads.attention) {
            self.branch(attention, &mut tape.attention, grads, d_hidden, Self::attention);
        }
    }

    /// The same for attention or MLP with its norms.
    fn branch(
        &mut self,
        branch: &Branch,
        tape: &mut BranchTape,
        grads: &mut BranchGrads,
        d_hidden: &mut Mat<f32>,
        compute: Compute<Self>,
    ) {
        if let (Some(weights), Some(grads)) = (&branch.on_sum, &mut grads.on_sum) {
            let before = self.before_norm(weights, &tape.sum, d_hidden, grads);
            self.workspace.give(std::mem::replace(d_hidden, before));
        }
        let d_output = match (&branch.after, &mut grads.after) {
            (Some(weights), Some(grads)) => {
                Some(self.before_norm(weights, &tape.output, d_hidden, grads))
            }
            _ => None,
        };
        let input = self.input(branch.before.as_ref(), &tape.input);
        let mut dx = self.workspace.take(d_hidden.rows(), d_hidden.cols());
        let dy = d_output.as_ref().unwrap_or(d_hidden);
        let args = BranchBackward { x: &input, dy, tape, dx: dx.view_mut(), grads };
        compute(self, branch, args);
        self.workspace.give(input);
        d_output.into_iter().for_each(|mat| self.workspace.give(mat));
        self.add_to_residual(branch, tape, dx, d_hidden, grads);
    }

    /// The same for parallel attention and MLP.
    fn side_by_side(
        &mut self,
        attention: &Branch,
        mlp: &Branch,
        tape: &mut LayerTape,
        grads: &mut LayerGrads,
        d_hidden: &mut Mat<f32>,
    ) {
        let LayerGrads { attention: Some(attention_grads), mlp: Some(mlp_grads) } = grads else {
            unreachable!("gradients of a model have its parts");
        };
        let input = self.input(attention.before.as_ref(), &tape.attention.input);
        let own = (self.config.parallel == Some(ParallelNorms::Own))
            .then(|| self.input(mlp.before.as_ref(), &tape.attention.input));
        let [mut dx, mut dz] =
            [(); 2].map(|()| self.workspace.take(d_hidden.rows(), d_hidden.cols()));
        let x = own.as_ref().unwrap_or(&input);
        let args = BranchBackward {
            x,
            dy: d_hidden,
            tape: &mut tape.mlp,
            dx: dz.view_mut(),
            grads: mlp_grads,
        };
        self.mlp(mlp, args);
        let args = BranchBackward {
            x: &input,
            dy: d_hidden,
            tape: &mut tape.attention,
            dx: dx.view_mut(),
            grads: attention_grads,
        };
        self.attention(attention, args);
        match own {
            Some(own) => {
                self.workspace.give(own);
                self.add_to_residual(mlp, &tape.attention, dz, d_hidden, mlp_grads);
            }
            None => {
                add(dx.data_mut(), dz.data());
                self.workspace.give(dz);
            }
        }
        self.workspace.give(input);
        self.add_to_residual(attention, &tape.attention, dx, d_hidden, attention_grads);
    }

    /// Adds the gradient of a stage's input to that of the residual stream, through its norm.
    fn add_to_residual(
        &mut self,
        branch: &Branch,
        tape: &BranchTape,
        dx: Mat<f32>,
        d_hidden: &mut Mat<f32>,
        grads: &mut BranchGrads,
    ) {
        match (&branch.before, &mut grads.before) {
            (Some(weights), Some(grads)) => {
                through_norm(self.config, weights, &tape.input, &dx, d_hidden, grads);
            }
            _ => add(d_hidden.data_mut(), dx.data()),
        }
        self.workspace.give(dx);
    }

    /// The gradient of a norm's input.
    fn before_norm(
        &mut self,
        weights: &NormWeights,
        rows: &Mat<f32>,
        d_normed: &Mat<f32>,
        grads: &mut NormGrads,
    ) -> Mat<f32> {
        let mut before = self.workspace.take(d_normed.rows(), d_normed.cols());
        before.data_mut().fill(0.0);
        through_norm(self.config, weights, rows, d_normed, &mut before, grads);
        before
    }

    /// Recomputes the input of attention or MLP.
    fn input(&mut self, weights: Option<&NormWeights>, rows: &Mat<f32>) -> Mat<f32> {
        let mut input = self.workspace.take(rows.rows(), rows.cols());
        match weights {
            Some(weights) => {
                norm(rows.view(), &weights.of(&self.config.norm, rows.cols()), input.view_mut());
            }
            None => input.view_mut().copy_from(rows.view()),
        }
        input
    }
}

/// Gradient function of attention or MLP.
type Compute<P> = fn(&mut P, &Branch, BranchBackward<'_>);

/// Adds the gradient of a norm's input `rows` to `into`, from that of its output.
pub(super) fn through_norm(
    config: &TransformerConfig,
    weights: &NormWeights,
    rows: &Mat<f32>,
    d_normed: &Mat<f32>,
    into: &mut Mat<f32>,
    grads: &mut NormGrads,
) {
    norm_backward(
        rows.view(),
        &weights.of(&config.norm, rows.cols()),
        d_normed.view(),
        into.view_mut(),
        grads.weight.as_deref_mut(),
        grads.bias.as_deref_mut(),
    );
}

/// Gradients of a slot.
pub(super) fn slot_backward(
    slot: &LinearSlot,
    args: SlotBackward<'_>,
    workspace: &mut Workspace<f32>,
) {
    let SlotBackward { x, dy, tape, dx, grads } = args;
    let (x, dy) = (x.view(), dy.view());
    let args = Backward { x, dy, tape, dx: Some(dx), grads: &mut grads.op };
    slot.backward(args, grads.bias.as_deref_mut(), workspace);
}

/// Gradients of slots with the same input.
pub(super) fn slots_backward(
    slots: &[LinearSlot],
    args: SlotsBackward<'_>,
    workspace: &mut Workspace<f32>,
) {
    let SlotsBackward { x, dy, tapes, mut dx, grads } = args;
    let mut part = workspace.take(dx.rows(), dx.cols());
    for (i, ((slot, dy), grads)) in slots.iter().zip(dy).zip(grads).enumerate() {
        let target = if i == 0 { dx.reborrow() } else { part.view_mut() };
        slot_backward(slot, SlotBackward { x, dy, tape: &tapes[i], dx: target, grads }, workspace);
        if i > 0 {
            linwright_tensor::kernels::elementwise::add_rows(dx.reborrow(), part.view());
        }
    }
    workspace.give(part);
}
