//! Known GGUF architectures as data: tensor names, and the changes that GGUF converters make to
//! tensors.
//!
//! Source: the names and conversions of llama.cpp (`convert_hf_to_gguf.py`, package `gguf`), and
//! the tensor names of transformers.

use super::special;
use super::special::Special;

/// How to undo a converter's change to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Unchanged.
    Same,
    /// Subtract one: the norm is stored as its whole multiplier.
    MinusOne,
    /// Transpose matrices; vectors are unchanged.
    Transposed,
    /// Reorder rows of each query head from interleaved rotary pairs to rotary halves.
    QueryHalves,
    /// The same for each key head.
    KeyHalves,
    /// Reorder rows from all queries, all keys, all values to query, key, value of each head.
    ByHead,
    /// Take the query rows of a fused matrix of queries, keys and values.
    Queries,
    /// Take its key rows.
    Keys,
    /// Take its value rows.
    Values,
    /// Split rows into vectors; the row index replaces `{}` in the name.
    EachRow,
}

/// Tensor names in GGUF and in transformers, without `.weight` or `.bias`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) stored: &'static str,
    pub(super) name: &'static str,
    pub(super) change: Change,
}

/// Share of a head that rotary embeddings rotate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rotary {
    /// None: positions are learned embeddings.
    Never,
    /// The whole head.
    Whole,
    /// The share in this field.
    Share(&'static str),
}

/// Tables of divisors of the rotary frequencies that llama.cpp supports. It rejects files with
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// None.
    None,
    /// One for all lengths, or one for short and one for long contexts.
    Any,
    /// One for short and one for long contexts.
    ShortAndLong,
}

/// Attention windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// None.
    Never,
    /// A width that llama.cpp ignores.
    Unused,
    /// In all layers but each n-th; the default n if it is not in the file.
    AllButNth(u32),
}

/// A GGUF architecture and the transformers family that it corresponds to.
#[derive(Debug)]
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) name: &'static str,
    /// `model_type`.
    pub(super) model_type: &'static str,
    /// The first of `architectures`.
    pub(super) class: &'static str,
    /// Size keys and their fields.
    pub(super) sizes: [(&'static str, &'static str); 5],
    /// Key and field of the norms' epsilon.
    pub(super) epsilon: (&'static str, Option<&'static str>),
    /// Whether `head_dim` is a field. Otherwise heads divide the width of the model.
    pub(super) head_dim: bool,
    /// Share of a head that is rotated.
    pub(super) rotary: Rotary,
    /// Field of the rotary base.
    pub(super) theta: &'static str,
    /// Tables of rotary divisors.
    pub(super) tables: Tables,
    /// Attention windows.
    pub(super) windows: Windows,
    /// Fields with a fixed value.
    pub(super) fixed: &'static [(&'static str, &'static str)],
    /// Whether llama.cpp caps scores and logits by default: at 50 and 30.
    pub(super) caps: bool,
    /// Booleans that llama.cpp fixes, regardless of the file. They are also the defaults of absent
    /// fields.
    pub(super) flags: &'static [(&'static str, bool)],
    /// Whether the output matrix may be tied to the embedding.
    pub(super) ties: bool,
    /// Whether llama.cpp needs an output matrix in the file even if it is tied.
    pub(super) stores_output: bool,
    /// Further changes to the configuration.
    pub(super) special: Special,
    /// Tensors outside the layers.
    pub(super) whole: &'static [Rule],
    /// Prefix of the layer index in tensor names.
    pub(super) prefix: &'static str,
    /// Tensors of a layer.
    pub(super) layer: &'static [Rule],
}

const USUAL: [(&str, &str); 5] = [
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("context_length", "max_position_embeddings"),
];
const RMS: &str = "attention.layer_norm_rms_epsilon";
const LAYER_NORM: &str = "attention.layer_norm_epsilon";
/// A tensor outside the layers with rotary factors, which becomes part of the configuration.
pub(super) const ROPE_TENSORS: [&str; 3] =
    ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

macro_rules! rules {
    ($($stored:literal => $name:literal $($change:ident)?,)*) => {
        &[$(Rule { stored: $stored, name: $name, change: rules!(@ $($change)?) },)*]
    };
    (@) => { Change::Same };
    (@ $change:ident) => { Change::$change };
}

const WHOLE: &[Rule] = rules! {
    "token_embd" => "model.embed_tokens",
    "output_norm" => "model.norm",
    "output" => "lm_head",
};

/// Defaults of most architectures.
const BASE: Architecture = Architecture {
    name: "",
    model_type: "",
    class: "",
    sizes: USUAL,
    epsilon: (RMS, Some("rms_norm_eps")),
    head_dim: true,
    rotary: Rotary::Whole,
    theta: "rope_theta",
    tables: Tables::None,
    windows: Windows::Never,
    fixed: &[("hidden_act", "silu")],
    caps: false,
    flags: &[],
    ties: true,
    stores_output: false,
    special: special::nothing,
    whole: WHOLE,
    prefix: "model.layers",
    layer: &[],
};

const NO_BIASES: &[(&str, bool)] = &[("attention_bias", false)];

