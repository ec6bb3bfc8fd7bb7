//! Memory of a forward pass, without weights.

use super::Transformer;
use crate::config::AttentionConfig;
use linwright_ops::Sites;
use std::collections::BTreeMap;

/// Allowance for packed operands and allocator overhead, in percent.
const SPARE_PERCENT: usize = 30;
/// Copies of the residual stream within a layer.
const STREAMS: usize = 4;

impl Transformer {
    /// Upper bound of the memory in bytes per token of a batch, without weights: inputs and results
    /// of the linear layers in the widest layer, and the residual stream. Logits are computed in
    /// blocks and do not grow with the batch.
    #[must_use]
    pub fn bytes_per_token(&self) -> usize {
        let mut layers: BTreeMap<usize, usize> = BTreeMap::new();
        for slot in self.slots() {
            if let Some(layer) = slot.layer() {
                // Inputs come from another layer, and outputs may be repacked.
                *layers.entry(layer).or_default() += slot.shape().out + slot.shape().inp;
            }
        }
        let widest = layers.into_values().max().unwrap_or(0);
        let floats = widest + STREAMS * self.config().hidden;
        floats * size_of::<f32>() * (100 + SPARE_PERCENT) / 100
    }

    /// Memory in bytes that each token takes in a [`Cache`](super::Cache): keys and values of all
    /// layers.
    #[must_use]
    pub fn cache_bytes_per_token(&self) -> usize {
        let config = self.config();
        let features = config.layers.iter().map(|layer| match layer.attention {
            AttentionConfig::Heads(heads) => 2 * heads.kv_heads * config.head_dim,
            AttentionConfig::Linear | AttentionConfig::Absent => 0,
        });
        features.sum::<usize>() * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransformerConfig;
    use linwright_tensor::RngKey;

    #[test]
    fn the_widest_layer_counts() {
        let config = TransformerConfig::from_json(&serde_json::json!({
            "model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
            "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 11,
            "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
        }));
        let model = Transformer::random(config.unwrap(), RngKey::new(1));
        // Four projections of 16, three MLP matrices of 20, four residual streams of 8; four bytes
        // each plus 30 %.
        assert_eq!(model.bytes_per_token(), (4 * 16 + 3 * 20 + 32) * 4 * 130 / 100);
        // Keys and values of eight features in two layers.
        assert_eq!(model.cache_bytes_per_token(), 2 * 2 * 8 * 4);
    }
}
