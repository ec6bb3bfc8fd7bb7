//! The KV cache: keys and values of earlier tokens, so that a step computes only new ones.

use super::Transformer;
use crate::config::AttentionConfig;
use linwright_tensor::MatRef;

/// KV cache of several sequences. Memory: for each token and layer two numbers per feature of its
/// key heads.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<LayerCache>,
    lengths: Vec<usize>,
}

/// Cache of one layer: keys and values (tokens, kv_heads * head_dim) of each sequence, row-major.
#[derive(Clone, Debug)]
pub(super) struct LayerCache {
    width: usize,
    sequences: Vec<[Vec<f32>; 2]>,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(model: &Transformer, sequences: usize) -> Self {
        let config = model.config();
        let layer = |layer: &crate::config::LayerConfig| LayerCache {
            width: match layer.attention {
                AttentionConfig::Heads(heads) => heads.kv_heads * config.head_dim,
                AttentionConfig::Linear | AttentionConfig::Absent => 0,
            },
            sequences: vec![Default::default(); sequences],
        };
        Self { layers: config.layers.iter().map(layer).collect(), lengths: vec![0; sequences] }
    }

    /// Number of cached tokens of each sequence.
    #[must_use]
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Selects the sequences with these indices, in this order; repeated indices make copies.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn select(&mut self, indices: &[usize]) {
        self.lengths = indices.iter().map(|&index| self.lengths[index]).collect();
        for layer in &mut self.layers {
            let mut left: Vec<Option<[Vec<f32>; 2]>> =
                layer.sequences.drain(..).map(Some).collect();
            for (nth, &index) in indices.iter().enumerate() {
                // The last use of a sequence takes it, earlier ones copy.
                let again = indices[nth + 1..].contains(&index);
                let taken = if again { left[index].clone() } else { left[index].take() };
                layer.sequences.push(taken.unwrap_or_default());
            }
        }
    }

    /// Truncates a sequence to its first `length` tokens.
    ///
    /// # Panics
    /// If the sequence is shorter.
    pub fn truncate(&mut self, sequence: usize, length: usize) {
        assert!(length <= self.lengths[sequence], "{length} of {} tokens", self.lengths[sequence]);
        self.lengths[sequence] = length;
        for layer in &mut self.layers {
            let numbers = length * layer.width;
            layer.sequences[sequence].iter_mut().for_each(|values| values.truncate(numbers));
        }
    }

    /// Appends the sequences of another cache of the same model.
    ///
    /// # Panics
    /// If the caches have different numbers of layers.
    pub fn append(&mut self, other: Self) {
        assert_eq!(self.layers.len(), other.layers.len(), "caches of one model");
        self.lengths.extend(other.lengths);
        for (layer, other) in self.layers.iter_mut().zip(other.layers) {
            layer.sequences.extend(other.sequences);
        }
    }

    /// Splits into one cache per sequence, in order.
    #[must_use]
    pub fn split(self) -> Vec<Self> {
        let empty = |layer: &LayerCache| LayerCache { width: layer.width, sequences: Vec::new() };
        let one = |&length: &usize| Self {
            layers: self.layers.iter().map(empty).collect(),
            lengths: vec![length],
        };
        let mut parts: Vec<Self> = self.lengths.iter().map(one).collect();
        for (index, layer) in self.layers.into_iter().enumerate() {
            for (part, sequence) in parts.iter_mut().zip(layer.sequences) {
                part.layers[index].sequences.push(sequence);
            }
        }
        parts
    }

    /// Removes tokens that a failed pass left after the last complete token of each sequence.
    pub(crate) fn repair(&mut self) {
        (0..self.lengths.len()).for_each(|i| self.truncate(i, self.lengths[i]));
    }

    pub(super) fn layer(&mut self, index: usize) -> &mut LayerCache {
        &mut self.layers[index]
    }

    pub(super) fn grow(&mut self, by: impl Iterator<Item = usize>) {
        self.lengths.iter_mut().zip(by).for_each(|(length, by)| *length += by);
    }
}

impl LayerCache {
    /// Appends keys and values (tokens, width) to a sequence.
    pub(super) fn append(&mut self, sequence: usize, new: [MatRef<'_, f32>; 2]) {
        for (held, new) in self.sequences[sequence].iter_mut().zip(new) {
            (0..new.rows()).for_each(|i| held.extend_from_slice(new.row(i)));
        }
    }

    /// Keys and values of a sequence.
    pub(super) fn of(&self, sequence: usize) -> [MatRef<'_, f32>; 2] {
        let view = |values: &'_ Vec<f32>| values.len() / self.width.max(1);
        let [keys, values] = &self.sequences[sequence];
        [MatRef::new(keys, view(keys), self.width), MatRef::new(values, view(values), self.width)]
    }
}
