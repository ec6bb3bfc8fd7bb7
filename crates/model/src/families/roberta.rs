//! RoBERTa and XLM-RoBERTa: BERT whose positions start after the padding token's id.

use super::bert::BERT;
use super::{Default, Family, FirstRow, Head, Names, Positions};

/// Liu et al. 2019 (arXiv:1907.11692); Conneau et al. 2019 (arXiv:1911.02116).
pub(super) const ROBERTA: Family = Family {
    model_type: "roberta",
    about: "RoBERTa: BERT with positions from the padding id on",
    aliases: &["xlm-roberta"],
    architecture: "RobertaForMaskedLM",
    reads: &[&["type_vocab_size", "pad_token_id"]],
    defaults: &[
        ("hidden_act", Default::Text("gelu")),
        ("rms_norm_eps", Default::Number(1e-12)),
        ("type_vocab_size", Default::Size(2)),
        ("pad_token_id", Default::Size(1)),
        ("tie_word_embeddings", Default::Flag(true)),
    ],
    names: Names {
        prefix: "roberta.",
        head: Head::Masked {
            dense: "lm_head.dense",
            norm: "lm_head.layer_norm",
            output: "lm_head.decoder",
            bias: "lm_head.bias",
            gelu: true,
        },
        ..BERT.names
    },
    positions: Positions::Learned {
        name: "embeddings.position_embeddings",
        first: FirstRow::AfterPad,
    },
    gguf: None,
    ..BERT
};
