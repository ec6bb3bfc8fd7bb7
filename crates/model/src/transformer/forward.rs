//! The forward pass.

use super::Transformer;
use super::cache::Cache;
use super::lens::Lens;
use super::memory::{BranchTape, LayerTape, Rotations};
use super::weights::{Branch, Layer, NormWeights};
use crate::batch::Batch;
use crate::config::{ParallelNorms, TransformerConfig};
use crate::error::ModelError;
use linwright_ops::{LinearSlot, Network, NoProbe, Probe, SiteId, Sites, Tape, Workspace};
use linwright_tensor::kernels::elementwise::{add, all_finite};
use linwright_tensor::kernels::norm::norm;
use linwright_tensor::{Mat, MatRef};
use std::ops::Range;

impl Transformer {
    /// Runs layers on the residual stream `hidden` (rows, hidden), in place: to start or stop in
    /// the middle, keep the rows and call again. Once the probe has finished the rest is skipped,
    /// and the contents of `hidden` are unspecified.
    ///
    /// # Errors
    /// [`ModelError`] if the layers do not exist, a sequence is too long, or numbers are not
    /// finite.
    ///
    /// # Panics
    /// Unless `hidden` has one row of the model's width for each token of `batch`, or the batch
    /// continues sequences that are not in it.
    pub fn run_layers(
        &self,
        hidden: &mut Mat<f32>,
        batch: &Batch,
        layers: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), ModelError> {
        let mut firsts = batch.first_positions().iter().enumerate();
        let is_whole = |(i, &first): (usize, &usize)| first == 0 || batch.parent(i).is_some();
        assert!(firsts.all(is_whole), "whole sequences");
        self.run(hidden, batch, layers, probe, None)
    }

    /// Runs all layers on `hidden` for sequences with a KV cache, and appends their keys and values
    /// to it.
    ///
    /// # Errors
    /// As [`Self::run_layers`].
    ///
    /// # Panics
    /// If the batch does not continue the sequences of the cache.
    pub fn continue_layers(
        &self,
        hidden: &mut Mat<f32>,
        batch: &Batch,
        cache: &mut Cache,
    ) -> Result<(), ModelError> {
        assert_eq!(batch.first_positions(), cache.lengths(), "where the cached sequences end");
        let layers = 0..self.config.layers.len();
        self.run(hidden, batch, layers, &mut NoProbe, Some(cache))?;
        cache.grow(batch.spans().iter().map(Range::len));
        Ok(())
    }

    fn run(
        &self,
        hidden: &mut Mat<f32>,
        batch: &Batch,
        layers: Range<usize>,
        probe: &mut dyn Probe,
        cache: Option<&mut Cache>,
    ) -> Result<(), ModelError> {
        let count = self.weights.layers.len();
        if layers.start > layers.end || layers.end > count {
            return Err(ModelError::LayersOutOfRange { range: layers, layers: count });
        }
        let mut stream = Stream::new(std::mem::take(hidden));
        let outcome =
            self.run_stream(&mut stream, batch, 2 * layers.start..2 * layers.end, probe, cache);
        *hidden = stream.rows;
        outcome
    }

