//! The backward pass: for training, and down to the slots whose gradient a probe wants.
//!
//! The forward pass keeps for each layer the residual stream before each of its two stages
//! (attention, MLP), the projections, the attended queries, keys and values, the output of
//! attention, and the inputs of post-norms. Pre-norms and the activations of the MLP are cheap and
//! are recomputed. A pass to slots keeps nothing below the first of them, computes only gradients
//! of inputs, and ends there.

use super::forward::{Pass, Stream};
use super::grads::{BranchGrads, LayerGrads, NormGrads, SlotGrads};
use super::lens::Lens;
use super::memory::{BranchTape, LayerTape, Rotations};
use super::parts_backward::{SlotBackward, slot_backward, through_norm};
use super::weights::{Branch, Layer, NormWeights};
use super::{TrainingMemory, Transformer, TransformerGrads};
use crate::batch::Batch;
use crate::config::{ParallelNorms, TransformerConfig};
use crate::error::ModelError;
use linwright_ops::{
    CrossEntropy, Differentiable, LinearSlot, Network, NoProbe, OutputLoss, Probe, Sites, Tape,
    Workspace,
};
use linwright_tensor::kernels::cross_entropy::IGNORE;
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::norm::norm;
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
        self.check_targets(batch, targets)?;
        let mut loss = CrossEntropy::mean(targets);
        self.differentiate(batch, &mut loss, Some(grads), &mut NoProbe, memory)
    }

    /// Loss of a batch, and gradients of all parameters or, without `grads`, of the slots that the
    /// probe wants.
    fn differentiate(
        &self,
        batch: &Batch,
        loss: &mut dyn OutputLoss,
        mut grads: Option<&mut TransformerGrads>,
        probe: &mut dyn Probe,
        memory: &mut TrainingMemory,
    ) -> Result<f64, ModelError> {
        let reach = match grads {
            Some(_) => Reach { first: Some(0), slots: usize::MAX },
            None => self.reach(probe),
        };
        let first = reach.first.unwrap_or(self.stages());
        let rotations = self.memory.rotations(&self.config, batch);
        let TrainingMemory { layers, below, workspace, embedded, head, hidden, d_hidden, logits } =
            memory;
        layers.resize_with(self.weights.layers.len(), LayerTape::default);
        let mut lens = Lens::new(probe, batch);
        self.embed_into(batch, hidden, workspace, Some((embedded, &mut lens)))?;
        let mut pass = Pass {
            config: &self.config,
            batch,
            rotations: &rotations,
            lens,
            workspace,
            cache: None,
            index: 0,
            keep: false,
        };
        let mut stream = Stream::new(std::mem::take(hidden));
        for stage in 0..self.stages() {
            pass.keep = stage >= first;
            let tape = if pass.keep { &mut layers[stage / 2] } else { &mut *below };
            pass.stage(&self.weights.layers[stage / 2], stage, &mut stream, tape)?;
        }
        let Pass { mut lens, workspace, .. } = pass;
        *hidden = stream.into_rows();
        lens.ends_after(reach.slots);
        let mut output = super::head::Output { logits, tape: head, workspace, lens: &mut lens };
        let loss = self.head_backward(hidden, loss, grads.as_deref_mut(), d_hidden, &mut output)?;
        let (config, spans, rotations) = (&self.config, batch.spans(), &rotations);
        let mut back = BackwardPass { config, spans, rotations, workspace, index: 0, lens };
        for (index, layer) in self.weights.layers.iter().enumerate().skip(first / 2).rev() {
            if back.lens.is_done() {
                return Ok(loss);
            }
            back.index = index;
            let grads = grads.as_mut().map(|grads| &mut grads.parts.layers[index]);
            back.layer(layer, &mut layers[index], grads, d_hidden);
        }
        let BackwardPass { mut lens, workspace, .. } = back;
        if !lens.is_done() {
            self.embed_backward(batch, embedded, d_hidden, grads, (workspace, &mut lens));
        }
        Ok(loss)
    }

    /// Extent of the pass for the gradients that a probe wants.
    fn reach(&self, probe: &dyn Probe) -> Reach {
        let wants = |slot: &&LinearSlot| probe.wants_gradient(slot.id());
        let in_stages = self.slots().into_iter().filter(wants).filter_map(LinearSlot::stage);
        let in_stages: Vec<usize> = in_stages.collect();
        let embeds = self.weights.project_in.as_ref().is_some_and(|slot| wants(&slot));
        let first = if embeds { Some(0) } else { in_stages.iter().min().copied() };
        // Parallel attention and MLP share the data kept by the stage of attention.
        let first =
            first.map(|stage| if self.config.parallel.is_some() { stage & !1 } else { stage });
        Reach { first, slots: in_stages.len() + usize::from(embeds) }
    }

    fn check_targets(&self, batch: &Batch, tokens: &[u32]) -> Result<(), ModelError> {
        assert_eq!(tokens.len(), batch.len(), "one target a row");
        let vocab = self.config.vocab;
        let mut counted = tokens.iter().enumerate().filter(|(_, token)| **token != IGNORE);
        if counted.clone().next().is_none() {
            return Err(ModelError::NoTargets);
        }
        match counted.find(|(_, token)| **token as usize >= vocab) {
            Some((row, &token)) => Err(ModelError::TokenOutOfRange { token, row, vocab }),
            None => Ok(()),
        }
    }
}

