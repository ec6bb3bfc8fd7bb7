//! DeciLM and Nemotron-NAS: Llama with layer-wise widths (`block_configs`).

use super::{Family, HEADS, ROTARY, llama::LLAMA};

/// Bercovich et al. 2024 (arXiv:2411.19146).
pub(super) const DECI: Family = Family {
    model_type: "nemotron-nas",
    about: "Nemotron-NAS (DeciLM): Llama with layers that differ in width and may have no attention or MLP",
    aliases: &["deci"],
    architecture: "DeciLMForCausalLM",
    reads: &[ROTARY, HEADS, &["attention_bias", "mlp_bias", "block_configs"]],
    gguf: None,
    ..LLAMA
};
