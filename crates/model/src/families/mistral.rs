//! Mistral: a sliding attention window.

use super::{BiasRule, Family, WindowRule};

/// Jiang et al. 2023 (arXiv:2310.06825). The window of 4096 and the 8 key and value heads are the
/// defaults of its configuration class.
pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    biases: BiasRule::Never,
    window: WindowRule::Field(4096),
    kv_heads: Some(8),
};
