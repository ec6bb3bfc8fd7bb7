//! BERT, and sentence encoders of its shape (MiniLM).

use super::gguf::{Architecture, BASE, LAYER_NORM, Rotary, Special, rules};
use super::llama::LLAMA;
use super::{
    BiasRule, Default, Family, FirstRow, Head, NO_DECODER, Names, NormKind, NormRule, Placement,
    Positions, Role, Switch,
};

/// Devlin et al. 2018 (arXiv:1810.04805); Wang et al. 2020 (arXiv:2002.10957).
pub(super) const BERT: Family = Family {
    model_type: "bert",
    about: "BERT and sentence encoders based on it: bidirectional, norms after each block, learned positions",
    aliases: &[],
    architecture: "BertForMaskedLM",
    reads: &[&["type_vocab_size"]],
    beyond: NO_DECODER,
    fields: &[("head_dim", ""), ("rms_norm_eps", "layer_norm_eps")],
    defaults: &[
        ("hidden_act", Default::Text("gelu")),
        ("rms_norm_eps", Default::Number(1e-12)),
        ("type_vocab_size", Default::Size(2)),
        ("tie_word_embeddings", Default::Flag(true)),
    ],
    names: Names {
        prefix: "bert.",
        embedding: "embeddings.word_embeddings",
        types: Some("embeddings.token_type_embeddings"),
        embedding_norm: Some("embeddings.LayerNorm"),
        layer: "encoder.layer",
        attention: &[
            ("attention.self.query", Role::Query),
            ("attention.self.key", Role::Key),
            ("attention.self.value", Role::Value),
        ],
        output: "attention.output.dense",
        mlp: &[("intermediate.dense", Role::FcIn)],
        mlp_output: ("output.dense", Role::FcOut),
        attention_norms: &["attention.output.LayerNorm"],
        mlp_norms: &["output.LayerNorm"],
        final_norm: None,
        head: Head::Masked {
            dense: "cls.predictions.transform.dense",
            norm: "cls.predictions.transform.LayerNorm",
            output: "cls.predictions.decoder",
            bias: "cls.predictions.bias",
            gelu: false,
        },
        pooler: Some("pooler.dense"),
        variants: &[("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")],
    },
    causal: false,
    norm: NormRule { kind: NormKind::Layer, weight: Switch::On, bias: Switch::On, offset: 0.0 },
    placement: Placement::OnSum,
    biases: BiasRule {
        query_key_value: Switch::On,
        output: Switch::On,
        mlp: Switch::On,
        head: Switch::On,
    },
    positions: Positions::Learned {
        name: "embeddings.position_embeddings",
        first: FirstRow::At(0),
    },
    gguf: Some(&BERT_GGUF),
    ..LLAMA
};

const BERT_GGUF: Architecture = Architecture {
    name: "bert",
    class: "BertModel",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Never,
    fixed: &[("hidden_act", "gelu"), ("position_embedding_type", "absolute")],
    ties: false,
    special: Special::Bert,
    whole: rules! {
        "token_embd" => "embeddings.word_embeddings",
        "position_embd" => "embeddings.position_embeddings",
        "token_types" => "embeddings.token_type_embeddings",
        "token_embd_norm" => "embeddings.LayerNorm",
    },
    prefix: "encoder.layer",
    layer: rules! {
        "attn_q" => "attention.self.query",
        "attn_k" => "attention.self.key",
        "attn_v" => "attention.self.value",
        "attn_output" => "attention.output.dense",
        "attn_output_norm" => "attention.output.LayerNorm",
        "ffn_up" => "intermediate.dense",
        "ffn_down" => "output.dense",
        "layer_output_norm" => "output.LayerNorm",
    },
    ..BASE
};
