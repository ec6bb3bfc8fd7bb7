//! OPT: learned positions from the third row on; the second smallest model has post-norms and an
//! embedding narrower than its layers.

use super::llama::{LLAMA, NAMES};
use super::{
    BiasRule, Default, Family, FirstRow, Names, NormKind, NormRule, Placement, Positions, Role,
    Switch,
};

/// Zhang et al. 2022 (arXiv:2205.01068).
pub(super) const OPT: Family = Family {
    model_type: "opt",
    about: "OPT: learned positions, layer norms, biases, and a ReLU MLP",
    aliases: &[],
    architecture: "OPTForCausalLM",
    reads: &[&[
        "enable_bias",
        "layer_norm_elementwise_affine",
        "word_embed_proj_dim",
        "do_layer_norm_before",
        "_remove_final_layer_norm",
    ]],
    fields: &[
        ("head_dim", ""),
        ("intermediate_size", "ffn_dim"),
        ("hidden_act", "activation_function"),
        ("rms_norm_eps", ""),
    ],
    defaults: &[
        ("hidden_act", Default::Text("relu")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("do_layer_norm_before", Default::Flag(true)),
        ("enable_bias", Default::Flag(true)),
        ("layer_norm_elementwise_affine", Default::Flag(true)),
        ("tie_word_embeddings", Default::Flag(true)),
    ],
    names: Names {
        prefix: "model.decoder.",
        output: "self_attn.out_proj",
        mlp: &[("fc1", Role::FcIn)],
        mlp_output: ("fc2", Role::FcOut),
        attention_norms: &["self_attn_layer_norm"],
        mlp_norms: &["final_layer_norm"],
        final_norm: Some("final_layer_norm"),
        ..NAMES
    },
    norm: NormRule {
        kind: NormKind::Layer,
        weight: Switch::Field("layer_norm_elementwise_affine"),
        bias: Switch::Field("layer_norm_elementwise_affine"),
        offset: 0.0,
    },
    placement: Placement::BeforeIf("do_layer_norm_before"),
    biases: BiasRule {
        query_key_value: Switch::Field("enable_bias"),
        output: Switch::Field("enable_bias"),
        mlp: Switch::Field("enable_bias"),
        head: Switch::Off,
    },
    positions: Positions::Learned { name: "embed_positions", first: FirstRow::At(2) },
    gguf: None,
    ..LLAMA
};
