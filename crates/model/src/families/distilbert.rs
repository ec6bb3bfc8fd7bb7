//! DistilBERT: BERT without token types, and with half of the layers.

use super::bert::BERT;
use super::{Default, Family, Head, Names, Role};

/// Sanh et al. 2019 (arXiv:1910.01108).
pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    about: "DistilBERT: BERT with half the layers and without segment embeddings",
    architecture: "DistilBertForMaskedLM",
    reads: &[],
    beyond: &[],
    synonyms: &["hidden_size", "num_attention_heads", "num_hidden_layers"],
    fields: &[
        ("head_dim", ""),
        ("hidden_size", "dim"),
        ("intermediate_size", "hidden_dim"),
        ("num_hidden_layers", "n_layers"),
        ("num_attention_heads", "n_heads"),
        ("hidden_act", "activation"),
        ("rms_norm_eps", ""),
    ],
    defaults: &[
        ("hidden_act", Default::Text("gelu")),
        ("rms_norm_eps", Default::Number(1e-12)),
        ("tie_word_embeddings", Default::Flag(true)),
    ],
    names: Names {
        prefix: "distilbert.",
        types: None,
        layer: "transformer.layer",
        attention: &[
            ("attention.q_lin", Role::Query),
            ("attention.k_lin", Role::Key),
            ("attention.v_lin", Role::Value),
        ],
        output: "attention.out_lin",
        mlp: &[("ffn.lin1", Role::FcIn)],
        mlp_output: ("ffn.lin2", Role::FcOut),
        attention_norms: &["sa_layer_norm"],
        mlp_norms: &["output_layer_norm"],
        head: Head::Masked {
            dense: "vocab_transform",
            norm: "vocab_layer_norm",
            output: "vocab_projector",
            bias: "vocab_projector.bias",
            gelu: false,
        },
        pooler: None,
        ..BERT.names
    },
    gguf: None,
    ..BERT
};
