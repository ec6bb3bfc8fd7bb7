//! The transformer of all decoders and encoders: a stack of layers of attention and MLP.
//!
//! For the rows h (rows, hidden) of packed sequences, a layer of a Llama computes
//!
//! ```text
//! q, k, v = rope(Wq n), rope(Wk n), Wv n        n = norm(h)
//! h      += Wo softmax(q kᵀ / sqrt(head_dim)) v  within the mask, per head
//! h      += Wdown (act(Wgate n) * Wup n)         n = norm(h)
//! ```
//!
//! and the logits are `Whead norm(h)`. Other families omit parts, add some, or order them
//! differently; [`TransformerConfig`] holds the choice, [`families`](crate::families) its source.
//! Every `W` is a slot that holds any operator, and a bias if the family has one. Sources: Vaswani
//! et al. 2017, arXiv:1706.03762; Touvron et al. 2023, arXiv:2302.13971, section 2.2; grouped
//! queries from Ainslie et al. 2023, arXiv:2305.13245; parallel attention and MLP from Wang and
//! Komatsuzaki 2021.

mod attend;
mod backward;
mod basis;
mod budget;
mod build;
mod cache;
mod depth;
mod embed;
mod forward;
mod fused;
mod grads;
mod head;
mod lens;
mod memory;
mod mlp;
mod parts_backward;
mod pool;
mod rank;
mod score;
mod stored;
mod weights;
mod widths;

pub use basis::{BasisError, centred_basis};
pub use build::{Fetch, Held, Orientation, TensorSource};
pub use cache::Cache;
pub use depth::LayersError;
pub use forward::Stream;
pub use grads::TransformerGrads;
pub use memory::TrainingMemory;
pub use pool::{Pooling, normalise_rows};
pub use rank::{Candidate, Ranked};
pub use score::{ShowLogits, TokenScore};
pub use stored::{Stored, StoredError};
pub use weights::{ShowTensor, Shown};
pub use widths::{KeptHeads, KeptWidths, WidthError};

use crate::Role;
use crate::config::TransformerConfig;
use crate::parts::Part;
use linwright_ops::{LinearSlot, SiteId, Sites};
use linwright_tensor::HalfType;
use memory::Memory;
use weights::Weights;

/// A transformer with all its weights.
#[derive(Clone, Debug)]
pub struct Transformer {
    config: TransformerConfig,
    weights: Weights,
    memory: Memory,
}

impl Transformer {
    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// Name and type of the first weight held in 16 bits, which cannot be trained, if there is one.
    #[must_use]
    pub fn held_in_half(&self) -> Option<(String, HalfType)> {
        self.weights.held_in_half()
    }

    /// Visits every tensor outside the slots in the order of computation: name in checkpoints,
    /// shape, numbers. A tied head is the embedding and is not visited again.
    pub fn for_each_tensor(&self, show: &mut ShowTensor<'_>) {
        self.weights.for_each_tensor(show);
    }

    /// Visits every trainable tensor, with those of operators and biases, in the order of
    /// [`TransformerGrads::slices`].
    pub fn for_each_param(&self, show: &mut dyn FnMut(&str, &[f32])) {
        self.weights.for_each_param(show);
    }

    /// Visits every trainable tensor mutably, in the order of [`TransformerGrads::slices`].
    pub fn for_each_param_mut(&mut self, change: &mut dyn FnMut(&str, &mut [f32])) {
        for (name, values) in self.params_mut() {
            change(&name, values);
        }
    }

    /// All trainable tensors at once, by name and mutable, in the order of
    /// [`TransformerGrads::slices`].
    pub fn params_mut(&mut self) -> Vec<(String, &mut [f32])> {
        self.weights.params_mut()
    }
}

impl Sites for Transformer {
    fn slots(&self) -> Vec<&LinearSlot> {
        let slot = |part| match part {
            Part::Slot(slot) => Some(slot),
            Part::Table(_) | Part::Norm(_) => None,
        };
        self.weights.each().into_iter().filter_map(slot).collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot> {
        let slot = |part| match part {
            Part::Slot(slot) => Some(slot),
            Part::Table(_) | Part::Norm(_) => None,
        };
        self.weights.each_mut().into_iter().filter_map(slot).collect()
    }

    fn part_rows(&self, id: &SiteId, part: &str) -> Option<Vec<usize>> {
        self.rows_of(self.slot(id)?, Role::parse(part)?)
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
        let place =
            |model: &Transformer| model.weights.embedding.trained().unwrap().data().as_ptr();
        assert_eq!(place(&original), place(&copy));
        copy.for_each_param_mut(&mut |_, values| values.fill(0.0));
        let kept = original.weights.embedding.trained().unwrap();
        assert!(kept.data().iter().any(|&v| v != 0.0));
    }
}
