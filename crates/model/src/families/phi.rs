//! Phi-1.5 and Phi-2: parallel attention and MLP after one layer norm.

use super::gguf::{Architecture, BASE, LAYER_NORM, Rotary, rules};
use super::llama::{LLAMA, NAMES};
use super::{
    BiasRule, Default, Family, HEADS, Names, NormKind, NormRule, Parallel, QueryKeyNorm, ROTARY,
    Role, RotaryForm, Scope, Switch,
};

/// Li et al. 2023 (arXiv:2309.05463).
pub(super) const PHI: Family = Family {
    model_type: "phi",
    about: "Phi 1 to 2: attention parallel to the MLP, partly rotary positions, biases",
    aliases: &[],
    architecture: "PhiForCausalLM",
    reads: &[ROTARY, HEADS, &["qk_layernorm"]],
    rotary: RotaryForm::Part,
    fields: &[("rms_norm_eps", "layer_norm_eps")],
    defaults: &[
        ("hidden_act", Default::Text("gelu_new")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("partial_rotary_factor", Default::Number(0.5)),
        ("qk_layernorm", Default::Flag(false)),
    ],
    names: Names {
        output: "self_attn.dense",
        mlp: &[("mlp.fc1", Role::FcIn)],
        mlp_output: ("mlp.fc2", Role::FcOut),
        mlp_norms: &[],
        final_norm: Some("final_layernorm"),
        ..NAMES
    },
    norm: NormRule { kind: NormKind::Layer, weight: Switch::On, bias: Switch::On, offset: 0.0 },
    parallel: Parallel { when: Switch::On, one_norm: true },
    query_key_norm: Some(QueryKeyNorm {
        when: Switch::Field("qk_layernorm"),
        scope: Scope::Head,
        bias: true,
        names: ["self_attn.q_layernorm", "self_attn.k_layernorm"],
    }),
    biases: BiasRule {
        query_key_value: Switch::On,
        output: Switch::On,
        mlp: Switch::On,
        head: Switch::On,
    },
    gguf: Some(&PHI_GGUF),
    ..LLAMA
};

const PHI_GGUF: Architecture = Architecture {
    name: "phi2",
    class: "PhiForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    fixed: &[("hidden_act", "gelu_new")],
    flags: &[("qk_layernorm", false)],
    stores_output: true,
    whole: rules! {
        "token_embd" => "model.embed_tokens",
        "output_norm" => "model.final_layernorm",
        "output" => "lm_head",
    },
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_qkv" => "self_attn.q_proj" Queries,
        "attn_qkv" => "self_attn.k_proj" Keys,
        "attn_qkv" => "self_attn.v_proj" Values,
        "attn_output" => "self_attn.dense",
        "ffn_up" => "mlp.fc1",
        "ffn_down" => "mlp.fc2",
    },
    ..BASE
};
