//! Families of models: what `config.json` leaves unsaid, as data. There is one decoder; a family
//! only tells how to read its configuration.

mod llama;
mod mistral;
mod qwen2;
pub(crate) mod tokenizers;

/// Where a family takes the biases of its linear layers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasRule {
    /// From the fields `attention_bias` (query, key, value and output) and `mlp_bias`.
    Fields,
    /// Always on query, key and value, nowhere else.
    QueryKeyValue,
    /// None.
    Never,
}

/// Where a family takes the width of its attention window from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// There is none.
    Never,
    /// The field `sliding_window`; this width if the field is absent, none if it is null.
    Field(usize),
    /// None, and `use_sliding_window: true` is refused, since it windows only some layers.
    Refused,
}

/// What distinguishes one family from another.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The `model_type` of its configurations.
    pub model_type: &'static str,
    /// The first of `architectures`.
    pub architecture: &'static str,
    /// Where biases come from.
    pub biases: BiasRule,
    /// Where the attention window comes from.
    pub window: WindowRule,
    /// Key and value heads where `num_key_value_heads` is absent; `None`: as many as query heads.
    pub kv_heads: Option<usize>,
}

/// All families, in the order of listings.
pub const FAMILIES: &[&Family] = &[&llama::LLAMA, &qwen2::QWEN2, &mistral::MISTRAL];

impl Family {
    /// The family of a `model_type`.
    #[must_use]
    pub fn find(model_type: &str) -> Option<&'static Self> {
        FAMILIES.iter().copied().find(|family| family.model_type == model_type)
    }
}
