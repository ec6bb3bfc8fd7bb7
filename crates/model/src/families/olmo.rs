//! OLMo 1 and 2.

use super::gguf::{Architecture, BASE, LAYER_NORM, NO_BIASES, Special, rules};
use super::llama::{LLAMA, NAMES};
use super::{
    BiasRule, Default, Family, HEADS, Names, NormKind, NormRule, Placement, QueryKeyNorm, ROTARY,
    Scope, Switch,
};

/// Groeneveld et al. 2024 (arXiv:2402.00838): layer norms without weights, clamped queries, keys
/// and values. Its norms have a fixed epsilon.
pub(super) const OLMO: Family = Family {
    model_type: "olmo",
    about: "OLMo: Llama with layer norms that have no parameters",
    aliases: &[],
    architecture: "OlmoForCausalLM",
    reads: &[ROTARY, HEADS, &["attention_bias", "clip_qkv"]],
    fields: &[("rms_norm_eps", "")],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("attention_bias", Default::Flag(false)),
    ],
    norm: NormRule { kind: NormKind::Layer, weight: Switch::Off, bias: Switch::Off, offset: 0.0 },
    biases: BIASES,
    gguf: Some(&OLMO_GGUF),
    ..LLAMA
};

/// OLMo team 2024 (arXiv:2501.00656): post-norms of attention and MLP, query and key norms.
pub(super) const OLMO2: Family = Family {
    model_type: "olmo2",
    about: "OLMo 2: norms after each block, and norms of queries and keys",
    architecture: "Olmo2ForCausalLM",
    reads: &[ROTARY, HEADS, &["attention_bias"]],
    fields: &[],
    names: Names {
        attention_norms: &["post_attention_layernorm"],
        mlp_norms: &["post_feedforward_layernorm"],
        ..NAMES
    },
    norm: NormRule { kind: NormKind::Rms, weight: Switch::On, bias: Switch::Off, offset: 0.0 },
    placement: Placement::After,
    query_key_norm: Some(QueryKeyNorm {
        when: Switch::On,
        scope: Scope::Whole,
        bias: false,
        names: ["self_attn.q_norm", "self_attn.k_norm"],
    }),
    gguf: Some(&OLMO2_GGUF),
    ..OLMO
};

const BIASES: BiasRule = BiasRule {
    query_key_value: Switch::Field("attention_bias"),
    output: Switch::Field("attention_bias"),
    ..BiasRule::NONE
};

const OLMO_GGUF: Architecture = Architecture {
    name: "olmo",
    class: "OlmoForCausalLM",
    epsilon: (LAYER_NORM, None),
    head_dim: false,
    flags: NO_BIASES,
    special: Special::Olmo,
    layer: rules! {
        "attn_q" => "self_attn.q_proj" QueryHalves,
        "attn_k" => "self_attn.k_proj" KeyHalves,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const OLMO2_GGUF: Architecture = Architecture {
    name: "olmo2",
    class: "Olmo2ForCausalLM",
    head_dim: false,
    flags: NO_BIASES,
    stores_output: true,
    special: Special::NoWindow,
    layer: rules! {
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "post_attention_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "post_ffw_norm" => "post_feedforward_layernorm",
    },
    ..BASE
};
