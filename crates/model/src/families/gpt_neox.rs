//! GPT-NeoX and Pythia: fused query-key-value projection ordered by heads, partial rotary
//! embedding.

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
    ..LLAMA
};
