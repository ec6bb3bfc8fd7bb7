//! Memory that calls share, so that hot loops do not allocate, and tables of rotary angles.

use super::embed::Embedded;
use super::head::HeadTape;
use crate::batch::Batch;
use crate::config::TransformerConfig;
use linwright_ops::{Tape, Workspace};
use linwright_tensor::Mat;
use linwright_tensor::kernels::rope::{RopeRows, RopeTable, Turn};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a forward pass computes in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) workspace: Workspace<f32>,
    pub(super) layer: LayerTape,
    pub(super) head: HeadTape,
    pub(super) logits: Mat<f32>,
}

/// Spare scratch memory and the rotary tables of a transformer. It is a cache: clones start empty,
/// and nothing in it changes a result.
#[derive(Debug, Default)]
pub(super) struct Memory {
    spare: Mutex<Vec<Scratch>>,
    /// By index of the rotary positions and their variant.
    tables: Mutex<BTreeMap<(usize, usize), Arc<RopeTable>>>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Most tables that are kept: a model whose frequencies depend on the length of a sequence has one
/// for each length.
const TABLES: usize = 16;

/// The rotary positions of a batch: for each kind, tables with the rows that they turn.
#[derive(Debug)]
pub(super) struct Rotations {
    head_dim: usize,
    kinds: Vec<Vec<(Arc<RopeTable>, Vec<RopeRows>)>>,
}

impl Rotations {
    /// Turns queries or keys (rows, heads * head_dim) by the positions of one kind.
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

    /// Frees the scratch memory that is not in use.
    pub(super) fn clear(&self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The rotary positions of a batch.
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
                |(variant, (longest, rows))| (self.table(config, (index, variant), longest), rows);
            groups.into_iter().map(table).collect()
        };
        let kinds = (0..config.ropes.len()).map(kind).collect();
        Rotations { head_dim: config.head_dim, kinds }
    }

    /// Rotary angles for at least `positions` positions.
    fn table(
        &self,
        config: &TransformerConfig,
        (index, variant): (usize, usize),
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
        // Grown to a power of two, so that sequences of growing length do not rebuild it often.
        let positions = positions.next_power_of_two();
        let rope = &config.ropes[index];
        let (frequencies, scale) = (rope.frequencies(variant), rope.attention_factor());
        let table = Arc::new(RopeTable::new(&frequencies, config.pairing(), scale, positions));
        tables.insert((index, variant), Arc::clone(&table));
        table
    }
}

/// What a training step keeps between calls: intermediate results of every layer and scratch.
#[derive(Debug, Default)]
pub struct TrainingMemory {
    pub(super) layers: Vec<LayerTape>,
    pub(super) workspace: Workspace<f32>,
    pub(super) embedded: Embedded,
    pub(super) head: HeadTape,
    pub(super) hidden: Mat<f32>,
    pub(super) d_hidden: Mat<f32>,
    pub(super) logits: Mat<f32>,
}

/// What the forward pass of a layer leaves for the backward pass.
#[derive(Debug, Default)]
pub(super) struct LayerTape {
    pub(super) attention: BranchTape,
    pub(super) mlp: BranchTape,
}

/// What the forward pass of attention or MLP leaves.
#[derive(Debug, Default)]
pub(super) struct BranchTape {
    /// The residual stream before it.
    pub(super) input: Mat<f32>,
    /// Results of the linears that lead into it.
    pub(super) raw: Vec<Mat<f32>>,
    /// Queries, keys and values as they attend, where they are not those results.
    pub(super) ready: [Mat<f32>; 3],
    /// What leads out of it: attended values, or what is inside the MLP.
    pub(super) inner: Mat<f32>,
    /// See [`Attention::forward`](linwright_tensor::kernels::attention::Attention::forward).
    pub(super) log_sums: Mat<f32>,
    /// Its output, where that is normalised.
    pub(super) output: Mat<f32>,
    /// The residual stream with its output, where that is normalised.
    pub(super) sum: Mat<f32>,
    /// Tapes of its linears, in their order.
    pub(super) ops: Vec<Tape<f32>>,
}
