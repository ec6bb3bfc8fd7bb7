//! Phi-3, Phi-3.5 and Phi-4-mini: Llama with fused projections and LongRoPE.

use super::llama::{LLAMA, NAMES};
use super::{BiasRule, Default, Family, HEADS, Names, ROTARY, Role, RotaryForm, WindowRule};

/// Abdin et al. 2024 (arXiv:2404.14219).
pub(super) const PHI3: Family = Family {
    model_type: "phi3",
    about: "Phi 3 and 4: Llama with fused query-key-value and gate-up projections",
    aliases: &[],
    architecture: "Phi3ForCausalLM",
    reads: &[ROTARY, HEADS, &["sliding_window", "layer_types"]],
    rotary: RotaryForm::PartLong,
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("original_max_position_embeddings", Default::Size(4096)),
    ],
    names: Names {
        attention: &[("self_attn.qkv_proj", Role::QueryKeyValue)],
        mlp: &[("mlp.gate_up_proj", Role::GateUp)],
        ..NAMES
    },
    biases: BiasRule::NONE,
    window: WindowRule::Every,
    ..LLAMA
};
