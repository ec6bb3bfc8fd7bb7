//! Working memory of one structure, kept from one to the next.

use linwright_tensor::kernels::irreps::{COMPONENTS, PARTS};

/// What an interaction layer leaves for the pass back, by atom.
#[derive(Debug, Default)]
pub(super) struct LayerArena {
    /// Normalised tensors (atoms, 9, channels).
    pub normal: Vec<f32>,
    /// What they were multiplied by (atoms, channels).
    pub inverse: Vec<f32>,
    /// Mixed features.
    pub features: Vec<f32>,
    /// Messages.
    pub messages: Vec<f32>,
    /// Updates.
    pub updates: Vec<f32>,
}

/// All arrays, by atom in the order of the graph, or by entry of its rows.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Tensors of the embedding before and after mixing (atoms, 9, channels).
    pub embedded: Vec<f32>,
    pub mixed: Vec<f32>,
    /// Their squared norms (atoms, channels).
    pub norms: Vec<f32>,
    /// The scales' layers before nonlinearities (atoms, 2 channels), (atoms, 3 channels).
    pub hidden: Vec<f32>,
    pub scales: Vec<f32>,
    pub layers: Vec<LayerArena>,
    /// Tensors between layers (atoms, 9, channels); from the readout on their gradient.
    pub current: Vec<f32>,
    /// Gradients of features and messages.
    pub of_features: Vec<f32>,
    pub of_messages: Vec<f32>,
    pub energies: Vec<f32>,
    /// Gradients of distances by layers (entries).
    pub distances: Vec<f32>,
    /// Gradients of distances and shapes by the embedding (entries).
    pub directions: Vec<[f32; COMPONENTS]>,
}

impl Arena {
    /// Makes room. Contents are unspecified, but for zeros of what is added to.
    pub(super) fn fit(&mut self, [atoms, entries, layers, channels]: [usize; 4], forces: bool) {
        let (tensors, backward) = (atoms * COMPONENTS * channels, usize::from(forces));
        self.embedded.resize(tensors, 0.0);
        self.mixed.resize(tensors, 0.0);
        self.norms.resize(atoms * channels, 0.0);
        self.hidden.resize(atoms * 2 * channels, 0.0);
        self.scales.resize(atoms * PARTS * channels, 0.0);
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
        self.energies.resize(atoms, 0.0);
        self.distances.clear();
        self.distances.resize(entries * backward, 0.0);
        self.directions.resize(entries * backward, [0.0; COMPONENTS]);
    }

    pub(super) fn bytes(&self) -> usize {
        let Self { embedded, mixed, norms, hidden, scales, current, of_features, .. } = self;
        let mut numbers = self.energies.len() + self.distances.len() + self.of_messages.len();
        numbers += COMPONENTS * self.directions.len();
        for array in [embedded, mixed, norms, hidden, scales, current, of_features] {
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
