//! GPT-2: learned positions, and weights stored transposed, (inp, out).

use super::gguf::{Architecture, BASE, LAYER_NORM, Rotary, rules};
use super::llama::{LLAMA, NAMES};
use super::{
    BiasRule, Default, Family, FirstRow, Head, Names, NormKind, NormRule, Positions, Role, Switch,
};

/// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
pub(super) const GPT2: Family = Family {
    model_type: "gpt2",
    about: "GPT-2: learned positions, layer norms, a fused query-key-value projection, stored transposed",
    aliases: &[],
    architecture: "GPT2LMHeadModel",
    reads: &[&["scale_attn_weights", "scale_attn_by_inverse_layer_idx"]],
    synonyms: GPT_SYNONYMS,
    fields: &[
        ("head_dim", ""),
        ("hidden_size", "n_embd"),
        ("intermediate_size", "n_inner"),
        ("num_hidden_layers", "n_layer"),
        ("num_attention_heads", "n_head"),
        ("max_position_embeddings", "n_positions"),
        ("rms_norm_eps", "layer_norm_epsilon"),
        ("hidden_act", "activation_function"),
    ],
    defaults: &[
        ("intermediate_size", Default::TimesHidden(4)),
        ("hidden_act", Default::Text("gelu_new")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("tie_word_embeddings", Default::Flag(true)),
        ("scale_attn_weights", Default::Flag(true)),
        ("scale_attn_by_inverse_layer_idx", Default::Flag(false)),
    ],
    names: Names {
        prefix: "transformer.",
        embedding: "wte",
        layer: "h",
        attention: &[("attn.c_attn", Role::QueryKeyValue)],
        output: "attn.c_proj",
        mlp: &[("mlp.c_fc", Role::FcIn)],
        mlp_output: ("mlp.c_proj", Role::FcOut),
        attention_norms: &["ln_1"],
        mlp_norms: &["ln_2"],
        final_norm: Some("ln_f"),
        head: Head::Linear("lm_head"),
        ..NAMES
    },
    transposed: true,
    norm: NormRule { kind: NormKind::Layer, weight: Switch::On, bias: Switch::On, offset: 0.0 },
    biases: BiasRule {
        query_key_value: Switch::On,
        output: Switch::On,
        mlp: Switch::On,
        head: Switch::Off,
    },
    positions: Positions::Learned { name: "wpe", first: FirstRow::At(0) },
    gguf: Some(&GPT2_GGUF),
    ..LLAMA
};

/// Standard field names that transformers accepts besides the family's own.
const GPT_SYNONYMS: &[&str] =
    &["hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"];

const GPT2_GGUF: Architecture = Architecture {
    name: "gpt2",
    class: "GPT2LMHeadModel",
    sizes: [
        ("embedding_length", "n_embd"),
        ("block_count", "n_layer"),
        ("feed_forward_length", "n_inner"),
        ("attention.head_count", "n_head"),
        ("context_length", "n_positions"),
    ],
    epsilon: (LAYER_NORM, Some("layer_norm_epsilon")),
    head_dim: false,
    rotary: Rotary::Never,
    fixed: &[("activation_function", "gelu_new")],
    flags: &[("scale_attn_weights", true), ("scale_attn_by_inverse_layer_idx", false)],
    whole: rules! {
        "token_embd" => "transformer.wte",
        "position_embd" => "transformer.wpe",
        "output_norm" => "transformer.ln_f",
        "output" => "lm_head",
    },
    prefix: "transformer.h",
    layer: rules! {
        "attn_norm" => "ln_1",
        "attn_qkv" => "attn.c_attn" Transposed,
        "attn_output" => "attn.c_proj" Transposed,
        "ffn_norm" => "ln_2",
        "ffn_up" => "mlp.c_fc" Transposed,
        "ffn_down" => "mlp.c_proj" Transposed,
    },
    ..BASE
};
