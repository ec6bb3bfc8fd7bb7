//! Qwen2, Qwen2.5 and Qwen3.

use super::gguf::{Architecture, BASE, NO_BIASES, Special, rules};
use super::llama::LLAMA;
use super::{
    BiasRule, Default, Family, HEADS, QueryKeyNorm, ROTARY, Scope, Switch, WINDOWS, WindowRule,
};

/// Yang et al. 2024 (arXiv:2407.10671, arXiv:2412.15115): biases on query, key and value.
pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    about: "Qwen 1.5 to 2.5: Llama with biases of queries, keys and values",
    aliases: &[],
    architecture: "Qwen2ForCausalLM",
    reads: &[ROTARY, HEADS, WINDOWS],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(32)),
        ("sliding_window", Default::Size(4096)),
        ("use_sliding_window", Default::Flag(false)),
        ("max_window_layers", Default::Size(28)),
    ],
    biases: BiasRule { query_key_value: Switch::On, ..BiasRule::NONE },
    window: WindowRule::Upper,
    gguf: Some(&QWEN2_GGUF),
    ..LLAMA
};

/// Yang et al. 2025 (arXiv:2505.09388): query and key norms instead of the biases.
pub(super) const QWEN3: Family = Family {
    model_type: "qwen3",
    about: "Qwen 3, dense models: norms of queries and keys, no biases",
    architecture: "Qwen3ForCausalLM",
    reads: &[ROTARY, HEADS, WINDOWS, &["attention_bias"]],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(32)),
        ("head_dim", Default::Size(128)),
        ("attention_bias", Default::Flag(false)),
        ("sliding_window", Default::Size(4096)),
        ("use_sliding_window", Default::Flag(false)),
        ("max_window_layers", Default::Size(28)),
    ],
    query_key_norm: Some(QueryKeyNorm {
        when: Switch::On,
        scope: Scope::Head,
        bias: false,
        names: ["self_attn.q_norm", "self_attn.k_norm"],
    }),
    biases: BiasRule {
        query_key_value: Switch::Field("attention_bias"),
        output: Switch::Field("attention_bias"),
        ..BiasRule::NONE
    },
    gguf: Some(&QWEN3_GGUF),
    ..QWEN2
};

const QWEN2_GGUF: Architecture = Architecture {
    name: "qwen2",
    class: "Qwen2ForCausalLM",
    special: Special::NoWindow,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const QWEN3_GGUF: Architecture = Architecture {
    name: "qwen3",
    class: "Qwen3ForCausalLM",
    flags: NO_BIASES,
    special: Special::NoWindow,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};
