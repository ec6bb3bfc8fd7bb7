//! StableLM 3B and StableLM 2: Llama with layer norms and optional per-head query and key norms.

use super::gguf::{Architecture, BASE, LAYER_NORM, Rotary, Special, rules};
use super::llama::LLAMA;
use super::{
    BiasRule, Default, Family, HEADS, NormKind, NormRule, Parallel, QueryKeyNorm, ROTARY,
    RotaryForm, Scope, Switch,
};

/// Bellagente et al. 2024 (arXiv:2402.17834).
pub(super) const STABLELM: Family = Family {
    model_type: "stablelm",
    about: "StableLM: layer norms, partly rotary positions, a gated MLP",
    aliases: &[],
    architecture: "StableLmForCausalLM",
    reads: &[ROTARY, HEADS, &["use_qkv_bias", "qk_layernorm", "use_parallel_residual"]],
    rotary: RotaryForm::Part,
    fields: &[("head_dim", ""), ("rms_norm_eps", "layer_norm_eps")],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("num_key_value_heads", Default::Size(32)),
        ("partial_rotary_factor", Default::Number(0.25)),
        ("use_qkv_bias", Default::Flag(false)),
        ("qk_layernorm", Default::Flag(false)),
        ("use_parallel_residual", Default::Flag(false)),
    ],
    norm: NormRule { kind: NormKind::Layer, weight: Switch::On, bias: Switch::On, offset: 0.0 },
    parallel: Parallel { when: Switch::Field("use_parallel_residual"), one_norm: true },
    query_key_norm: Some(QueryKeyNorm {
        when: Switch::Field("qk_layernorm"),
        scope: Scope::EachHead,
        bias: false,
        names: ["self_attn.q_layernorm.norms.{}", "self_attn.k_layernorm.norms.{}"],
    }),
    biases: BiasRule { query_key_value: Switch::Field("use_qkv_bias"), ..BiasRule::NONE },
    gguf: Some(&STABLELM_GGUF),
    ..LLAMA
};

const STABLELM_GGUF: Architecture = Architecture {
    name: "stablelm",
    class: "StableLmForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    stores_output: true,
    special: Special::StableLm,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_layernorm.norms.{}" EachRow,
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_layernorm.norms.{}" EachRow,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};
