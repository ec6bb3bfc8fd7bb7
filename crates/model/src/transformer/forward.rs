//! The forward pass.

use super::Transformer;
use super::layer::Layer;
use super::memory::LayerTape;
use crate::batch::Batch;
use crate::config::TransformerConfig;
use crate::error::ModelError;
use linwright_ops::{LinearSlot, Probe, SiteId, Tape, Workspace};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::attention::{Attention, Inputs, Mask};
use linwright_tensor::kernels::elementwise::{add, all_finite};
use linwright_tensor::kernels::feed_forward::gated;
use linwright_tensor::kernels::norm::{Norm, NormKind, norm};
use linwright_tensor::kernels::rope::{RopeRows, RopeTable, Turn};
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

impl Transformer {
    /// Embeddings (rows, hidden) of the tokens of a batch.
    ///
    /// # Errors
    /// [`ModelError::TokenOutOfRange`] for a token that the vocabulary does not have.
    pub fn embed(&self, batch: &Batch) -> Result<Mat<f32>, ModelError> {
        let mut hidden = Mat::default();
        self.embed_into(batch, &mut hidden)?;
        Ok(hidden)
    }

    pub(super) fn embed_into(&self, batch: &Batch, into: &mut Mat<f32>) -> Result<(), ModelError> {
        let TransformerConfig { vocab, hidden, .. } = self.config;
        into.resize(batch.len(), hidden);
        for (row, &token) in batch.tokens().iter().enumerate() {
            if token as usize >= vocab {
                return Err(ModelError::TokenOutOfRange { token, row, vocab });
            }
            into.row_mut(row).copy_from_slice(self.embedding.row(token as usize));
        }
        Ok(())
    }