    /// Runs stages on a stream.
    fn run_stream(
        &self,
        stream: &mut Stream,
        batch: &Batch,
        stages: Range<usize>,
        probe: &mut dyn Probe,
        cache: Option<&mut Cache>,
    ) -> Result<(), ModelError> {
        let shape = (stream.rows.rows(), stream.rows.cols());
        assert_eq!(shape, (batch.len(), self.config.hidden), "hidden");
        self.check_lengths(batch)?;
        let rotations = self.memory.rotations(&self.config, batch);
        self.memory.lend(|memory| {
            let mut pass = Pass {
                config: &self.config,
                batch,
                rotations: &rotations,
                lens: Lens::new(probe, batch),
                workspace: &mut memory.workspace,
                cache,
                index: 0,
                keep: false,
            };
            for stage in stages {
                let layer = &self.weights.layers[stage / 2];
                let done = pass.stage(layer, stage, stream, &mut memory.layer);
                // A model larger than memory has one stage in memory at a time.
                let branch = if stage % 2 == 0 { &layer.attention } else { &layer.mlp };
                branch.iter().for_each(Branch::release);
                done?;
                if pass.lens.is_satisfied() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Checks that no sequence exceeds the longest input.
    pub(super) fn check_lengths(&self, batch: &Batch) -> Result<(), ModelError> {
        let max = self.config.max_positions;
        for (sequence, length) in batch.ends().enumerate() {
            if length > max {
                return Err(ModelError::SequenceTooLong { sequence, length, max });
            }
        }
        Ok(())
    }
}

impl Network for Transformer {
    type Input = Batch;
    type State = Stream;
    type Error = ModelError;

    /// Two per layer: attention and MLP. The MLP mixes no rows.
    fn stages(&self) -> usize {
        2 * self.config.layers.len()
    }

    fn begin(&self, batch: &Batch) -> Result<Stream, ModelError> {
        Ok(Stream::new(self.embed(batch)?))
    }

    fn run_stages(
        &self,
        stream: &mut Stream,
        batch: &Batch,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), ModelError> {
        assert!(stages.end <= self.stages(), "{stages:?} of {} stages", self.stages());
        self.run_stream(stream, batch, stages, probe, None)
    }

    fn ends_stage(&self, site: &SiteId) -> bool {
        let layers = self.weights.layers.iter();
        let mut branches = layers.flat_map(|layer| [&layer.attention, &layer.mlp]).flatten();
        branches.any(|branch| branch.output.id() == site)
    }

    fn state_bytes(Stream { rows, beside }: &Stream) -> usize {
        4 * (rows.data().len() + beside.as_ref().map_or(0, |rows| rows.data().len()))
    }

    fn state_matrices(Stream { rows, beside }: &mut Stream) -> Vec<&mut Mat<f32>> {
        [Some(rows), beside.as_mut()].into_iter().flatten().collect()
    }

    fn other_parameters(&self) -> u64 {
        let slots = self.slots().into_iter();
        let dense: usize = slots.map(|slot| slot.shape().dense_parameters()).sum();
        self.config.parameters() - dense as u64
    }

    fn release_scratch(&self) {
        self.memory.clear();
    }
}

/// Residual stream between stages.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The residual stream (rows, hidden).
    rows: Mat<f32>,
    /// Output of attention that is added after the MLP, between the stages of a layer with parallel
    /// attention and MLP.
    beside: Option<Mat<f32>>,
}

impl Stream {
    /// The stream before the first stage, or before any attention stage.
    #[must_use]
    pub fn new(rows: Mat<f32>) -> Self {
        Self { rows, beside: None }
    }

    /// Selects some rows.
    ///
    /// # Panics
    /// If a row is out of range.
    #[must_use]
    pub fn chosen(&self, indices: &[usize]) -> Self {
        let selected = |all: &Mat<f32>| {
            let mut some = Mat::zeros(indices.len(), all.cols());
            for (to, &from) in indices.iter().enumerate() {
                some.row_mut(to).copy_from_slice(all.row(from));
            }
            some
        };
        Self { rows: selected(&self.rows), beside: self.beside.as_ref().map(selected) }
    }

    /// The rows after the last stage, or after any MLP stage.
    ///
    /// # Panics
    /// Between the stages of a layer with parallel attention and MLP.
    #[must_use]
    pub fn into_rows(self) -> Mat<f32> {
        assert!(self.beside.is_none(), "rows between two stages of a layer");
        self.rows
    }
}

/// State of a forward pass.
pub(super) struct Pass<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) batch: &'a Batch,
    pub(super) rotations: &'a Rotations,
    pub(super) lens: Lens<'a>,
    pub(super) workspace: &'a mut Workspace<f32>,
    /// The KV cache.
    pub(super) cache: Option<&'a mut Cache>,
    /// Index of the current layer.
    pub(super) index: usize,
    /// Whether the tape must keep intermediate results for a backward pass; otherwise it is
    /// scratch.
    pub(super) keep: bool,
}

impl Pass<'_> {
    /// Runs a stage, in place: attention or MLP of a layer.
    pub(super) fn stage(
        &mut self,
        layer: &Layer,
        stage: usize,
        stream: &mut Stream,
        tape: &mut LayerTape,
    ) -> Result<(), ModelError> {
        self.index = stage / 2;
        let is_mlp = stage % 2 == 1;
        let (Some(norms), Some(attention), Some(mlp)) =
            (self.config.parallel, &layer.attention, &layer.mlp)
        else {
            return self.half(layer, is_mlp, &mut stream.rows, tape);
        };
        if !is_mlp {
            self.keep_input(&stream.rows, &mut tape.attention);
        }
        let norm = if is_mlp && norms == ParallelNorms::Own { mlp } else { attention };
        let input = self.normed_or_copied(norm.before.as_ref(), &stream.rows);
        let mut y = self.workspace.take(stream.rows.rows(), stream.rows.cols());
        let outcome = match is_mlp {
            false => self.attention(attention, input.view(), &mut y, &mut tape.attention),
            true => self.mlp(mlp, input.view(), &mut y, &mut tape.mlp),
        };
        self.workspace.give(input);
        if !is_mlp {
            stream.beside = Some(y);
            return outcome;
        }
        add(stream.rows.data_mut(), y.data());
        self.workspace.give(y);
        if let Some(beside) = stream.beside.take() {
            add(stream.rows.data_mut(), beside.data());
            self.workspace.give(beside);
        }
        outcome
    }

    /// Runs attention or MLP of a sequential layer, in place.
    fn half(
        &mut self,
        layer: &Layer,
        is_mlp: bool,
        hidden: &mut Mat<f32>,
        tape: &mut LayerTape,
    ) -> Result<(), ModelError> {
        match (is_mlp, &layer.attention, &layer.mlp) {
            (false, Some(own), _) => self.branch(own, hidden, &mut tape.attention, Self::attention),
            (true, _, Some(own)) => self.branch(own, hidden, &mut tape.mlp, Self::mlp),
            (false, None, _) | (true, _, None) => Ok(()),
        }
    }

