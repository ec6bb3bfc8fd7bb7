//! GPT-NeoX and Pythia: fused query-key-value projection ordered by heads, partial rotary
//! embedding.

use super::gguf::{Architecture, BASE, LAYER_NORM, Rotary, Special, rules};
use super::llama::{LLAMA, NAMES};
use super::{
    BiasRule, Default, Family, Fused, Head, Names, NormKind, NormRule, Parallel, ROTARY, Role,
    RotaryForm, Switch,
};

/// Black et al. 2022 (arXiv:2204.06745); Biderman et al. 2023 (arXiv:2304.01373).
pub(super) const GPT_NEOX: Family = Family {
    model_type: "gpt_neox",
    about: "GPT-NeoX and Pythia: attention parallel to the MLP, partly rotary positions, biases",
    aliases: &[],
    architecture: "GPTNeoXForCausalLM",
    reads: &[ROTARY, &["attention_bias", "use_parallel_residual"]],
    rotary: RotaryForm::Part,
    fields: &[
        ("head_dim", ""),
        ("rms_norm_eps", "layer_norm_eps"),
        ("partial_rotary_factor", "rotary_pct"),
        ("rope_theta", "rotary_emb_base"),
    ],
    defaults: &[
        ("hidden_act", Default::Text("gelu")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("partial_rotary_factor", Default::Number(0.25)),
        ("attention_bias", Default::Flag(true)),
        ("use_parallel_residual", Default::Flag(true)),
    ],
    names: Names {
        prefix: "gpt_neox.",
        embedding: "embed_in",
        attention: &[("attention.query_key_value", Role::QueryKeyValue)],
        output: "attention.dense",
        mlp: &[("mlp.dense_h_to_4h", Role::FcIn)],
        mlp_output: ("mlp.dense_4h_to_h", Role::FcOut),
        final_norm: Some("final_layer_norm"),
        head: Head::Linear("embed_out"),
        variants: &[("lm_head.", "embed_out.")],
        ..NAMES
    },
    fused: Fused::ByHead,
    norm: NormRule { kind: NormKind::Layer, weight: Switch::On, bias: Switch::On, offset: 0.0 },
    parallel: Parallel { when: Switch::Field("use_parallel_residual"), one_norm: false },
    biases: BiasRule {
        query_key_value: Switch::Field("attention_bias"),
        output: Switch::Field("attention_bias"),
        mlp: Switch::On,
        head: Switch::Off,
    },
    gguf: Some(&GPT_NEOX_GGUF),
    ..LLAMA
};

const GPT_NEOX_GGUF: Architecture = Architecture {
    name: "gptneox",
    class: "GPTNeoXForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("rotary_pct"),
    theta: "rotary_emb_base",
    fixed: &[("hidden_act", "gelu")],
    flags: &[("attention_bias", true)],
    stores_output: true,
    special: Special::GptNeox,
    whole: rules! {
        "token_embd" => "gpt_neox.embed_in",
        "output_norm" => "gpt_neox.final_layer_norm",
        "output" => "embed_out",
    },
    prefix: "gpt_neox.layers",
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_qkv" => "attention.query_key_value" ByHead,
        "attn_output" => "attention.dense",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_up" => "mlp.dense_h_to_4h",
        "ffn_down" => "mlp.dense_4h_to_h",
    },
    ..BASE
};
