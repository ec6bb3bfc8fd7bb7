//! The configuration of a transformer, read from and written to `config.json`.

use crate::families::{Family, Fused, Head, Positions, QueryKeyNorm, Scope};
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::norm::NormKind;
use linwright_tensor::kernels::rope::Pairing;

mod beyond;
pub(crate) mod fields;
mod layout;
mod limit;
mod read;
mod rotary;
mod write;

pub(crate) use layout::{Linear, NormSite, Table};
pub use rotary::{Rope, RopeScaling};
#[cfg(feature = "gguf")]
pub(crate) use rotary::{long_attention, yarn_attention, yarn_attention_of};

/// The architecture of a transformer, checked: sizes are positive and bounded, so that their
/// products cannot overflow.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerConfig {
    /// The family, which defines names of tensors and fields.
    pub family: &'static Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the embedding; projected if it differs from [`Self::hidden`].
    pub embedding_width: usize,
    /// Query heads of the layer that has the most; see [`HeadsConfig::heads`].
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Longest sequence, in tokens.
    pub max_positions: usize,
    /// The layers.
    pub layers: Vec<LayerConfig>,
    /// The nonlinearity of the MLP.
    pub activation: Activation<f32>,
    /// Norms of the residual stream.
    pub norm: NormConfig,
    /// Placement of the norms.
    pub placement: Placement,
    /// Whether attention and MLP run in parallel on the same residual stream, and through which
    /// norms.
    pub parallel: Option<ParallelNorms>,
    /// Norms of queries and keys.
    pub query_key_norm: bool,
    /// Whether there is a norm before the head.
    pub final_norm: bool,
    /// Which linear layers have biases.
    pub biases: Biases,
    /// Rotary embeddings, referred to by index in layers.
    pub ropes: Vec<Rope>,
    /// Learned position embeddings.
    pub learned_positions: Option<LearnedPositions>,
    /// Number of token types; none without token types.
    pub token_types: Option<usize>,
    /// Scale of the embeddings.
    pub embedding_scale: f32,
    /// Clamp of queries, keys and values.
    pub clip: Option<f32>,
    /// Soft cap of attention scores.
    pub score_cap: Option<f32>,
    /// Soft cap of logits.
    pub logit_cap: Option<f32>,
    /// Whether the output matrix is tied to the embedding.
    pub tied_embeddings: bool,
    /// Whether an encoder has the head of a masked language model.
    pub masked_head: bool,
    /// Whether an encoder has a pooler: a layer on top of the first token.
    pub pooler: bool,
    /// Beginning-of-sequence token.
    pub bos_token: Option<u32>,
    /// End-of-sequence tokens.
    pub eos_tokens: Vec<u32>,
}

/// Configuration of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerConfig {
    /// Attention.
    pub attention: AttentionConfig,
    /// The MLP.
    pub mlp: MlpConfig,
}

/// Attention of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttentionConfig {
    /// Attention with heads.
    Heads(HeadsConfig),
    /// A linear layer instead.
    Linear,
    /// None, and no norm either.
    Absent,
}

/// Heads of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadsConfig {
    /// Query heads; [`TransformerConfig::heads`] unless some of this layer were removed.
    pub heads: usize,
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Sliding window: number of keys that a query attends to, itself included; `None`: all before
    /// it.
    pub window: Option<usize>,
    /// Index of the rotary embedding; `None`: no rotation.
    pub rope: Option<usize>,
    /// Scale of the attention scores.
    pub scale: f32,
}

/// MLP of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpConfig {
    /// An MLP with this many inner features.
    Inner(usize),
    /// A linear layer instead.
    Linear,
    /// None, and no norm either.
    Absent,
}

/// Norms of the residual stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// RMS norm or layer norm.
    pub kind: NormKind,
    /// Epsilon, added to the mean square or the variance.
    pub epsilon: f64,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// Offset added to the weight.
    pub offset: f32,
}

/// Placement of the norms of a block; b is attention or MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `h + b(norm(h))`.
    Before,
    /// `h + norm(b(norm(h)))`.
    BeforeAndAfter,
    /// `h + norm(b(h))`.
    After,
    /// `norm(h + b(h))`.
    OnSum,
}

/// Norms of parallel attention and MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParallelNorms {
    /// One shared norm.
    Shared,
    /// One each.
    Own,
}

/// Learned embeddings of positions or token types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedPositions {
    /// Row of the first position.
    pub first: usize,
}

/// Which linear layers have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value projections.
    pub query_key_value: bool,
    /// Output projection of attention.
    pub output: bool,
    /// The MLP.
    pub mlp: bool,
    /// The head.
    pub head: bool,
}

impl TransformerConfig {
    /// Number of parameters: weights, biases, norms and embeddings.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let count = |shape: &Vec<usize>| shape.iter().map(|&n| n as u64).product::<u64>();
        self.tensor_shapes().iter().map(|(_, shape)| count(shape)).sum()
    }

    /// Whether attention is causal.
    #[must_use]
    pub fn is_causal(&self) -> bool {
        self.family.causal
    }

    /// Adjusts the head and pooler of an encoder to the tensors of a checkpoint.
    pub(crate) fn with_ends(mut self, has: impl Fn(&str) -> bool) -> Self {
        let there = |site: &str| has(&format!("{site}.weight"));
        if let Head::Masked { dense, .. } = self.family.names.head {
            self.masked_head = there(dense);
        }
        if let Some(name) = self.family.names.pooler {
            self.pooler = there(&format!("{}{name}", self.family.names.prefix));
        }
        self
    }

    /// The nonlinearity of the head of a masked language model.
    pub(crate) fn head_activation(&self) -> Activation<f32> {
        match self.family.names.head {
            Head::Masked { gelu: true, .. } => Activation::Gelu,
            Head::Masked { .. } | Head::Linear(_) => self.activation,
        }
    }

    /// Total width of query heads, in the layer that has the most.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Whether attention heads can be removed without changing the others: no norm of queries or
    /// keys spans several heads, and the size of a head is a field of the configuration.
    #[must_use]
    pub fn heads_can_leave(&self) -> bool {
        let spans = |norm: QueryKeyNorm| norm.scope == Scope::Whole;
        let is_separate = !(self.query_key_norm && self.family.query_key_norm.is_some_and(spans));
        let mut fields = self.family.reads.iter().copied().flatten();
        is_separate && fields.any(|field| *field == "head_dim")
    }

    /// Whether a single matrix of queries, keys and values has them head by head, not one after the
    /// other.
    #[must_use]
    pub fn stacks_by_head(&self) -> bool {
        self.family.fused == Fused::ByHead
    }

    /// Pairs of features that rotate together.
    #[must_use]
    pub fn pairing(&self) -> Pairing {
        match self.family.positions {
            Positions::Rotary(pairing) => pairing,
            Positions::Learned { .. } => Pairing::Halves,
        }
    }
}

#[cfg(test)]
mod tests;
