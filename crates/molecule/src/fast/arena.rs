//! Working memory for one structure, reused for the next.

use super::blocks::{EmbeddingBlock, LayerStart};
use linwright_tensor::kernels::irreps::{COMPONENTS, PARTS};

/// Data of the embedding for the backward pass, by atom.
#[derive(Debug, Default)]
pub(super) struct EmbeddingArena {
    /// Tensors before and after mixing (atoms, 9, channels).
    embedded: Vec<f32>,
    mixed: Vec<f32>,
    /// Their squared norms (atoms, channels).
    norms: Vec<f32>,
    /// The scales' layers before nonlinearities (atoms, 2 channels), (atoms, 3 channels).
    hidden: Vec<f32>,
    scales: Vec<f32>,
}

impl EmbeddingArena {
    /// Parts for consecutive blocks of atoms.
    pub(super) fn blocks(
        &mut self,
        block: usize,
        channels: usize,
    ) -> impl Iterator<Item = EmbeddingBlock<'_>> {
        let (tensors, row) = (block * COMPONENTS * channels, block * channels);
        let embedded = self.embedded.chunks_mut(tensors).zip(self.mixed.chunks_mut(tensors));
        let hidden = self.norms.chunks_mut(row).zip(self.hidden.chunks_mut(2 * row));
        let all = embedded.zip(hidden).zip(self.scales.chunks_mut(PARTS * row));
        all.map(|(((embedded, mixed), (norms, hidden)), scales)| EmbeddingBlock {
            embedded,
            mixed,
            norms,
            hidden,
            scales,
        })
    }
}

/// Data of an interaction layer for the backward pass, by atom.
#[derive(Debug, Default)]
pub(super) struct LayerArena {
    /// Normalised tensors (atoms, 9, channels).
    pub normal: Vec<f32>,
    /// Their factors (atoms, channels).
    pub inverse: Vec<f32>,
    /// Mixed features.
    pub features: Vec<f32>,
    /// Messages.
    pub messages: Vec<f32>,
    /// Updates.
    pub updates: Vec<f32>,
}

impl LayerArena {
    /// Data at the start of consecutive blocks of atoms.
    pub(super) fn blocks(
        &mut self,
        block: usize,
        channels: usize,
    ) -> impl Iterator<Item = LayerStart<'_>> {
        let tensors = block * COMPONENTS * channels;
        let made = self.normal.chunks_mut(tensors).zip(self.features.chunks_mut(tensors));
        let made = made.zip(self.inverse.chunks_mut(block * channels));
        made.map(|((normal, features), inverse)| LayerStart { normal, inverse, features })
    }
}

/// All arrays, by atom in the order of the graph, or by entry of its rows.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub embedding: EmbeddingArena,
    pub layers: Vec<LayerArena>,
    /// Tensors between layers (atoms, 9, channels); their gradient after the readout.
    pub current: Vec<f32>,
    /// Gradients of features and messages, and of the messages of the layer before.
    pub of_features: Vec<f32>,
    pub of_messages: Vec<f32>,
    pub next_messages: Vec<f32>,
    pub energies: Vec<f32>,
    /// Gradients of distances by layers (entries).
    pub distances: Vec<f32>,
    /// Gradients of distances and shapes by the embedding (entries).
    pub directions: Vec<[f32; COMPONENTS]>,
}

impl Arena {
    /// Resizes. Contents are unspecified, except that accumulators are zero.
    pub(super) fn fit(&mut self, [atoms, entries, layers, channels]: [usize; 4], forces: bool) {
        let (tensors, backward) = (atoms * COMPONENTS * channels, usize::from(forces));
        let EmbeddingArena { embedded, mixed, norms, hidden, scales } = &mut self.embedding;
        embedded.resize(tensors, 0.0);
        mixed.resize(tensors, 0.0);
        norms.resize(atoms * channels, 0.0);
        hidden.resize(atoms * 2 * channels, 0.0);
        scales.resize(atoms * PARTS * channels, 0.0);
        self.layers.resize_with(layers, LayerArena::default);
        for layer in &mut self.layers {
            layer.inverse.resize(atoms * channels, 0.0);
            let LayerArena { normal, features, messages, updates, .. } = layer;
            for numbers in [normal, features, messages, updates] {
                numbers.resize(tensors, 0.0);
            }
        }
        self.current.resize(tensors, 0.0);
        self.of_features.resize(tensors * backward, 0.0);
        self.of_messages.resize(tensors * backward, 0.0);
        // A layer precedes another one.
        self.next_messages.resize(tensors * backward * usize::from(layers > 1), 0.0);
        self.energies.resize(atoms, 0.0);
        self.distances.clear();
        self.distances.resize(entries * backward, 0.0);
        self.directions.resize(entries * backward, [0.0; COMPONENTS]);
    }

    pub(super) fn bytes(&self) -> usize {
        let EmbeddingArena { embedded, mixed, norms, hidden, scales } = &self.embedding;
        let Self { current, of_features, of_messages, next_messages, .. } = self;
        let mut numbers = self.energies.len() + self.distances.len();
        numbers += COMPONENTS * self.directions.len();
        let of_gradients = [current, of_features, of_messages, next_messages];
        for array in [embedded, mixed, norms, hidden, scales].into_iter().chain(of_gradients) {
            numbers += array.len();
        }
        for layer in &self.layers {
            let LayerArena { normal, inverse, features, messages, updates } = layer;
            for array in [normal, inverse, features, messages, updates] {
                numbers += array.len();
            }
        }
        4 * numbers
    }
}
