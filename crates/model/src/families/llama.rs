//! Llama 1 to 3 and models of the same architecture.

use super::gguf::{Architecture, BASE, Special, Tables, Windows, rules};
use super::{
    BiasRule, Default, Family, Fused, HEADS, Head, Names, NormKind, NormRule, Pairing, Parallel,
    Placement, Positions, ROTARY, Role, RotaryForm, Switch, WindowRule,
};

/// Tensor names of most families.
pub(super) const NAMES: Names = Names {
    prefix: "model.",
    embedding: "embed_tokens",
    types: None,
    embedding_norm: None,
    layer: "layers",
    attention: &[
        ("self_attn.q_proj", Role::Query),
        ("self_attn.k_proj", Role::Key),
        ("self_attn.v_proj", Role::Value),
    ],
    output: "self_attn.o_proj",
    mlp: &[("mlp.gate_proj", Role::Gate), ("mlp.up_proj", Role::Up)],
    mlp_output: ("mlp.down_proj", Role::Down),
    attention_norms: &["input_layernorm"],
    mlp_norms: &["post_attention_layernorm"],
    final_norm: Some("norm"),
    head: Head::Linear("lm_head"),
    pooler: None,
    variants: &[],
};

/// Touvron et al. 2023 (arXiv:2302.13971, arXiv:2307.09288); Dubey et al. 2024 (arXiv:2407.21783).
/// Fox-1 (arXiv:2411.05281) has the same layout.
pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    about: "Llama 1 to 3 and the many models of its architecture: RMS norms, rotary positions, a gated MLP",
    aliases: &["fox"],
    architecture: "LlamaForCausalLM",
    reads: &[ROTARY, HEADS, &["attention_bias", "mlp_bias"]],
    synonyms: &[],
    beyond: &[],
    fields: &[],
    defaults: &[
        ("hidden_act", Default::Text("silu")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("attention_bias", Default::Flag(false)),
        ("mlp_bias", Default::Flag(false)),
    ],
    activations: &[],
    names: NAMES,
    causal: true,
    transposed: false,
    fused: Fused::Whole,
    norm: NormRule { kind: NormKind::Rms, weight: Switch::On, bias: Switch::Off, offset: 0.0 },
    placement: Placement::Before,
    parallel: Parallel { when: Switch::Off, one_norm: false },
    query_key_norm: None,
    biases: BiasRule {
        query_key_value: Switch::Field("attention_bias"),
        output: Switch::Field("attention_bias"),
        mlp: Switch::Field("mlp_bias"),
        head: Switch::Off,
    },
    window: WindowRule::Never,
    positions: Positions::Rotary(Pairing::Halves),
    rotary: RotaryForm::Whole,
    scaled_embedding: false,
    gguf: Some(&LLAMA_GGUF),
};

const LLAMA_GGUF: Architecture = Architecture {
    name: "llama",
    class: "LlamaForCausalLM",
    tables: Tables::Any,
    windows: Windows::Unused,
    special: Special::Llama,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj" QueryHalves,
        "attn_k" => "self_attn.k_proj" KeyHalves,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};