    /// Runs attention or MLP with its norms, in place.
    fn branch(
        &mut self,
        branch: &Branch,
        hidden: &mut Mat<f32>,
        tape: &mut BranchTape,
        compute: Compute<Self>,
    ) -> Result<(), ModelError> {
        self.keep_input(hidden, tape);
        let input = self.normed_or_copied(branch.before.as_ref(), hidden);
        let mut y = self.workspace.take(hidden.rows(), hidden.cols());
        let outcome = compute(self, branch, input.view(), &mut y, tape);
        self.workspace.give(input);
        let y = self.normed(branch.after.as_ref(), y, self.keep.then_some(&mut tape.output));
        add(hidden.data_mut(), y.data());
        self.workspace.give(y);
        if branch.on_sum.is_some() {
            let sum = std::mem::take(hidden);
            let kept = self.keep.then_some(&mut tape.sum);
            *hidden = self.normed(branch.on_sum.as_ref(), sum, kept);
        }
        outcome
    }

    fn keep_input(&self, hidden: &Mat<f32>, tape: &mut BranchTape) {
        if self.keep {
            tape.input.view_mut_of(hidden.rows(), hidden.cols()).copy_from(hidden.view());
        }
    }

    /// The input of attention or MLP.
    fn normed_or_copied(&mut self, weights: Option<&NormWeights>, rows: &Mat<f32>) -> Mat<f32> {
        let mut input = self.workspace.take(rows.rows(), rows.cols());
        match weights {
            Some(weights) => {
                norm(rows.view(), &weights.of(&self.config.norm, rows.cols()), input.view_mut());
            }
            None => input.view_mut().copy_from(rows.view()),
        }
        input
    }

    /// Applies a norm, if there is one, and keeps its input on the tape.
    fn normed(
        &mut self,
        weights: Option<&NormWeights>,
        rows: Mat<f32>,
        kept: Option<&mut Mat<f32>>,
    ) -> Mat<f32> {
        let Some(weights) = weights else {
            return rows;
        };
        let mut normed = self.workspace.take(rows.rows(), rows.cols());
        norm(rows.view(), &weights.of(&self.config.norm, rows.cols()), normed.view_mut());
        match kept {
            Some(kept) => self.workspace.give(std::mem::replace(kept, rows)),
            None => self.workspace.give(rows),
        }
        normed
    }

    /// Outputs of slots with the same input, shown to the probe; unspecified once it has all inputs
    /// that it needs.
    pub(super) fn linears(
        &mut self,
        slots: &[LinearSlot],
        x: MatRef<'_, f32>,
        ys: &mut [Mat<f32>],
        tapes: &mut [Tape<f32>],
    ) {
        for ((slot, y), tape) in slots.iter().zip(&mut *ys).zip(&mut *tapes) {
            y.resize(x.rows(), slot.shape().out);
            tape.clear();
        }
        let shown = slots.iter().filter(|slot| self.lens.show_input(slot, x)).count();
        if self.lens.has_inputs() {
            return;
        }
        if !LinearSlot::forward_together(slots, x, ys) {
            for ((slot, y), tape) in slots.iter().zip(&mut *ys).zip(tapes) {
                slot.forward(x, y.view_mut(), self.keep.then_some(tape), self.workspace);
            }
        }
        if shown == 0 {
            slots.iter().zip(ys).for_each(|(slot, y)| self.lens.show(slot, x, y.view()));
        }
    }

    /// Checks the output of a slot, if it was computed.
    pub(super) fn check(&self, slot: &LinearSlot, y: &Mat<f32>) -> Result<(), ModelError> {
        if self.lens.has_inputs() { Ok(()) } else { finite(slot.id(), y) }
    }

    /// Output of a slot, shown to the probe; unspecified once it has all inputs that it needs.
    pub(super) fn linear(
        &mut self,
        slot: &LinearSlot,
        x: MatRef<'_, f32>,
        y: &mut Mat<f32>,
        tape: &mut Tape<f32>,
    ) {
        y.resize(x.rows(), slot.shape().out);
        tape.clear();
        let shown = self.lens.show_input(slot, x);
        if self.lens.has_inputs() {
            return;
        }
        slot.forward(x, y.view_mut(), self.keep.then_some(tape), self.workspace);
        if !shown {
            self.lens.show(slot, x, y.view());
        }
    }
}

/// Computes the output of attention or MLP.
type Compute<P> =
    fn(&mut P, &Branch, MatRef<'_, f32>, &mut Mat<f32>, &mut BranchTape) -> Result<(), ModelError>;

/// Whether the output of a site is finite.
pub(super) fn finite(site: &SiteId, y: &Mat<f32>) -> Result<(), ModelError> {
    match all_finite(y.data()) {
        true => Ok(()),
        false => Err(ModelError::NonFinite { site: site.clone(), what: "output" }),
    }
}
