//! What a forward pass needs beside the weights.

use super::Transformer;
use linwright_ops::Sites;
use std::collections::BTreeMap;

/// Room for packed operands and for what an allocator keeps, as a share in percent.
const SPARE_PERCENT: usize = 30;
/// Copies of the residual stream that a layer holds.
const STREAMS: usize = 4;

impl Transformer {
    /// Bytes of memory that each token of a batch takes beside the weights, with room to spare:
    /// results of the linear layers of the widest layer, what they are made of, the residual
    /// stream. Logits are made in blocks and do not grow with the batch.
    #[must_use]
    pub fn bytes_per_token(&self) -> usize {
        let mut layers: BTreeMap<usize, usize> = BTreeMap::new();
        for slot in self.slots() {
            if let Some(layer) = slot.layer() {
                // What goes in was made by something else, and what comes out may be made ready.
                *layers.entry(layer).or_default() += slot.shape().out + slot.shape().inp;
            }
        }
        let widest = layers.into_values().max().unwrap_or(0);
        let floats = widest + STREAMS * self.config().hidden;
        floats * size_of::<f32>() * (100 + SPARE_PERCENT) / 100
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
        // Four squares of 16, three MLP matrices of 20, four streams of 8; four bytes each and 30
        // %.
        assert_eq!(model.bytes_per_token(), (4 * 16 + 3 * 20 + 32) * 4 * 130 / 100);
    }
}
