//! The backward pass of a slot and of a norm.

use super::grads::{NormGrads, SlotGrads};
use super::weights::NormWeights;
use crate::config::TransformerConfig;
use linwright_ops::{Backward, LinearSlot, Tape, Workspace};
use linwright_tensor::kernels::norm::norm_backward;
use linwright_tensor::{Mat, MatMut, MatRef};

/// Arguments of the backward pass of a slot.
pub(super) struct SlotBackward<'a> {
    /// Its input (rows, inp), if it needs it.
    pub(super) x: Option<&'a Mat<f32>>,
    /// Gradient of its output (rows, out).
    pub(super) dy: &'a Mat<f32>,
    /// Data of its forward pass.
    pub(super) tape: &'a Tape<f32>,
    /// Receives the gradient of the input.
    pub(super) dx: MatMut<'a, f32>,
    /// The gradients of its parameters are added to these, if they are wanted.
    pub(super) grads: Option<&'a mut SlotGrads>,
}

/// Adds the gradient of a norm's input `rows` to `into`, from that of its output.
pub(super) fn through_norm(
    (config, weights): (&TransformerConfig, &NormWeights),
    rows: &Mat<f32>,
    d_normed: &Mat<f32>,
    into: &mut Mat<f32>,
    grads: Option<&mut NormGrads>,
) {
    let (weight, bias) = match grads {
        Some(NormGrads { weight, bias, .. }) => (weight.as_deref_mut(), bias.as_deref_mut()),
        None => (None, None),
    };
    norm_backward(
        rows.view(),
        &weights.of(&config.norm, rows.cols()),
        d_normed.view(),
        into.view_mut(),
        weight,
        bias,
    );
}

/// Gradients of input and parameters of a slot.
pub(super) fn slot_backward(
    slot: &LinearSlot,
    args: SlotBackward<'_>,
    workspace: &mut Workspace<f32>,
) {
    let SlotBackward { x, dy, tape, dx, grads } = args;
    // Operators with a weight read no input for the gradient of the input.
    let x = x.map_or(MatRef::new(&[], 0, 0), Mat::view);
    let (op, bias) = match grads {
        Some(SlotGrads { op, bias }) => (Some(op), bias.as_deref_mut()),
        None => (None, None),
    };
    slot.backward(Backward { x, dy: dy.view(), tape, dx: Some(dx), grads: op }, bias, workspace);
}
