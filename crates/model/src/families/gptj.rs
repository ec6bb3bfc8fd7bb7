//! GPT-J: parallel attention and MLP, interleaved rotary pairs.

use super::gpt2::GPT2;
use super::llama::NAMES;
use super::{
    BiasRule, Default, Family, Head, Names, Pairing, Parallel, Positions, Role, RotaryForm, Switch,
};

/// Wang and Komatsuzaki 2021, "GPT-J-6B".
pub(super) const GPTJ: Family = Family {
    model_type: "gptj",
    about: "GPT-J: attention parallel to the MLP with one norm for both, rotary positions in pairs",
    architecture: "GPTJForCausalLM",
    reads: &[&["rotary_dim"]],
    rotary: RotaryForm::Features,
    defaults: &[
        ("intermediate_size", Default::TimesHidden(4)),
        ("hidden_act", Default::Text("gelu_new")),
        ("rms_norm_eps", Default::Number(1e-5)),
        ("rotary_dim", Default::Size(64)),
        ("tie_word_embeddings", Default::Flag(false)),
    ],
    names: Names {
        prefix: "transformer.",
        embedding: "wte",
        layer: "h",
        attention: &[
            ("attn.q_proj", Role::Query),
            ("attn.k_proj", Role::Key),
            ("attn.v_proj", Role::Value),
        ],
        output: "attn.out_proj",
        mlp: &[("mlp.fc_in", Role::FcIn)],
        mlp_output: ("mlp.fc_out", Role::FcOut),
        attention_norms: &["ln_1"],
        mlp_norms: &[],
        final_norm: Some("ln_f"),
        head: Head::Linear("lm_head"),
        ..NAMES
    },
    transposed: false,
    parallel: Parallel { when: Switch::On, one_norm: true },
    biases: BiasRule { mlp: Switch::On, head: Switch::On, ..BiasRule::NONE },
    positions: Positions::Rotary(Pairing::Neighbours),
    gguf: None,
    ..GPT2
};
