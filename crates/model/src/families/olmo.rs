//! OLMo 1 and 2.

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
    ..OLMO
};

const BIASES: BiasRule = BiasRule {
    query_key_value: Switch::Field("attention_bias"),
    output: Switch::Field("attention_bias"),
    ..BiasRule::NONE
};
