//! SmolLM3: no rotary embedding in every fourth layer. SmolLM and SmolLM2 belong to the Llama
//! family.

use super::{Default, Family, HEADS, ROTARY, WindowRule, llama::LLAMA};

/// Bakouch et al. 2025, "SmolLM3".
pub(super) const SMOLLM3: Family = Family {
    model_type: "smollm3",
    about: "SmolLM3: Llama without rotary positions in every fourth layer",
    aliases: &[],
    architecture: "SmolLM3ForCausalLM",
    reads: &[
        ROTARY,
        HEADS,
        &[
            "attention_bias",
            "mlp_bias",
            "sliding_window",
            "use_sliding_window",
            "layer_types",
            "no_rope_layers",
            "no_rope_layer_interval",
        ],
    ],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(4)),
        ("rope_theta", Default::Number(2e6)),
        ("attention_bias", Default::Flag(false)),
        ("mlp_bias", Default::Flag(false)),
        ("tie_word_embeddings", Default::Flag(true)),
        ("use_sliding_window", Default::Flag(false)),
        ("no_rope_layer_interval", Default::Size(4)),
    ],
    window: WindowRule::Unrotated,
    gguf: None,
    ..LLAMA
};
