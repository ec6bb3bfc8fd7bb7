//! Attention: projections, rotary embedding, scores, and output.

use super::backward::{BackwardPass, BranchBackward, SlotsBackward};
use super::forward::{Pass, finite};
use super::grads::{BranchGrads, NormGrads};
use super::memory::BranchTape;
use super::parts_backward::SlotBackward;
use super::weights::Branch;
use crate::config::{AttentionConfig, HeadsConfig, TransformerConfig};
use crate::error::ModelError;
use crate::families::Fused;
use linwright_ops::Tape;
use linwright_tensor::kernels::attention::{Attention, Given, Gradients, Inputs, Mask, Sequence};
use linwright_tensor::kernels::norm::{norm, norm_backward};
use linwright_tensor::kernels::rope::Turn;
use linwright_tensor::parallel::{self, ROW_BLOCK};
use linwright_tensor::{Mat, MatMut, MatRef};
use std::ops::Range;

/// Location of the attended queries, keys and values on the tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The results of three linear layers.
    Raw,
    /// Queries and keys in separate memory, since a backward pass needs the unrotated ones.
    Beside,
    /// In separate memory, split from one fused result.
    Cut,
}

impl Place {
    fn of(branch: &Branch, config: &TransformerConfig) -> Self {
        match branch.inputs.len() {
            1 => Self::Cut,
            _ if branch.inner.is_empty() && config.clip.is_none() => Self::Raw,
            _ => Self::Beside,
        }
    }
}

impl BranchTape {
    fn attending(&self, place: Place) -> [&Mat<f32>; 3] {
        let [query, key, value] = &self.ready;
        match place {
            Place::Raw => [&self.raw[0], &self.raw[1], &self.raw[2]],
            Place::Beside => [query, key, &self.raw[2]],
            Place::Cut => [query, key, value],
        }
    }

    /// Queries and keys, to be rotated.
    fn turning(&mut self, place: Place) -> [&mut Mat<f32>; 2] {
        let ([query, key, _], raw) = (&mut self.ready, self.raw.split_at_mut(1));
        match place {
            Place::Raw => [&mut raw.0[0], &mut raw.1[0]],
            Place::Beside | Place::Cut => [query, key],
        }
    }
}

