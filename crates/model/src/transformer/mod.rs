//! The one decoder: a stack of pre-norm layers of attention and gated MLP.
//!
//! For the rows h (rows, hidden) of packed sequences, each layer computes
//!
//! ```text
//! q, k, v = rope(Wq n), rope(Wk n), Wv n        n = rms_norm(h)
//! h      += Wo softmax(q kᵀ / sqrt(head_dim)) v  causal, within the window, per head
//! h      += Wdown (silu(Wgate n) * Wup n)        n = rms_norm(h)
//! ```
//!
//! and the logits are `Whead rms_norm(h)`. Every `W` is a slot that holds any operator, and a bias
//! where the family has one. Source: Touvron et al. 2023, arXiv:2302.13971, section 2.2; grouped
//! queries from Ainslie et al. 2023, arXiv:2305.13245. Rotary positions pair feature i of a head
//! with feature i + head_dim / 2, as checkpoints of Hugging Face do, and not with its neighbour as
//! in the paper.

mod backward;
mod build;
mod forward;
mod grads;
mod layer;
mod memory;
mod score;

pub use build::{Fetch, TensorSource};
pub use grads::TransformerGrads;
pub use memory::TrainingMemory;
pub use score::TokenScore;

use crate::config::TransformerConfig;
use layer::Layer;
use linwright_ops::{LinearSlot, Sites};
use linwright_tensor::Mat;
use memory::Memory;
use std::sync::Arc;

/// A decoder of the Llama family with all its weights.
#[derive(Clone, Debug)]
pub struct Transformer {
    config: TransformerConfig,
    /// (vocab, hidden). Copies share it until one of them is changed, as they do dense weights.
    embedding: Arc<Mat<f32>>,
    layers: Vec<Layer>,
    /// Weight of the norm before the head (hidden).
    norm: Vec<f32>,
    /// The output matrix, unless it is the embedding.
    head: Option<LinearSlot>,
    memory: Memory,
}

impl Transformer {
    /// Its shape.
    #[must_use]
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// Frees what forward passes keep for the next one: some hundred megabytes after large batches.
    pub fn release_scratch(&self) {
        self.memory.clear();
    }

