//! Known GGUF architectures as data: tensor names, and the changes that GGUF converters make to
//! tensors. Each is in the file of its family.
//!
//! Source: the names and conversions of llama.cpp (`convert_hf_to_gguf.py`, package `gguf`), and
//! the tensor names of transformers.

/// How to undo a converter's change to a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) stored: &'static str,
    pub(crate) name: &'static str,
    pub(crate) change: Change,
}

/// Share of a head that rotary embeddings rotate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rotary {
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
pub(crate) enum Tables {
    /// None.
    None,
    /// One for all lengths, or one for short and one for long contexts.
    Any,
    /// One for short and one for long contexts.
    ShortAndLong,
}

/// Attention windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None.
    Never,
    /// A width that llama.cpp ignores.
    Unused,
    /// In all layers but each n-th; the default n if it is not in the file.
    AllButNth(u32),
}

/// Configuration fields beyond the common ones; `checkpoint/gguf/special.rs` adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// None.
    Nothing,
    /// Biases if the file has them, windows and rotary factors.
    Llama,
    /// Global attention only.
    NoWindow,
    /// Windows in every other layer, soft caps.
    Gemma2,
    /// Windows with their own rotary base.
    Gemma3,
    /// A window and rotary factors.
    Phi3,
    /// Parallel residuals and biases.
    GptNeox,
    /// Parallel residuals, biases and norms of heads.
    StableLm,
    /// A clamp on queries, keys and values.
    Olmo,
    /// The number of token types.
    Bert,
}

/// A GGUF architecture: the form of a family in these files.
#[derive(Debug, PartialEq)]
pub(crate) struct Architecture {
    /// `general.architecture`.
    pub(crate) name: &'static str,
    /// The first of `architectures`.
    pub(crate) class: &'static str,
    /// Size keys and their fields.
    pub(crate) sizes: [(&'static str, &'static str); 5],
    /// Key and field of the norms' epsilon.
    pub(crate) epsilon: (&'static str, Option<&'static str>),
    /// Whether `head_dim` is a field. Otherwise heads divide the width of the model.
    pub(crate) head_dim: bool,
    /// Share of a head that is rotated.
    pub(crate) rotary: Rotary,
    /// Field of the rotary base.
    pub(crate) theta: &'static str,
    /// Tables of rotary divisors.
    pub(crate) tables: Tables,
    /// Attention windows.
    pub(crate) windows: Windows,
    /// Fields with a fixed value.
    pub(crate) fixed: &'static [(&'static str, &'static str)],
    /// Whether llama.cpp caps scores and logits by default: at 50 and 30.
    pub(crate) caps: bool,
    /// Booleans that llama.cpp fixes, regardless of the file. They are also the defaults of absent
    /// fields.
    pub(crate) flags: &'static [(&'static str, bool)],
    /// Whether the output matrix may be tied to the embedding.
    pub(crate) ties: bool,
    /// Whether llama.cpp needs an output matrix in the file even if it is tied.
    pub(crate) stores_output: bool,
    /// Further changes to the configuration.
    pub(crate) special: Special,
    /// Tensors outside the layers.
    pub(crate) whole: &'static [Rule],
    /// Prefix of the layer index in tensor names.
    pub(crate) prefix: &'static str,
    /// Tensors of a layer.
    pub(crate) layer: &'static [Rule],
}

const USUAL: [(&str, &str); 5] = [
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("context_length", "max_position_embeddings"),
];
const RMS: &str = "attention.layer_norm_rms_epsilon";
pub(super) const LAYER_NORM: &str = "attention.layer_norm_epsilon";
/// A tensor outside the layers with rotary factors, which becomes part of the configuration.
#[cfg(feature = "gguf")]
pub(crate) const ROPE_TENSORS: [&str; 3] =
    ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

macro_rules! rules {
    ($($stored:literal => $name:literal $($change:ident)?,)*) => {
        &[$($crate::families::gguf::Rule {
            stored: $stored,
            name: $name,
            change: $crate::families::gguf::rules!(@ $($change)?),
        },)*]
    };
    (@) => { $crate::families::gguf::Change::Same };
    (@ $change:ident) => { $crate::families::gguf::Change::$change };
}

pub(super) use rules;

const WHOLE: &[Rule] = rules! {
    "token_embd" => "model.embed_tokens",
    "output_norm" => "model.norm",
    "output" => "lm_head",
};

/// Defaults of most architectures.
pub(super) const BASE: Architecture = Architecture {
    name: "",
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
    special: Special::Nothing,
    whole: WHOLE,
    prefix: "model.layers",
    layer: &[],
};

pub(super) const NO_BIASES: &[(&str, bool)] = &[("attention_bias", false)];

#[cfg(feature = "gguf")]
impl Architecture {
    /// Name of the output matrix in transformers.
    pub(crate) fn output(&self) -> Option<String> {
        let rule = self.whole.iter().find(|rule| rule.stored == "output")?;
        Some(format!("{}.weight", rule.name))
    }
}