impl Pass<'_> {
    /// Output of attention, to be added to the residual stream, from normalised rows.
    pub(super) fn attention(
        &mut self,
        branch: &Branch,
        x: MatRef<'_, f32>,
        y: &mut Mat<f32>,
        tape: &mut BranchTape,
    ) -> Result<(), ModelError> {
        tape.ops.resize_with(branch.inputs.len() + 1, Tape::default);
        if let Some(inner) = self.lens.known_input(&branch.output) {
            self.linear(&branch.output, inner.view(), y, &mut tape.ops[branch.inputs.len()]);
            return self.check(&branch.output, y);
        }
        let AttentionConfig::Heads(heads) = self.config.layers[self.index].attention else {
            self.linear(&branch.output, x, y, &mut tape.ops[0]);
            return self.check(&branch.output, y);
        };
        tape.raw.resize_with(branch.inputs.len(), Mat::default);
        self.linears(&branch.inputs, x, &mut tape.raw, &mut tape.ops[..branch.inputs.len()]);
        if self.lens.has_inputs() {
            return Ok(());
        }
        for (slot, raw) in branch.inputs.iter().zip(&tape.raw) {
            finite(slot.id(), raw)?;
        }
        let place = self.prepare(branch, heads, tape);
        if let Some(kind) = heads.rope {
            for x in tape.turning(place) {
                self.rotations.rotate(x, kind, Turn::Forward);
            }
        }
        self.attend(heads, place, tape);
        let BranchTape { inner, ops, .. } = tape;
        self.linear(&branch.output, inner.view(), y, &mut ops[branch.inputs.len()]);
        self.check(&branch.output, y)
    }

    /// Clamps, normalises or splits the projections.
    fn prepare(&mut self, branch: &Branch, heads: HeadsConfig, tape: &mut BranchTape) -> Place {
        let config = self.config;
        if let Some(clip) = config.clip {
            for raw in &mut tape.raw {
                raw.data_mut().iter_mut().for_each(|v| *v = v.clamp(-clip, clip));
            }
        }
        let place = Place::of(branch, config);
        let BranchTape { raw, ready, .. } = tape;
        match place {
            Place::Raw => {}
            Place::Cut => cut(config, heads, &raw[0], ready),
            Place::Beside => {
                for (i, ready) in ready.iter_mut().enumerate().take(2) {
                    ready.resize(raw[i].rows(), raw[i].cols());
                    match branch.inner.get(i) {
                        Some(weights) => {
                            let group = config.query_key_group(raw[i].cols());
                            let weights = weights.of(&config.norm, group);
                            norm(raw[i].view(), &weights, ready.view_mut());
                        }
                        None => ready.view_mut().copy_from(raw[i].view()),
                    }
                }
            }
        }
        place
    }

    fn attend(&mut self, heads: HeadsConfig, place: Place, tape: &mut BranchTape) {
        let (mut inner, mut sums) =
            (std::mem::take(&mut tape.inner), std::mem::take(&mut tape.log_sums));
        let [query, key, value] = tape.attending(place).map(Mat::view);
        inner.resize(query.rows(), query.cols());
        let attention = attention_of(self.config, heads);
        if let Some(cache) = self.cache.as_deref_mut() {
            let cache = cache.layer(self.index);
            for (i, span) in self.batch.spans().iter().enumerate() {
                let new = [key, value].map(|mat| mat.rows_range(span.start, span.len()));
                cache.append(i, new);
            }
            let sequence = |(i, span): (usize, &Range<usize>)| {
                let [key, value] = cache.of(i);
                Sequence { queries: span.clone(), key, value }
            };
            let sequences: Vec<_> = self.batch.spans().iter().enumerate().map(sequence).collect();
            attention.forward(query, &sequences, inner.view_mut(), None);
        } else if self.batch.is_branching() {
            self.attend_branches(&attention, [query, key, value], inner.view_mut());
        } else {
            let log_sums = self.keep.then(|| sums.view_mut_of(query.rows(), heads.heads));
            let inputs = Inputs { query, key, value };
            attention.forward_packed(self.batch.spans(), inputs, inner.view_mut(), log_sums);
        }
        (tape.inner, tape.log_sums) = (inner, sums);
    }

    /// Attention for sequences with shared prefixes: these attend to copies of the keys and values
    /// of their prefix, followed by their own.
    fn attend_branches(
        &mut self,
        attention: &Attention,
        [query, key, value]: [MatRef<'_, f32>; 3],
        inner: MatMut<'_, f32>,
    ) {
        assert!(!self.keep, "branches have no backward pass");
        let spans = self.batch.spans();
        let parent = |i: usize| self.batch.parent(i).map(|parent| spans[parent].clone());
        let lengths = spans.iter().enumerate();
        let copied = lengths.filter_map(|(i, span)| Some(parent(i)?.len() + span.len())).sum();
        let mut joined = [key, value].map(|mat| self.workspace.take(copied, mat.cols()));
        let mut starts = Vec::with_capacity(spans.len());
        let mut at = 0;
        for (i, span) in spans.iter().enumerate() {
            starts.push(at);
            for row in parent(i).into_iter().flat_map(|beginning| beginning.chain(span.clone())) {
                joined[0].row_mut(at).copy_from_slice(key.row(row));
                joined[1].row_mut(at).copy_from_slice(value.row(row));
                at += 1;
            }
        }
        let sequence = |(i, span): (usize, &Range<usize>)| {
            let [key, value] = match parent(i) {
                Some(beginning) => {
                    let rows = beginning.len() + span.len();
                    [0, 1].map(|of| joined[of].view().rows_range(starts[i], rows))
                }
                None => [key, value].map(|mat| mat.rows_range(span.start, span.len())),
            };
            Sequence { queries: span.clone(), key, value }
        };
        let sequences: Vec<_> = spans.iter().enumerate().map(sequence).collect();
        attention.forward(query, &sequences, inner, None);
        joined.into_iter().for_each(|mat| self.workspace.give(mat));
    }
}

