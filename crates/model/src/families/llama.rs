//! Llama 1 to 3 and models of their shape.

use super::{BiasRule, Family, WindowRule};

/// Touvron et al. 2023 (arXiv:2302.13971, arXiv:2307.09288); Dubey et al. 2024 (arXiv:2407.21783).
pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    biases: BiasRule::Fields,
    window: WindowRule::Never,
    kv_heads: None,
};