const LLAMA: Architecture = Architecture {
    name: "llama",
    model_type: "llama",
    class: "LlamaForCausalLM",
    tables: Tables::Any,
    windows: Windows::Unused,
    special: special::llama,
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

const QWEN2: Architecture = Architecture {
    name: "qwen2",
    model_type: "qwen2",
    class: "Qwen2ForCausalLM",
    special: special::no_window,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const QWEN3: Architecture = Architecture {
    name: "qwen3",
    model_type: "qwen3",
    class: "Qwen3ForCausalLM",
    flags: NO_BIASES,
    special: special::no_window,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const GEMMA_WHOLE: &[Rule] = rules! {
    "token_embd" => "model.embed_tokens",
    "output_norm" => "model.norm" MinusOne,
    "output" => "lm_head",
};
const GEMMA_ACTIVATION: &[(&str, &str)] =
    &[("hidden_act", "gelu_pytorch_tanh"), ("hidden_activation", "gelu_pytorch_tanh")];

const GEMMA: Architecture = Architecture {
    name: "gemma",
    model_type: "gemma",
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

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    model_type: "gemma2",
    class: "Gemma2ForCausalLM",
    fixed: GEMMA_ACTIVATION,
    flags: &[("attention_bias", false), ("tie_word_embeddings", true)],
    windows: Windows::AllButNth(2),
    caps: true,
    special: special::gemma2,
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

const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    model_type: "gemma3_text",
    class: "Gemma3ForCausalLM",
    fixed: GEMMA_ACTIVATION,
    flags: &[("attention_bias", false), ("tie_word_embeddings", true)],
    windows: Windows::AllButNth(6),
    special: special::gemma3,
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

const PHI2: Architecture = Architecture {
    name: "phi2",
    model_type: "phi",
    class: "PhiForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    fixed: &[("hidden_act", "gelu_new")],
    flags: &[("qk_layernorm", false)],
    stores_output: true,
    whole: rules! {
        "token_embd" => "model.embed_tokens",
        "output_norm" => "model.final_layernorm",
        "output" => "lm_head",
    },
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_qkv" => "self_attn.q_proj" Queries,
        "attn_qkv" => "self_attn.k_proj" Keys,
        "attn_qkv" => "self_attn.v_proj" Values,
        "attn_output" => "self_attn.dense",
        "ffn_up" => "mlp.fc1",
        "ffn_down" => "mlp.fc2",
    },
    ..BASE
};

const PHI3: Architecture = Architecture {
    name: "phi3",
    model_type: "phi3",
    class: "Phi3ForCausalLM",
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    tables: Tables::ShortAndLong,
    windows: Windows::Unused,
    special: special::phi3,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_qkv" => "self_attn.qkv_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_up" => "mlp.gate_up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const GPT2: Architecture = Architecture {
    name: "gpt2",
    model_type: "gpt2",
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

const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    model_type: "gpt_neox",
    class: "GPTNeoXForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("rotary_pct"),
    theta: "rotary_emb_base",
    fixed: &[("hidden_act", "gelu")],
    flags: &[("attention_bias", true)],
    stores_output: true,
    special: special::gptneox,
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

const STABLELM: Architecture = Architecture {
    name: "stablelm",
    model_type: "stablelm",
    class: "StableLmForCausalLM",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Share("partial_rotary_factor"),
    stores_output: true,
    special: special::stablelm,
    layer: rules! {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_layernorm.norms.{}" EachRow,
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_layernorm.norms.{}" EachRow,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const OLMO: Architecture = Architecture {
    name: "olmo",
    model_type: "olmo",
    class: "OlmoForCausalLM",
    epsilon: (LAYER_NORM, None),
    head_dim: false,
    flags: NO_BIASES,
    special: special::olmo,
    layer: rules! {
        "attn_q" => "self_attn.q_proj" QueryHalves,
        "attn_k" => "self_attn.k_proj" KeyHalves,
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
    },
    ..BASE
};

const OLMO2: Architecture = Architecture {
    name: "olmo2",
    model_type: "olmo2",
    class: "Olmo2ForCausalLM",
    head_dim: false,
    flags: NO_BIASES,
    stores_output: true,
    special: special::no_window,
    layer: rules! {
        "attn_q" => "self_attn.q_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k" => "self_attn.k_proj",
        "attn_k_norm" => "self_attn.k_norm",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "post_attention_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        "post_ffw_norm" => "post_feedforward_layernorm",
    },
    ..BASE
};

const BERT: Architecture = Architecture {
    name: "bert",
    model_type: "bert",
    class: "BertModel",
    epsilon: (LAYER_NORM, Some("layer_norm_eps")),
    head_dim: false,
    rotary: Rotary::Never,
    fixed: &[("hidden_act", "gelu"), ("position_embedding_type", "absolute")],
    ties: false,
    special: special::bert,
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

/// All architectures, in display order.
pub(super) const ALL: [&Architecture; 14] = [
    &LLAMA, &QWEN2, &QWEN3, &GEMMA, &GEMMA2, &GEMMA3, &PHI2, &PHI3, &GPT2, &GPTNEOX, &STABLELM,
    &OLMO, &OLMO2, &BERT,
];

impl Architecture {
    /// The architecture with this name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|architecture| architecture.name == name)
    }

    /// Name of the output matrix in transformers.
    pub(super) fn output(&self) -> Option<String> {
        let rule = self.whole.iter().find(|rule| rule.stored == "output")?;
        Some(format!("{}.weight", rule.name))
    }

    /// All names, for messages.
    pub(super) fn known() -> String {
        ALL.map(|architecture| architecture.name).join(", ")
    }
}