impl BackwardPass<'_> {
    /// Gradients of attention.
    pub(super) fn attention(&mut self, branch: &Branch, args: BranchBackward<'_>) {
        let BranchBackward { x, dy, tape, dx, mut grads } = args;
        let of_output = grads.as_mut().map(|grads| &mut grads.output);
        let AttentionConfig::Heads(heads) = self.config.layers[self.index].attention else {
            let args = SlotBackward { x, dy, tape: &tape.ops[0], dx, grads: of_output };
            return self.slot(&branch.output, args);
        };
        let mut d_inner = self.workspace.take(dy.rows(), heads.heads * self.config.head_dim);
        let args = SlotBackward {
            x: Some(&tape.inner),
            dy,
            tape: &tape.ops[branch.inputs.len()],
            dx: d_inner.view_mut(),
            grads: of_output,
        };
        self.slot(&branch.output, args);
        if self.lens.is_done() {
            return self.workspace.give(d_inner);
        }
        let mut d_ready = self.attend_backward(branch, heads, tape, &d_inner);
        self.workspace.give(d_inner);
        self.prepare_backward(branch, heads, tape, grads.as_deref_mut(), &mut d_ready);
        let tapes = &tape.ops[..branch.inputs.len()];
        let of_inputs = grads.map(|grads| grads.inputs.as_mut_slice());
        let args = SlotsBackward { x, dy: &d_ready, tapes, dx, grads: of_inputs };
        self.slots(&branch.inputs, args);
        d_ready.into_iter().for_each(|mat| self.workspace.give(mat));
    }

    /// Gradients of queries and keys before rotation, and of values.
    fn attend_backward(
        &mut self,
        branch: &Branch,
        heads: HeadsConfig,
        tape: &BranchTape,
        d_inner: &Mat<f32>,
    ) -> Vec<Mat<f32>> {
        let attending = tape.attending(Place::of(branch, self.config));
        let [query, key, value] = attending.map(Mat::view);
        let mut grads = attending.map(|mat| self.workspace.take(mat.rows(), mat.cols()));
        let [d_query, d_key, d_value] = grads.each_mut().map(Mat::view_mut);
        attention_of(self.config, heads).backward(
            self.spans,
            Inputs { query, key, value },
            Given {
                output: tape.inner.view(),
                log_sums: tape.log_sums.view(),
                d_output: d_inner.view(),
            },
            Gradients { query: d_query, key: d_key, value: d_value },
        );
        if let Some(kind) = heads.rope {
            for grad in &mut grads[..2] {
                self.rotations.rotate(grad, kind, Turn::Back);
            }
        }
        grads.into()
    }

    /// Converts gradients of queries, keys and values to gradients of the projections.
    fn prepare_backward(
        &mut self,
        branch: &Branch,
        heads: HeadsConfig,
        tape: &BranchTape,
        mut grads: Option<&mut BranchGrads>,
        d_ready: &mut Vec<Mat<f32>>,
    ) {
        let config = self.config;
        if Place::of(branch, config) == Place::Cut {
            let raw = &tape.raw[0];
            let mut joined = self.workspace.take(raw.rows(), raw.cols());
            join(config, heads, d_ready, &mut joined);
            d_ready.drain(..).for_each(|mat| self.workspace.give(mat));
            d_ready.push(joined);
        }
        for (i, weights) in branch.inner.iter().enumerate() {
            let raw = &tape.raw[i];
            let mut d_raw = self.workspace.take(raw.rows(), raw.cols());
            d_raw.data_mut().fill(0.0);
            let group = config.query_key_group(raw.cols());
            let (weight, bias) = match &mut grads {
                Some(grads) => {
                    let NormGrads { weight, bias, .. } = &mut grads.inner[i];
                    (weight.as_deref_mut(), bias.as_deref_mut())
                }
                None => (None, None),
            };
            norm_backward(
                raw.view(),
                &weights.of(&config.norm, group),
                d_ready[i].view(),
                d_raw.view_mut(),
                weight,
                bias,
            );
            self.workspace.give(std::mem::replace(&mut d_ready[i], d_raw));
        }
        if let Some(clip) = config.clip {
            for (d_raw, raw) in d_ready.iter_mut().zip(&tape.raw) {
                let clipped = raw.data().iter().map(|v| v.abs() >= clip);
                d_raw
                    .data_mut()
                    .iter_mut()
                    .zip(clipped)
                    .filter(|(_, c)| *c)
                    .for_each(|(d, _)| *d = 0.0);
            }
        }
    }
}

/// The attention of a layer.
fn attention_of(config: &TransformerConfig, heads: HeadsConfig) -> Attention {
    let causal = Mask::Causal { window: heads.window };
    Attention {
        heads: heads.heads,
        kv_heads: heads.kv_heads,
        head_dim: config.head_dim,
        scale: heads.scale,
        mask: if config.is_causal() { causal } else { Mask::None },
        softcap: config.score_cap,
    }
}

/// Location of queries, keys and values in a fused result: for each the first columns of its runs,
/// and the number of columns in a run.
pub(super) fn runs(config: &TransformerConfig, heads: HeadsConfig) -> [(Vec<usize>, usize); 3] {
    let [query, kv] = [heads.heads, heads.kv_heads].map(|heads| heads * config.head_dim);
    match config.family.fused {
        Fused::Whole => [(vec![0], query), (vec![query], kv), (vec![query + kv], kv)],
        Fused::ByHead => [0, 1, 2].map(|nth| {
            let first = |head| (3 * head + nth) * config.head_dim;
            ((0..heads.heads).map(first).collect(), config.head_dim)
        }),
    }
}

/// Splits a fused result into queries, keys and values.
fn cut(config: &TransformerConfig, heads: HeadsConfig, fused: &Mat<f32>, into: &mut [Mat<f32>; 3]) {
    for ((starts, len), into) in runs(config, heads).into_iter().zip(into) {
        into.resize(fused.rows(), starts.len() * len);
        parallel::for_each(into.view_mut().row_blocks(ROW_BLOCK), |block, mut rows| {
            for i in 0..rows.rows() {
                let from = fused.row(block * ROW_BLOCK + i);
                for (run, start) in rows.row_mut(i).chunks_exact_mut(len).zip(&starts) {
                    run.copy_from_slice(&from[*start..start + len]);
                }
            }
        });
    }
}

/// The inverse of [`cut`].
fn join(config: &TransformerConfig, heads: HeadsConfig, parts: &[Mat<f32>], into: &mut Mat<f32>) {
    let runs = runs(config, heads);
    parallel::for_each(into.view_mut().row_blocks(ROW_BLOCK), |block, mut rows| {
        for i in 0..rows.rows() {
            let into = rows.row_mut(i);
            for ((starts, len), part) in runs.iter().zip(parts) {
                let from = part.row(block * ROW_BLOCK + i);
                for (run, start) in from.chunks_exact(*len).zip(starts) {
                    into[*start..start + len].copy_from_slice(run);
                }
            }
        }
    });
}
