//! Qwen2 and Qwen2.5: biases on query, key and value.

use super::{BiasRule, Family, WindowRule};

/// Yang et al. 2024 (arXiv:2407.10671). 32 key and value heads are the default of its configuration
/// class.
pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    biases: BiasRule::QueryKeyValue,
    window: WindowRule::Refused,
    kv_heads: Some(32),
};
