//! Reused memory, so that hot loops do not allocate, and rotary tables.

use super::embed::Embedded;
use super::head::HeadTape;
use crate::batch::Batch;
use crate::config::TransformerConfig;
use linwright_ops::{Tape, Workspace};
use linwright_tensor::Mat;
use linwright_tensor::kernels::rope::{RopeRows, RopeTable, Turn};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of a forward pass.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) workspace: Workspace<f32>,
    pub(super) layer: LayerTape,
    pub(super) head: HeadTape,
    pub(super) logits: Mat<f32>,
    /// For passes to slots.
    pub(super) training: TrainingMemory,
}

/// Spare scratch memory and rotary tables of a transformer. It is a cache: clones start empty, and
/// it changes no result.
#[derive(Debug, Default)]
pub(super) struct Memory {
    spare: Mutex<Vec<Scratch>>,
    /// Rotary tables by index of the rotary embedding and variant.
    tables: Mutex<BTreeMap<(usize, usize), Arc<RopeTable>>>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Largest number of cached tables: a model with a dynamic rotary base has one for each sequence
/// length.
const TABLES: usize = 16;

/// Rotary angles of a batch: for each rotary embedding, tables with the rows that they rotate.
#[derive(Debug)]
pub(super) struct Rotations {
    head_dim: usize,
    kinds: Vec<Vec<(Arc<RopeTable>, Vec<RopeRows>)>>,
}

impl Rotations {
    /// Applies one rotary embedding to queries or keys (rows, heads * head_dim).
    pub(super) fn rotate(&self, x: &mut Mat<f32>, kind: usize, turn: Turn) {
        for (table, rows) in &self.kinds[kind] {
            table.rotate(x.view_mut(), self.head_dim, rows, turn);
        }
    }
}

impl Memory {
    /// Runs `work` with scratch memory that is kept for the next call.
    pub(super) fn lend<R>(&self, work: impl FnOnce(&mut Scratch) -> R) -> R {
        let lock = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lock().pop().unwrap_or_default();
        let result = work(&mut scratch);
        lock().push(scratch);
        result
    }

    /// Frees unused scratch memory.
    pub(super) fn clear(&self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Rotary angles of a batch.
    pub(super) fn rotations(&self, config: &TransformerConfig, batch: &Batch) -> Rotations {
        let kind = |index: usize| {
            let mut groups: BTreeMap<usize, (usize, Vec<RopeRows>)> = BTreeMap::new();
            let firsts = batch.first_positions();
            for ((span, &first_position), end) in batch.spans().iter().zip(firsts).zip(batch.ends())
            {
                let (longest, rows) = groups.entry(config.ropes[index].variant(end)).or_default();
                *longest = end.max(*longest);
                rows.push(RopeRows { rows: span.clone(), first_position });
            }
            let table =
                |(variant, (longest, rows))| (self.table(config, index, variant, longest), rows);
            groups.into_iter().map(table).collect()
        };
        let kinds = (0..config.ropes.len()).map(kind).collect();
        Rotations { head_dim: config.head_dim, kinds }
    }

    /// Rotary angles for at least `positions` positions, of a variant of a rotary embedding of the
    /// configuration.
    fn table(
        &self,
        config: &TransformerConfig,
        index: usize,
        variant: usize,
        positions: usize,
    ) -> Arc<RopeTable> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(&(index, variant))
            && table.positions() >= positions
        {
            return Arc::clone(table);
        }
        if tables.len() >= TABLES {
            tables.clear();
        }
        // Grown to powers of two, so that growing sequences rarely rebuild it.
        let positions = positions.next_power_of_two();
        let rope = &config.ropes[index];
        let (frequencies, scale) = (rope.frequencies(variant), rope.attention_factor());
        let table = Arc::new(RopeTable::new(&frequencies, config.pairing(), scale, positions));
        tables.insert((index, variant), Arc::clone(&table));
        table
    }
}

/// Memory of a training step, kept between calls: intermediate results of every layer, and scratch.
#[derive(Debug, Default)]
pub struct TrainingMemory {
    pub(super) layers: Vec<LayerTape>,
    /// Scratch of stages without kept data.
    pub(super) below: LayerTape,
    pub(super) workspace: Workspace<f32>,
    pub(super) embedded: Embedded,
    pub(super) head: HeadTape,
    pub(super) hidden: Mat<f32>,
    pub(super) d_hidden: Mat<f32>,
    pub(super) logits: Mat<f32>,
}

/// Intermediate results of a layer for the backward pass.
#[derive(Debug, Default)]
pub(super) struct LayerTape {
    pub(super) attention: BranchTape,
    pub(super) mlp: BranchTape,
}

/// Intermediate results of attention or MLP.
#[derive(Debug, Default)]
pub(super) struct BranchTape {
    /// The residual stream before it.
    pub(super) input: Mat<f32>,
    /// Results of its input projections.
    pub(super) raw: Vec<Mat<f32>>,
    /// Queries, keys and values after rotation, if they differ from those results.
    pub(super) ready: [Mat<f32>; 3],
    /// Input of the output projection: attended values, or activations of the MLP.
    pub(super) inner: Mat<f32>,
    /// See [`Attention::forward`](linwright_tensor::kernels::attention::Attention::forward).
    pub(super) log_sums: Mat<f32>,
    /// Its output, if a norm follows.
    pub(super) output: Mat<f32>,
    /// The residual stream with its output, if a norm follows.
    pub(super) sum: Mat<f32>,
    /// Tapes of its linear layers, in order.
    pub(super) ops: Vec<Tape<f32>>,
}