impl Differentiable for Transformer {
    /// The loss of the logits (rows, vocab), which arrive in blocks of rows. Its targets must be
    /// below the size of the vocabulary.
    fn loss_to_slots(
        &self,
        batch: &Batch,
        loss: &mut dyn OutputLoss,
        probe: &mut dyn Probe,
    ) -> Result<f64, ModelError> {
        if !self.has_head() {
            return Err(ModelError::NoHead);
        }
        self.memory
            .lend(|memory| self.differentiate(batch, loss, None, probe, &mut memory.training))
    }
}

/// Extent of a backward pass.
struct Reach {
    /// The first stage with kept data; none if no slot of a stage is wanted.
    first: Option<usize>,
    /// Number of slots to show, after which it ends.
    slots: usize,
}

/// Arguments of the backward pass of attention or MLP, without its norms.
pub(super) struct BranchBackward<'a> {
    /// Its input (rows, hidden), if its input projections need it.
    pub(super) x: Option<&'a Mat<f32>>,
    /// Gradient of its output, of the same shape.
    pub(super) dy: &'a Mat<f32>,
    /// Results of its forward pass.
    pub(super) tape: &'a mut BranchTape,
    /// Receives the gradient of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of its parameters are added to these, if they are wanted.
    pub(super) grads: Option<&'a mut BranchGrads>,
}

/// Arguments of the backward pass of slots with the same input, see [`SlotBackward`].
pub(super) struct SlotsBackward<'a> {
    /// Their input, if one of them needs it.
    pub(super) x: Option<&'a Mat<f32>>,
    /// Gradient of each output.
    pub(super) dy: &'a [Mat<f32>],
    /// Data of the forward pass of each.
    pub(super) tapes: &'a [Tape<f32>],
    /// Receives the sum of the gradients of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of the parameters of each are added to these, if they are wanted.
    pub(super) grads: Option<&'a mut [SlotGrads]>,
}

/// State of a backward pass. Once its lens is done, further results are unspecified.
pub(super) struct BackwardPass<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) spans: &'a [Range<usize>],
    pub(super) rotations: &'a Rotations,
    pub(super) workspace: &'a mut Workspace<f32>,
    /// Index of the current layer.
    pub(super) index: usize,
    pub(super) lens: Lens<'a>,
}

