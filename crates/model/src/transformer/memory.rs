//! Memory that calls share, so that hot loops do not allocate, and the table of rotary angles.

use crate::config::{Rope, RopeScaling, TransformerConfig};
use linwright_ops::{Tape, Workspace};
use linwright_tensor::Mat;
use linwright_tensor::kernels::rope::{Pairing, RopeTable};
use std::sync::{Arc, Mutex, PoisonError};

/// What a forward pass computes in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) workspace: Workspace<f32>,
    pub(super) layer: LayerTape,
    pub(super) logits: Mat<f32>,
}

/// Spare scratch memory and the rotary table of a decoder. It is a cache: clones start empty, and
/// nothing in it changes a result.
#[derive(Debug, Default)]
pub(super) struct Memory {
    spare: Mutex<Vec<Scratch>>,
    table: Mutex<Arc<RopeTable>>,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::default()
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

    /// Rotary angles for at least `positions` positions.
    pub(super) fn rope_table(
        &self,
        config: &TransformerConfig,
        positions: usize,
    ) -> Arc<RopeTable> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.positions() < positions {
            // Grown to a power of two, so that sequences of growing length do not rebuild it often.
            let positions = positions.next_power_of_two();
            let frequencies = frequencies(config);
            *table = Arc::new(RopeTable::new(&frequencies, Pairing::Halves, 1.0, positions));
        }
        Arc::clone(&table)
    }
}

/// Radians per position of each pair of features, (head_dim / 2), rounded as transformers rounds.
///
/// Scaling of Llama 3: Dubey et al. 2024, arXiv:2407.21783, section 3.2, in the form of
/// `_compute_llama3_parameters` in transformers.
fn frequencies(config: &TransformerConfig) -> Vec<f32> {
    let Rope { theta, scaling } = config.rope;
    let plain = |pair: usize| {
        let exponent = (2 * pair) as f64 / config.head_dim as f64;
        f64::from((1.0 / theta.powf(exponent)) as f32)
    };
    let scaled = |frequency: f64| match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_positions,
        } => {
            let original = original_max_positions as f64;
            let wavelength = std::f64::consts::TAU / frequency;
            if wavelength < original / high_freq_factor {
                frequency
            } else if wavelength > original / low_freq_factor {
                frequency / factor
            } else {
                let span = high_freq_factor - low_freq_factor;
                let keep = (original / wavelength - low_freq_factor) / span;
                (1.0 - keep) * frequency / factor + keep * frequency
            }
        }
    };
    (0..config.head_dim / 2).map(|pair| scaled(plain(pair)) as f32).collect()
}

/// What a training step keeps between calls: intermediate results of every layer and scratch.
#[derive(Debug, Default)]
pub struct TrainingMemory {
    pub(super) layers: Vec<LayerTape>,
    pub(super) workspace: Workspace<f32>,
    pub(super) head: Tape<f32>,
    pub(super) hidden: Mat<f32>,
    pub(super) d_hidden: Mat<f32>,
    pub(super) logits: Mat<f32>,
}

/// What the forward pass of a layer leaves for the backward pass.
#[derive(Debug, Default)]
pub(super) struct LayerTape {
    pub(super) input: Mat<f32>,
    pub(super) query: Mat<f32>,
    pub(super) key: Mat<f32>,
    pub(super) value: Mat<f32>,
    pub(super) attended: Mat<f32>,
    pub(super) log_sums: Mat<f32>,
    pub(super) middle: Mat<f32>,
    pub(super) gate: Mat<f32>,
    pub(super) up: Mat<f32>,
    pub(super) ops: [Tape<f32>; 7],
}
