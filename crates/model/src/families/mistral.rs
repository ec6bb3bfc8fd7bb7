//! Mistral: sliding window attention.

use super::{BiasRule, Default, Family, HEADS, ROTARY, WindowRule, llama::LLAMA};

/// Jiang et al. 2023 (arXiv:2310.06825).
pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    about: "Mistral: Llama with an optional sliding window",
    aliases: &[],
    architecture: "MistralForCausalLM",
    reads: &[ROTARY, HEADS, &["sliding_window", "layer_types"]],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(8)),
        ("sliding_window", Default::Size(4096)),
    ],
    biases: BiasRule::NONE,
    window: WindowRule::Every,
    gguf: None,
    ..LLAMA
};
