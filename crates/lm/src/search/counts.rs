//! Multiply-adds of a transformer on one text, as three programs count them.
//!
//! With T tokens, layers of H heads of width h, MLPs of width f, width d and vocabulary V:
//! linear layers with the head; the same and the products of attention, 2 T² H h a layer; and
//! LLM-Pruner's counter, which adds softmax (H T²), rotary positions (4 T H h), activations (T f)
//! and norms (2 T d each).

use linwright_model::config::{AttentionConfig, MlpConfig};
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::Sites;
use serde::{Deserialize, Serialize};

/// Shape of a transformer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Width of the residual stream.
    pub width: u64,
    /// Size of the vocabulary.
    pub vocab: u64,
    /// The layers.
    pub layers: Vec<LayerShape>,
}

/// Shape of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Number of heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Width of the MLP.
    pub ffn: u64,
    /// Multiply-adds of its linear layers on one token.
    pub linears: u64,
}

/// Multiply-adds under three counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Linear layers and the head.
    pub linear: u64,
    /// The same and the products of attention.
    pub with_attention: u64,
    /// As LLM-Pruner counts.
    pub llm_pruner: u64,
}

impl Shapes {
    /// Tokens of the counters' text.
    pub const TOKENS: u64 = 64;

    /// The shape of a model with a dense weight in every linear layer.
    #[must_use]
    pub fn dense(config: &TransformerConfig) -> Self {
        let layers = config
            .layers
            .iter()
            .zip(config.linear_parameters())
            .map(|(layer, linears)| LayerShape {
                heads: match layer.attention {
                    AttentionConfig::Heads(heads) => heads.heads as u64,
                    AttentionConfig::Linear | AttentionConfig::Absent => 0,
                },
                head_dim: config.head_dim as u64,
                ffn: match layer.mlp {
                    MlpConfig::Inner(width) => width as u64,
                    MlpConfig::Linear | MlpConfig::Absent => 0,
                },
                linears,
            })
            .collect();
        Self { width: config.hidden as u64, vocab: config.vocab as u64, layers }
    }

    /// The shape of a model with its operators as they are.
    #[must_use]
    pub fn of(model: &Transformer) -> Self {
        let mut shapes = Self::dense(model.config());
        shapes.layers.iter_mut().for_each(|layer| layer.linears = 0);
        for slot in model.slots() {
            if let Some(layer) = slot.layer() {
                shapes.layers[layer].linears += slot.op().map().macs_per_row();
            }
        }
        shapes
    }

    /// Multiply-adds on a text of so many tokens.
    #[must_use]
    pub fn counts(&self, tokens: u64) -> Counts {
        let sum = |of: &dyn Fn(&LayerShape) -> u64| self.layers.iter().map(of).sum::<u64>();
        let head = tokens * self.width * self.vocab;
        let linear = tokens * sum(&|layer| layer.linears) + head;
        let products = sum(&|layer| 2 * tokens * tokens * layer.heads * layer.head_dim);
        let softmax = sum(&|layer| tokens * tokens * layer.heads);
        let elementwise = sum(&|layer| tokens * (4 * layer.heads * layer.head_dim + layer.ffn));
        let norms = 2 * tokens * self.width * (2 * self.layers.len() as u64 + 1);
        Counts {
            linear,
            with_attention: linear + products,
            llm_pruner: linear + products + softmax + elementwise + norms,
        }
    }
}