    /// Number of parameters as the model is now, operators in place of dense weights included.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let slots = self.slots();
        let now: usize = slots.iter().map(|slot| slot.parameters()).sum();
        let dense: usize = slots.iter().map(|slot| slot.shape().dense_parameters()).sum();
        self.config.parameters() + now as u64 - dense as u64
    }

    /// Shows every tensor that belongs to no slot, in the order of computation: name in
    /// checkpoints, shape, numbers. A tied head is the embedding and is not shown again.
    pub fn for_each_tensor(&self, show: &mut ShowTensor<'_>) {
        self.walk(&mut |part| {
            if let Part::Tensor(name, shape, values) = part {
                show(name, shape, values);
            }
        });
    }

    /// Shows every trainable tensor, those of operators and biases included, in the order of
    /// [`TransformerGrads::slices`].
    pub fn for_each_param(&self, show: &mut dyn FnMut(&str, &[f32])) {
        self.walk(&mut |part| match part {
            Part::Tensor(name, _, values) => show(name, values),
            Part::Slot(slot) => {
                for param in slot.op().map().params() {
                    show(&format!("{}.{}", slot.id(), param.name), param.values);
                }
                if let Some(bias) = slot.bias() {
                    show(&format!("{}.bias", slot.id()), bias);
                }
            }
        });
    }

    /// Lends every trainable tensor for change, in the order of [`TransformerGrads::slices`].
    pub fn for_each_param_mut(&mut self, change: &mut dyn FnMut(&str, &mut [f32])) {
        self.walk_mut(&mut |part| match part {
            PartMut::Tensor(name, values) => change(name, values),
            PartMut::Slot(slot) => {
                let id = slot.id().clone();
                for param in slot.op_mut().map_mut().params_mut() {
                    change(&format!("{id}.{}", param.name), param.values);
                }
                if let Some(bias) = slot.bias_mut() {
                    change(&format!("{id}.bias"), bias);
                }
            }
        });
    }

    /// All trainable tensors at once, by name and mutable, in the order of
    /// [`TransformerGrads::slices`].
    pub fn params_mut(&mut self) -> Vec<(String, &mut [f32])> {
        let mut all = Vec::new();
        self.walk_mut(&mut |part| match part {
            PartMut::Tensor(name, values) => all.push((name.to_owned(), values)),
            PartMut::Slot(slot) => {
                let id = slot.id().clone();
                let (op, bias) = slot.parts_mut();
                let params = op.map_mut().params_mut().into_iter();
                all.extend(params.map(|param| (format!("{id}.{}", param.name), param.values)));
                all.extend(bias.map(|bias| (format!("{id}.bias"), bias)));
            }
        });
        all
    }

    /// Visits all parts in the order of computation.
    fn walk<'a>(&'a self, visit: &mut dyn FnMut(Part<'a, '_>)) {
        let TransformerConfig { vocab, hidden, .. } = self.config;
        visit(Part::Tensor(crate::config::EMBEDDING, &[vocab, hidden], self.embedding.data()));
        for layer in &self.layers {
            layer.walk(visit);
        }
        visit(Part::Tensor(crate::config::FINAL_NORM, &[hidden], &self.norm));
        if let Some(head) = &self.head {
            visit(Part::Slot(head));
        }
    }

    /// Visits all parts in the order of computation.
    fn walk_mut<'a>(&'a mut self, visit: &mut dyn FnMut(PartMut<'a, '_>)) {
        visit(PartMut::Tensor(
            crate::config::EMBEDDING,
            Arc::make_mut(&mut self.embedding).data_mut(),
        ));
        for layer in &mut self.layers {
            layer.walk_mut(visit);
        }
        visit(PartMut::Tensor(crate::config::FINAL_NORM, &mut self.norm));
        if let Some(head) = &mut self.head {
            visit(PartMut::Slot(head));
        }
    }
}

/// A function that is shown a tensor: name in checkpoints, shape, numbers.
pub type ShowTensor<'a> = dyn FnMut(&str, &[usize], &[f32]) + 'a;

/// A part of a decoder that holds parameters: `'a` is the decoder's life, `'n` that of the name.
enum Part<'a, 'n> {
    /// Name, shape, numbers.
    Tensor(&'n str, &'n [usize], &'a [f32]),
    Slot(&'a LinearSlot),
}

/// The same, mutable.
enum PartMut<'a, 'n> {
    /// Name, numbers.
    Tensor(&'n str, &'a mut [f32]),
    Slot(&'a mut LinearSlot),
}

impl Sites for Transformer {
    fn slots(&self) -> Vec<&LinearSlot> {
        let mut slots = Vec::new();
        self.walk(&mut |part| {
            if let Part::Slot(slot) = part {
                slots.push(slot);
            }
        });
        slots
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        // Not through `walk_mut`, which lends the embedding too and would end its sharing.
        let layers = self.layers.iter_mut().flat_map(|layer| &mut layer.linears);
        layers.chain(&mut self.head).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use serde_json::json;

    #[test]
    fn an_edited_copy_shares_what_was_not_edited() {
        let config = TransformerConfig::from_json(&json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
            "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 5,
            "hidden_act": "silu", "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true,
        }))
        .expect("a valid config");
        let original = Transformer::random(config, RngKey::new(1));
        let mut copy = original.clone();
        let _ = copy.slots_mut();
        assert!(Arc::ptr_eq(&original.embedding, &copy.embedding));
        copy.for_each_param_mut(&mut |_, values| values.fill(0.0));
        assert!(original.embedding.data().iter().any(|&v| v != 0.0));
    }
}
