//! Phi-3, Phi-3.5 and Phi-4-mini: Llama with fused projections and LongRoPE.

use super::gguf::{Architecture, BASE, Rotary, Special, Tables, Windows, rules};
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
    gguf: Some(&PHI3_GGUF),
    ..LLAMA
};

const PHI3_GGUF: Architecture = Architecture {
    name: "phi3",
    class: "Phi3ForCausalLM",
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    tables: Tables::ShortAndLong,
    windows: Windows::Unused,
    special: Special::Phi3,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_qkv" => "self_attn.qkv_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_up" => "mlp.gate_up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};