impl BackwardPass<'_> {
    /// Converts `d_hidden` from the gradient of a layer's output to that of its input.
    fn layer(
        &mut self,
        layer: &Layer,
        tape: &mut LayerTape,
        grads: Option<&mut LayerGrads>,
        d_hidden: &mut Mat<f32>,
    ) {
        if let (Some(_), Some(attention), Some(mlp)) =
            (self.config.parallel, &layer.attention, &layer.mlp)
        {
            return self.side_by_side([attention, mlp], tape, grads, d_hidden);
        }
        let (of_attention, of_mlp) = match grads {
            Some(LayerGrads { attention, mlp }) => (attention.as_mut(), mlp.as_mut()),
            None => (None, None),
        };
        if let Some(mlp) = &layer.mlp {
            self.branch(mlp, &mut tape.mlp, of_mlp, d_hidden, Self::mlp);
        }
        if let Some(attention) = layer.attention.as_ref().filter(|_| !self.lens.is_done()) {
            self.branch(attention, &mut tape.attention, of_attention, d_hidden, Self::attention);
        }
    }

    /// The same for attention or MLP with its norms.
    fn branch(
        &mut self,
        branch: &Branch,
        tape: &mut BranchTape,
        mut grads: Option<&mut BranchGrads>,
        d_hidden: &mut Mat<f32>,
        compute: Compute<Self>,
    ) {
        if let Some(weights) = &branch.on_sum {
            let grads = grads.as_mut().and_then(|grads| grads.on_sum.as_mut());
            let before = self.before_norm(weights, &tape.sum, d_hidden, grads);
            self.workspace.give(std::mem::replace(d_hidden, before));
        }
        let d_output = branch.after.as_ref().map(|weights| {
            let grads = grads.as_mut().and_then(|grads| grads.after.as_mut());
            self.before_norm(weights, &tape.output, d_hidden, grads)
        });
        let input = self.input(branch, branch.before.as_ref(), &tape.input, grads.is_some());
        let mut dx = self.workspace.take(d_hidden.rows(), d_hidden.cols());
        let dy = d_output.as_ref().unwrap_or(d_hidden);
        let (x, of_branch) = (input.as_ref(), grads.as_deref_mut());
        let args = BranchBackward { x, dy, tape, dx: dx.view_mut(), grads: of_branch };
        compute(self, branch, args);
        input.into_iter().chain(d_output).for_each(|mat| self.workspace.give(mat));
        self.add_to_residual(branch, tape, dx, d_hidden, grads);
    }

    /// The same for parallel attention and MLP.
    fn side_by_side(
        &mut self,
        [attention, mlp]: [&Branch; 2],
        tape: &mut LayerTape,
        grads: Option<&mut LayerGrads>,
        d_hidden: &mut Mat<f32>,
    ) {
        let (mut of_attention, mut of_mlp) = match grads {
            Some(LayerGrads { attention, mlp }) => (attention.as_mut(), mlp.as_mut()),
            None => (None, None),
        };
        let has_own = self.config.parallel == Some(ParallelNorms::Own);
        let norm = if has_own { &mlp.before } else { &attention.before };
        let rows = &tape.attention.input;
        let all = of_mlp.is_some();
        let input = self.input(mlp, norm.as_ref(), rows, all);
        let mut dz = self.workspace.take(d_hidden.rows(), d_hidden.cols());
        let (x, dx, own) = (input.as_ref(), dz.view_mut(), of_mlp.as_deref_mut());
        self.mlp(mlp, BranchBackward { x, dy: d_hidden, tape: &mut tape.mlp, dx, grads: own });
        input.into_iter().for_each(|mat| self.workspace.give(mat));
        if self.lens.is_done() {
            return self.workspace.give(dz);
        }
        let input = self.input(attention, attention.before.as_ref(), rows, all);
        let mut dx = self.workspace.take(d_hidden.rows(), d_hidden.cols());
        let args = BranchBackward {
            x: input.as_ref(),
            dy: d_hidden,
            tape: &mut tape.attention,
            dx: dx.view_mut(),
            grads: of_attention.as_deref_mut(),
        };
        self.attention(attention, args);
        input.into_iter().for_each(|mat| self.workspace.give(mat));
        match has_own {
            true => self.add_to_residual(mlp, &tape.attention, dz, d_hidden, of_mlp),
            false => {
                add(dx.data_mut(), dz.data());
                self.workspace.give(dz);
            }
        }
        self.add_to_residual(attention, &tape.attention, dx, d_hidden, of_attention);
    }

    /// Adds the gradient of a stage's input to that of the residual stream, through its norm.
    fn add_to_residual(
        &mut self,
        branch: &Branch,
        tape: &BranchTape,
        dx: Mat<f32>,
        d_hidden: &mut Mat<f32>,
        grads: Option<&mut BranchGrads>,
    ) {
        match &branch.before {
            _ if self.lens.is_done() => {}
            Some(weights) => {
                let grads = grads.and_then(|grads| grads.before.as_mut());
                through_norm((self.config, weights), &tape.input, &dx, d_hidden, grads);
            }
            None => add(d_hidden.data_mut(), dx.data()),
        }
        self.workspace.give(dx);
    }

    /// The gradient of a norm's input.
    fn before_norm(
        &mut self,
        weights: &NormWeights,
        rows: &Mat<f32>,
        d_normed: &Mat<f32>,
        grads: Option<&mut NormGrads>,
    ) -> Mat<f32> {
        let mut before = self.workspace.take(d_normed.rows(), d_normed.cols());
        before.data_mut().fill(0.0);
        through_norm((self.config, weights), rows, d_normed, &mut before, grads);
        before
    }

    /// Recomputes the input of attention or MLP, if its input projections need it: for their
    /// gradients, for the probe, or for operators without a weight.
    fn input(
        &mut self,
        branch: &Branch,
        weights: Option<&NormWeights>,
        rows: &Mat<f32>,
        always: bool,
    ) -> Option<Mat<f32>> {
        let readers = match branch.inputs.as_slice() {
            [] => std::slice::from_ref(&branch.output),
            inputs => inputs,
        };
        if !always && !readers.iter().any(|slot| self.lens.needs_input(slot)) {
            return None;
        }
        let mut input = self.workspace.take(rows.rows(), rows.cols());
        match weights {
            Some(weights) => {
                norm(rows.view(), &weights.of(&self.config.norm, rows.cols()), input.view_mut());
            }
            None => input.view_mut().copy_from(rows.view()),
        }
        Some(input)
    }

    /// Shows the gradient of a slot, and computes those of its input and parameters.
    pub(super) fn slot(&mut self, slot: &LinearSlot, args: SlotBackward<'_>) {
        self.lens.show_gradient(slot, args.x.map(Mat::view), args.dy.view());
        if !self.lens.is_done() {
            slot_backward(slot, args, self.workspace);
        }
    }

    /// The same for slots with one input.
    pub(super) fn slots(&mut self, slots: &[LinearSlot], args: SlotsBackward<'_>) {
        let SlotsBackward { x, dy, tapes, mut dx, grads } = args;
        for (slot, dy) in slots.iter().zip(dy) {
            self.lens.show_gradient(slot, x.map(Mat::view), dy.view());
        }
        if self.lens.is_done() {
            return;
        }
        let mut grads = grads.map(|grads| grads.iter_mut());
        let mut part = self.workspace.take(dx.rows(), dx.cols());
        for (i, (slot, dy)) in slots.iter().zip(dy).enumerate() {
            let target = if i == 0 { dx.reborrow() } else { part.view_mut() };
            let grads = grads.as_mut().and_then(Iterator::next);
            let args = SlotBackward { x, dy, tape: &tapes[i], dx: target, grads };
            slot_backward(slot, args, self.workspace);
            if i > 0 {
                linwright_tensor::kernels::elementwise::add_rows(dx.reborrow(), part.view());
            }
        }
        self.workspace.give(part);
    }
}

/// Gradient function of attention or MLP.
type Compute<P> = fn(&mut P, &Branch, BranchBackward<'_>);
