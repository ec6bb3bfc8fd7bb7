//! StableLM 3B and StableLM 2: Llama with layer norms and optional per-head query and key norms.

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
    ..LLAMA
};