    /// Takes `hidden` (rows, hidden) through some layers, in place: to start or stop in the middle
    /// keep the rows and call again. Once the probe is satisfied the rest is left out, and the
    /// contents of `hidden` are unspecified.
    ///
    /// # Errors
    /// [`ModelError`] if the layers do not exist, a sequence is too long, or numbers are not
    /// finite.
    ///
    /// # Panics
    /// If `hidden` has not one row of the model's width for each token of `batch`.
    pub fn run_layers(
        &self,
        hidden: &mut Mat<f32>,
        batch: &Batch,
        layers: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), ModelError> {
        assert_eq!((hidden.rows(), hidden.cols()), (batch.len(), self.config.hidden), "hidden");
        let count = self.layers.len();
        let chosen = self.layers.get(layers.clone());
        let chosen = chosen.ok_or(ModelError::LayersOutOfRange { range: layers, layers: count })?;
        let rope = self.rope_for(batch)?;
        self.memory.lend(|memory| {
            let mut pass = Pass {
                config: &self.config,
                spans: batch.spans(),
                rope: &rope,
                probe,
                workspace: &mut memory.workspace,
                keep: false,
            };
            for layer in chosen {
                pass.layer(layer, hidden, &mut memory.layer)?;
                if pass.probe.satisfied() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The rotary table for a batch, whose sequences must not exceed the model's positions.
    pub(super) fn rope_for(&self, batch: &Batch) -> Result<std::sync::Arc<RopeTable>, ModelError> {
        let max = self.config.max_positions;
        for (sequence, span) in batch.spans().iter().enumerate() {
            if span.len() > max {
                return Err(ModelError::SequenceTooLong { sequence, length: span.len(), max });
            }
        }
        Ok(self.memory.rope_table(&self.config, batch.longest()))
    }
}

/// A forward pass on its way through the layers.
pub(super) struct Pass<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) spans: &'a [Range<usize>],
    pub(super) rope: &'a RopeTable,
    pub(super) probe: &'a mut dyn Probe,
    pub(super) workspace: &'a mut Workspace<f32>,
    /// Whether the tape must hold what a backward pass needs; otherwise it is scratch.
    pub(super) keep: bool,
}

impl Pass<'_> {
    /// One layer, in place.
    pub(super) fn layer(
        &mut self,
        layer: &Layer,
        hidden: &mut Mat<f32>,
        tape: &mut LayerTape,
    ) -> Result<(), ModelError> {
        if self.keep {
            tape.input.view_mut_of(hidden.rows(), hidden.cols()).copy_from(hidden.view());
        }
        self.attention(layer, hidden, tape)?;
        if self.keep {
            tape.middle.view_mut_of(hidden.rows(), hidden.cols()).copy_from(hidden.view());
        }
        if self.probe.satisfied() {
            return Ok(());
        }
        self.mlp(layer, hidden, tape)
    }

    fn attention(
        &mut self,
        layer: &Layer,
        hidden: &mut Mat<f32>,
        tape: &mut LayerTape,
    ) -> Result<(), ModelError> {
        let LayerTape { query, key, value, attended, log_sums, ops, .. } = tape;
        let [q, k, v, o, ..] = &layer.linears;
        let [q_tape, k_tape, v_tape, o_tape, ..] = ops;
        let normed = self.normed(hidden, &layer.norms[0]);
        self.linear(q, normed.view(), query, q_tape);
        self.linear(k, normed.view(), key, k_tape);
        self.linear(v, normed.view(), value, v_tape);
        let suspects = [(q, &*query), (k, &*key), (v, &*value)];
        let outcome = suspects.into_iter().try_for_each(|(slot, y)| finite(slot.id(), y));
        self.workspace.give(normed);
        outcome?;
        let (head_dim, rows) = (self.config.head_dim, rope_rows(self.spans));
        self.rope.rotate(query.view_mut(), head_dim, &rows, Turn::Forward);
        self.rope.rotate(key.view_mut(), head_dim, &rows, Turn::Forward);
        attended.resize(query.rows(), query.cols());
        let sums = self.keep.then(|| log_sums.view_mut_of(query.rows(), self.config.heads));
        let inputs = Inputs { query: query.view(), key: key.view(), value: value.view() };
        let target = attended.view_mut();
        attention_of(self.config).forward_packed(self.spans, inputs, target, sums);
        self.linear_into_residual(o, attended.view(), hidden, o_tape)
    }

    fn mlp(
        &mut self,
        layer: &Layer,
        hidden: &mut Mat<f32>,
        tape: &mut LayerTape,
    ) -> Result<(), ModelError> {
        let LayerTape { gate, up, ops, .. } = tape;
        let [.., gate_slot, up_slot, down_slot] = &layer.linears;
        let [.., gate_tape, up_tape, down_tape] = ops;
        let normed = self.normed(hidden, &layer.norms[1]);
        self.linear(gate_slot, normed.view(), gate, gate_tape);
        self.linear(up_slot, normed.view(), up, up_tape);
        self.workspace.give(normed);
        let mut inner = self.workspace.take(gate.rows(), gate.cols());
        gated(Activation::Silu, gate.view(), up.view(), inner.view_mut());
        let outcome = self.linear_into_residual(down_slot, inner.view(), hidden, down_tape);
        self.workspace.give(inner);
        if outcome.is_err() {
            // The product of gate and up overflows before they do; the first to blame is named.
            finite(gate_slot.id(), gate)?;
            finite(up_slot.id(), up)?;
        }
        outcome
    }

    fn normed(&mut self, hidden: &Mat<f32>, weight: &[f32]) -> Mat<f32> {
        let mut normed = self.workspace.take(hidden.rows(), hidden.cols());
        norm(hidden.view(), &norm_of(self.config, weight), normed.view_mut());
        normed
    }

    /// A slot's output, shown to the probe.
    fn linear(
        &mut self,
        slot: &LinearSlot,
        x: MatRef<'_, f32>,
        y: &mut Mat<f32>,
        tape: &mut Tape<f32>,
    ) {
        y.resize(x.rows(), slot.shape().out);
        tape.clear();
        slot.forward(x, y.view_mut(), self.keep.then_some(tape), self.workspace);
        if self.probe.wants(slot.id()) {
            self.probe.on_forward(slot.id(), x, y.view());
        }
    }

    /// Adds a slot's output to the residual stream.
    fn linear_into_residual(
        &mut self,
        slot: &LinearSlot,
        x: MatRef<'_, f32>,
        hidden: &mut Mat<f32>,
        tape: &mut Tape<f32>,
    ) -> Result<(), ModelError> {
        let mut y = self.workspace.take(x.rows(), slot.shape().out);
        self.linear(slot, x, &mut y, tape);
        let outcome = finite(slot.id(), &y);
        add(hidden.data_mut(), y.data());
        self.workspace.give(y);
        outcome
    }
}

/// The attention of a model's layers.
pub(super) fn attention_of(config: &TransformerConfig) -> Attention {
    Attention {
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        scale: 1.0 / (config.head_dim as f32).sqrt(),
        mask: Mask::Causal { window: config.sliding_window },
        softcap: None,
    }
}

/// The norm of a model's layers with this weight.
pub(super) fn norm_of<'a>(config: &TransformerConfig, weight: &'a [f32]) -> Norm<'a> {
    Norm {
        kind: NormKind::Rms,
        epsilon: config.norm_eps,
        weight: Some(weight),
        bias: None,
        offset: 0.0,
        group: config.hidden,
    }
}

/// The positions of packed sequences, which count from zero in each.
pub(super) fn rope_rows(spans: &[Range<usize>]) -> Vec<RopeRows> {
    spans.iter().map(|rows| RopeRows { rows: rows.clone(), first_position: 0 }).collect()
}

/// Whether the output of a site is finite.
fn finite(site: &SiteId, y: &Mat<f32>) -> Result<(), ModelError> {
    match all_finite(y.data()) {
        true => Ok(()),
        false => Err(ModelError::NonFinite { site: site.clone(), stage: "output" }),
    }
}
