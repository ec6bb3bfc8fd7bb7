//! Gemma 1 to 3 (text).

use super::gguf::{Architecture, BASE, Rule, Special, Windows, rules};
use super::llama::{LLAMA, NAMES};
use super::{
    Activation, BIDIRECTIONAL, BiasRule, Default, Family, HEADS, Names, NormKind, NormRule,
    Placement, QueryKeyNorm, ROTARY, RotaryForm, Scope, Switch, WindowRule,
};

const BIASES: BiasRule = BiasRule {
    query_key_value: Switch::Field("attention_bias"),
    output: Switch::Field("attention_bias"),
    ..BiasRule::NONE
};

/// Fields that Gemma 2 and 3 read besides [`ROTARY`] and [`HEADS`].
const WINDOWED: &[&str] = &[
    "attention_bias",
    "query_pre_attn_scalar",
    "sliding_window",
    "layer_types",
    "final_logit_softcapping",
];

/// Gemma team 2024 (arXiv:2403.08295): scaled embeddings, norms with weight 1 + w.
pub(super) const GEMMA: Family = Family {
    model_type: "gemma",
    about: "Gemma: Llama with scaled embeddings, norms that add one to their weight, and a GELU gate",
    aliases: &[],
    architecture: "GemmaForCausalLM",
    reads: &[ROTARY, HEADS, &["attention_bias"]],
    beyond: BIDIRECTIONAL,
    activations: &[("gelu", Activation::GeluTanh)],
    defaults: &[
        ("hidden_act", Default::Text("gelu_pytorch_tanh")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(16)),
        ("head_dim", Default::Size(256)),
        ("attention_bias", Default::Flag(false)),
        ("tie_word_embeddings", Default::Flag(true)),
    ],
    norm: NormRule { kind: NormKind::Rms, weight: Switch::On, bias: Switch::Off, offset: 1.0 },
    biases: BIASES,
    scaled_embedding: true,
    gguf: Some(&GEMMA_GGUF),
    ..LLAMA
};

/// Gemma team 2024 (arXiv:2408.00118): pre- and post-norms, sliding windows in every other layer,
/// soft caps.
pub(super) const GEMMA2: Family = Family {
    model_type: "gemma2",
    about: "Gemma 2: norms before and after each block, capped scores and logits, alternating sliding windows",
    architecture: "Gemma2ForCausalLM",
    reads: &[ROTARY, HEADS, WINDOWED, &["attn_logit_softcapping"]],
    activations: &[],
    fields: &[("hidden_act", "hidden_activation")],
    defaults: &[
        ("hidden_act", Default::Text("gelu_pytorch_tanh")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(4)),
        ("head_dim", Default::Size(256)),
        ("attention_bias", Default::Flag(false)),
        ("tie_word_embeddings", Default::Flag(true)),
        ("query_pre_attn_scalar", Default::Number(256.0)),
        ("attn_logit_softcapping", Default::Number(50.0)),
        ("final_logit_softcapping", Default::Number(30.0)),
        ("sliding_window", Default::Size(4096)),
        ("sliding_window_pattern", Default::Size(2)),
    ],
    names: Names {
        attention_norms: &["input_layernorm", "post_attention_layernorm"],
        mlp_norms: &["pre_feedforward_layernorm", "post_feedforward_layernorm"],
        ..NAMES
    },
    placement: Placement::BeforeAndAfter,
    window: WindowRule::AllButNth,
    gguf: Some(&GEMMA2_GGUF),
    ..GEMMA
};

/// Gemma team 2025 (arXiv:2503.19786): five windowed layers per global one, query and key norms, a
/// separate rotary embedding in windowed layers.
pub(super) const GEMMA3: Family = Family {
    model_type: "gemma3_text",
    about: "Gemma 3, text models: query and key norms, five layers with sliding windows to one without",
    architecture: "Gemma3ForCausalLM",
    reads: &[ROTARY, HEADS, WINDOWED, &["sliding_window_pattern", "rope_local_base_freq"]],
    // Read but not applied by its code in transformers.
    fields: &[("hidden_act", "hidden_activation"), ("attn_logit_softcapping", "")],
    defaults: &[
        ("hidden_act", Default::Text("gelu_pytorch_tanh")),
        ("rms_norm_eps", Default::Number(1e-6)),
        ("num_key_value_heads", Default::Size(4)),
        ("head_dim", Default::Size(256)),
        ("attention_bias", Default::Flag(false)),
        ("tie_word_embeddings", Default::Flag(true)),
        ("query_pre_attn_scalar", Default::Number(256.0)),
        ("sliding_window", Default::Size(4096)),
        ("sliding_window_pattern", Default::Size(6)),
        ("rope_theta", Default::Number(1e6)),
        ("rope_local_base_freq", Default::Number(1e4)),
    ],
    query_key_norm: Some(QueryKeyNorm {
        when: Switch::On,
        scope: Scope::Head,
        bias: false,
        names: ["self_attn.q_norm", "self_attn.k_norm"],
    }),
    rotary: RotaryForm::ByKind,
    gguf: Some(&GEMMA3_GGUF),
    ..GEMMA2
};

const GEMMA_WHOLE: &[Rule] = rules! {
    "token_embd" => "model.embed_tokens",
    "output_norm" => "model.norm" MinusOne,
    "output" => "lm_head",
};
const GEMMA_ACTIVATION: &[(&str, &str)] =
    &[("hidden_act", "gelu_pytorch_tanh"), ("hidden_activation", "gelu_pytorch_tanh")];

const GEMMA_GGUF: Architecture = Architecture {
    name: "gemma",
    class: "GemmaForCausalLM",
    fixed: GEMMA_ACTIVATION,
    flags: &[("attention_bias", false), ("tie_word_embeddings", true)],
    whole: GEMMA_WHOLE,
    layer: rules! {
        "attn_norm" => "input_layernorm" MinusOne,
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm" MinusOne,
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const GEMMA2_GGUF: Architecture = Architecture {
    name: "gemma2",
    class: "Gemma2ForCausalLM",
    fixed: GEMMA_ACTIVATION,
    flags: &[("attention_bias", false), ("tie_word_embeddings", true)],
    windows: Windows::AllButNth(2),
    caps: true,
    special: Special::Gemma2,
    whole: GEMMA_WHOLE,
    layer: rules! {
        "attn_norm" => "input_layernorm" MinusOne,
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "post_attention_norm" => "post_attention_layernorm" MinusOne,
        "ffn_norm" => "pre_feedforward_layernorm" MinusOne,
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "post_ffw_norm" => "post_feedforward_layernorm" MinusOne,
    },
    ..BASE
};

const GEMMA3_GGUF: Architecture = Architecture {
    name: "gemma3",
    class: "Gemma3ForCausalLM",
    fixed: GEMMA_ACTIVATION,
    flags: &[("attention_bias", false), ("tie_word_embeddings", true)],
    windows: Windows::AllButNth(6),
    special: Special::Gemma3,
    whole: GEMMA_WHOLE,
    layer: rules! {
        "attn_norm" => "input_layernorm" MinusOne,
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_norm" MinusOne,
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_norm" MinusOne,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "post_attention_norm" => "post_attention_layernorm" MinusOne,
        "ffn_norm" => "pre_feedforward_layernorm" MinusOne,
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "post_ffw_norm" => "post_feedforward_layernorm" MinusOne,
    },
    ..BASE
};
