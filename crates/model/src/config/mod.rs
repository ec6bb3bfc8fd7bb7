//! The shape of a transformer, read from and written to the `config.json` of a checkpoint.

use crate::families::{Family, Head, Positions};
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

/// All that determines the architecture of a transformer, checked: sizes are positive and bounded,
/// so that their products cannot overflow.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerConfig {
    /// The family, which names tensors and fields.
    pub family: &'static Family,
    /// Features of the residual stream.
    pub hidden: usize,
    /// Features of the embedding; projected where they differ from [`Self::hidden`].
    pub embedding_width: usize,
    /// Query heads.
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Longest sequence, in tokens.
    pub max_positions: usize,
    /// What differs from layer to layer.
    pub layers: Vec<LayerConfig>,
    /// The nonlinearity of the MLP.
    pub activation: Activation<f32>,
    /// Norms of residual rows.
    pub norm: NormConfig,
    /// Where they stand.
    pub placement: Placement,
    /// Whether attention and MLP read the same residual stream, and through which norms.
    pub parallel: Option<ParallelNorms>,
    /// Norms of queries and keys.
    pub query_key_norm: bool,
    /// Whether there is a norm before the head.
    pub final_norm: bool,
    /// Which linear layers have biases.
    pub biases: Biases,
    /// Rotary positions, which layers refer to by index.
    pub ropes: Vec<Rope>,
    /// Learned positions.
    pub learned_positions: Option<LearnedPositions>,
    /// Number of token types; none without them.
    pub token_types: Option<usize>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// Queries, keys and values are clipped to this size.
    pub clip: Option<f32>,
    /// Scores of attention are bent to stay below this.
    pub score_cap: Option<f32>,
    /// Logits are bent to stay below this.
    pub logit_cap: Option<f32>,
    /// Whether the embedding is the output matrix too.
    pub tied_embeddings: bool,
    /// Whether an encoder has the head of a masked language model.
    pub masked_head: bool,
    /// Whether an encoder has a layer on top of the first token.
    pub pooler: bool,
    /// Token that starts a document.
    pub bos_token: Option<u32>,
    /// Tokens that end a document.
    pub eos_tokens: Vec<u32>,
}

/// What differs from layer to layer.
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
    /// Heads that attend.
    Heads(HeadsConfig),
    /// A linear layer in its place.
    Linear,
    /// None, and no norm either.
    Absent,
}

/// Heads of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadsConfig {
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Keys that a query sees, its own included; `None`: all before it.
    pub window: Option<usize>,
    /// Index of the rotary positions; `None`: queries and keys stay as they are.
    pub rope: Option<usize>,
    /// What scores are multiplied by.
    pub scale: f32,
}

/// MLP of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlpConfig {
    /// Features inside.
    Inner(usize),
    /// A linear layer in its place.
    Linear,
    /// None, and no norm either.
    Absent,
}

/// Norms of residual rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormConfig {
    /// By the mean square, or by mean and variance.
    pub kind: NormKind,
    /// Added to the mean square or the variance.
    pub epsilon: f64,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// What is added to the weight.
    pub offset: f32,
}

/// Where the norms of a block stand; b is attention or MLP.
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

/// Norms of attention and MLP that stand side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParallelNorms {
    /// One for both.
    Shared,
    /// One each.
    Own,
}

/// A table of vectors that are added to the embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedPositions {
    /// The row of the first position.
    pub first: usize,
}

/// Which linear layers have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value.
    pub query_key_value: bool,
    /// Output of attention.
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

    /// Whether a token sees only those before it.
    #[must_use]
    pub fn is_causal(&self) -> bool {
        self.family.causal
    }

    /// Leaves out, or takes in, the ends of an encoder by what a checkpoint has.
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

    /// Features of all query heads.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Pairs of features that rotate together.
    pub(crate) fn pairing(&self) -> Pairing {
        match self.family.positions {
            Positions::Rotary(pairing) => pairing,
            Positions::Learned { .. } => Pairing::Halves,
        }
    }
}

#[cfg(test)]
mod tests;
