//! Model families as data: field names and defaults of `config.json`, structure of the blocks, and
//! tensor names. There is one transformer; a family only selects its parts. A new family is one
//! constant in one file, and one line here.

pub(crate) mod gguf;
pub(crate) mod tokenizers;

/// Rotary fields; see [`RotaryForm`].
const ROTARY: &[&str] = &[
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "original_max_position_embeddings",
];
/// Fields of grouped-query attention.
const HEADS: &[&str] = &["num_key_value_heads", "head_dim"];
/// Fields of sliding windows.
const WINDOWS: &[&str] =
    &["sliding_window", "use_sliding_window", "max_window_layers", "layer_types"];
/// Features that an encoder must not have.
const NO_DECODER: &[&str] = &["is_decoder"];
/// Features that a decoder must not have.
const BIDIRECTIONAL: &[&str] = &["use_bidirectional_attention"];

use crate::Role;
use gguf::Architecture;
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::norm::NormKind;
use linwright_tensor::kernels::rope::Pairing;
use std::fmt;

/// Presence of an optional part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Never.
    Off,
    /// Always.
    On,
    /// If this field of the configuration is true.
    Field(&'static str),
}

/// Default of an absent field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// An integer.
    Size(usize),
    /// A float.
    Number(f64),
    /// A boolean.
    Flag(bool),
    /// A string.
    Text(&'static str),
    /// This multiple of the width, also for a null field.
    TimesHidden(usize),
}

/// Placement of the norms of a block; b is attention or MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// `h + b(norm(h))`.
    Before,
    /// `h + norm(b(norm(h)))`.
    BeforeAndAfter,
    /// `h + norm(b(h))`.
    After,
    /// `norm(h + b(h))`.
    OnSum,
    /// [`Self::Before`] if the field is true, else [`Self::OnSum`].
    BeforeIf(&'static str),
}

/// Whether attention and MLP run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    /// Whether both read the same residual stream; otherwise the MLP reads the output of attention.
    pub when: Switch,
    /// Whether they then share the norm of attention.
    pub one_norm: bool,
}

/// Norms of the residual stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormRule {
    /// RMS norm or layer norm.
    pub kind: NormKind,
    /// Whether there is a weight.
    pub weight: Switch,
    /// Whether there is a bias.
    pub bias: Switch,
    /// Offset added to the weight.
    pub offset: f32,
}

/// Query and key norms, before rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKeyNorm {
    /// Whether they exist.
    pub when: Switch,
    /// Features that are normalised together.
    pub scope: Scope,
    /// Whether there is a bias.
    pub bias: bool,
    /// Tensor names of the two; `{}` is the head if each has its own tensor.
    pub names: [&'static str; 2],
}

/// Features that a query or key norm normalises together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A head; all heads share weights.
    Head,
    /// A head; each has its own weights in its own tensor.
    EachHead,
    /// All heads together.
    Whole,
}

/// Rule for sliding windows: the width is the field `sliding_window`; the layers follow the rule,
/// unless the field `layer_types` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// No windows.
    Never,
    /// Every layer.
    Every,
    /// Every layer except each n-th, which is global; n is the field `sliding_window_pattern`.
    AllButNth,
    /// With `use_sliding_window`, the layers from `max_window_layers` on.
    Upper,
    /// With `use_sliding_window`, the layers without rotary embedding.
    Unrotated,
}

/// Kind of position encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// Rotary embedding of queries and keys.
    Rotary(Pairing),
    /// A learned table, added to the embedding.
    Learned {
        /// Name of the table.
        name: &'static str,
        /// Row of the first position.
        first: FirstRow,
    },
}

/// Rotary fields of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryForm {
    /// One rotary embedding for all layers, over the whole head.
    Whole,
    /// One rotary embedding for all layers, over the share `partial_rotary_factor` of a head.
    Part,
    /// As [`Self::Part`]; every scaling has one factor per frequency.
    PartLong,
    /// One rotary embedding for global layers and one for windowed layers, whose base is
    /// `rope_local_base_freq`, over the whole head.
    ByKind,
    /// `rotary_dim` is the number of rotated features of a head; there are no other fields.
    Features,
}

/// Row of the position table for the first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRow {
    /// This row; the rows before it are not included in the configured number of positions.
    At(usize),
    /// The row after `pad_token_id`; the configured number of positions includes the rows before
    /// it.
    AfterPad,
}

/// Which linear layers have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiasRule {
    /// Query, key and value projections.
    pub query_key_value: Switch,
    /// Output projection of attention.
    pub output: Switch,
    /// The MLP.
    pub mlp: Switch,
    /// The head.
    pub head: Switch,
}

impl BiasRule {
    const NONE: Self = Self {
        query_key_value: Switch::Off,
        output: Switch::Off,
        mlp: Switch::Off,
        head: Switch::Off,
    };
}

/// Row order of a fused projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fused {
    /// All queries, then all keys, then all values.
    Whole,
    /// Query, key and value of the first head, then of the next.
    ByHead,
}

/// A linear layer: its name within a layer, and its role.
pub type Named = (&'static str, Role);

/// Names of the tensors of a checkpoint, without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Names {
    /// Prefix of every name except the head's; files of the bare model omit it.
    pub prefix: &'static str,
    /// Token embedding.
    pub embedding: &'static str,
    /// Token type embedding.
    pub types: Option<&'static str>,
    /// Norm of the embedding.
    pub embedding_norm: Option<&'static str>,
    /// Prefix of the layer index.
    pub layer: &'static str,
    /// Query, key and value projections: three layers, or one fused.
    pub attention: &'static [Named],
    /// Output projection of attention.
    pub output: &'static str,
    /// Input projections of the MLP: gate and up, both fused, or one without a gate.
    pub mlp: &'static [Named],
    /// Output projection of the MLP.
    pub mlp_output: Named,
    /// Norms of attention, in the order of their placement.
    pub attention_norms: &'static [&'static str],
    /// Norms of the MLP.
    pub mlp_norms: &'static [&'static str],
    /// Final norm.
    pub final_norm: Option<&'static str>,
    /// Head of the model.
    pub head: Head,
    /// Pooler, if a checkpoint has one.
    pub pooler: Option<&'static str>,
    /// Alternative parts of tensor names in some files, each with its standard form.
    pub variants: &'static [(&'static str, &'static str)],
}

/// Head of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A linear output matrix of this name.
    Linear(&'static str),
    /// `output(norm(act(dense(h))))`; a checkpoint may omit the head.
    Masked {
        /// The linear layer before the norm.
        dense: &'static str,
        /// The norm.
        norm: &'static str,
        /// The output matrix, unless it is tied to the embedding.
        output: &'static str,
        /// Bias of a tied output matrix.
        bias: &'static str,
        /// Whether its activation is the exact gelu, independent of that of the layers.
        gelu: bool,
    },
}

/// Data of one model family.
#[derive(Clone, Copy, PartialEq)]
pub struct Family {
    /// The `model_type` of its configurations.
    pub model_type: &'static str,
    /// Description, without a period.
    pub about: &'static str,
    /// Other model types with the same architecture.
    pub aliases: &'static [&'static str],
    /// The first of `architectures`.
    pub architecture: &'static str,
    /// Field names that differ: the standard name and the name in this family, empty if there is no
    /// such field.
    pub fields: &'static [(&'static str, &'static str)],
    /// Standard names that the family's class accepts besides its own; they take precedence if both
    /// are present.
    pub synonyms: &'static [&'static str],
    /// Optional fields that the family's class in transformers reads, by their standard names and
    /// in groups. Like in the class, all others are ignored; see also [`Self::beyond`].
    pub reads: &'static [&'static [&'static str]],
    /// Fields that the class reads and that the transformer does not implement: an error unless
    /// false or absent.
    pub beyond: &'static [&'static str],
    /// Defaults of absent fields, by their standard names, as in its configuration class.
    pub defaults: &'static [(&'static str, Default)],
    /// Activations with other names.
    pub activations: &'static [(&'static str, Activation<f32>)],
    /// Tensor names.
    pub names: Names,
    /// Whether attention is causal.
    pub causal: bool,
    /// Whether matrices are stored transposed, (inp, out).
    pub transposed: bool,
    /// Row order of a fused query-key-value projection.
    pub fused: Fused,
    /// Norms of the residual stream.
    pub norm: NormRule,
    /// Placement of the norms.
    pub placement: Placement,
    /// Whether attention and MLP run in parallel.
    pub parallel: Parallel,
    /// Query and key norms.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// Biases of linear layers.
    pub biases: BiasRule,
    /// Sliding windows.
    pub window: WindowRule,
    /// Position encoding.
    pub positions: Positions,
    /// Rotary fields.
    pub rotary: RotaryForm,
    /// Whether embeddings are multiplied by the square root of the width.
    pub scaled_embedding: bool,
    /// Its form in GGUF files, if they have one of its own.
    pub(crate) gguf: Option<&'static Architecture>,
}

/// The family with layer-wise widths in its configuration.
pub const BLOCKS: &Family = &deci::DECI;
/// The equivalent family for models with equal widths.
pub const PLAIN: &Family = &llama::LLAMA;

/// Module name of a site in transformers since version 5, if it differs from the files.
pub(crate) fn module_name(site: &str) -> &str {
    match site {
        "embed_out" => "lm_head",
        other => other,
    }
}

macro_rules! families {
    ($($module:ident => $($family:ident),+;)*) => {
        $(mod $module;)*

        /// All families, in display order.
        pub const FAMILIES: &[&Family] = &[$($(&$module::$family,)+)*];
    };
}

families! {
    llama => LLAMA;
    mistral => MISTRAL;
    qwen => QWEN2, QWEN3;
    gemma => GEMMA, GEMMA2, GEMMA3;
    phi => PHI;
    phi3 => PHI3;
    gpt2 => GPT2;
    gptj => GPTJ;
    gpt_neox => GPT_NEOX;
    opt => OPT;
    stablelm => STABLELM;
    smollm3 => SMOLLM3;
    olmo => OLMO, OLMO2;
    deci => DECI;
    bert => BERT;
    roberta => ROBERTA;
    distilbert => DISTILBERT;
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.model_type)
    }
}

impl Family {
    /// The family of a `model_type`.
    #[must_use]
    pub fn find(model_type: &str) -> Option<&'static Self> {
        let is =
            |family: &Self| family.model_type == model_type || family.aliases.contains(&model_type);
        FAMILIES.iter().copied().find(|family| is(family))
    }

    /// The family with this GGUF architecture, and its form in these files.
    #[cfg(feature = "gguf")]
    pub(crate) fn of_gguf(name: &str) -> Option<(&'static Self, &'static Architecture)> {
        Self::with_gguf().find(|(_, architecture)| architecture.name == name)
    }

    /// Families with a GGUF architecture of their own, in display order.
    #[cfg(feature = "gguf")]
    pub(crate) fn with_gguf() -> impl Iterator<Item = (&'static Self, &'static Architecture)> {
        FAMILIES.iter().filter_map(|family| Some((*family, family.gguf?)))
    }

    /// Whether models of both families compute and store the same for equal configurations.
    pub(crate) fn computes_as(&self, other: &Self) -> bool {
        let of = |family: &Self| {
            let Self { names, causal, transposed, fused, positions, .. } = *family;
            (names, causal, transposed, fused, positions)
        };
        of(self) == of(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    #[cfg(feature = "gguf")]
    fn every_gguf_form_belongs_to_one_family_and_has_its_names() {
        let mut forms = BTreeSet::new();
        for (family, form) in Family::with_gguf() {
            let (names, form_name) = (&family.names, form.name);
            assert!(forms.insert(form_name), "{family:?} has the form {form_name} of another");
            let layers = format!("{}{}", names.prefix, names.layer);
            assert!(layers.ends_with(form.prefix), "{family:?}: {layers}, {}", form.prefix);
            let inner = names.attention.iter().chain(names.mlp).chain([&names.mlp_output]);
            for name in inner.map(|(name, _)| *name).chain([names.output]) {
                let is_mapped = form.layer.iter().any(|rule| rule.name == name);
                assert!(is_mapped, "{family:?}: no rule of {form_name} gives {name}");
            }
        }
        assert_eq!(forms.len(), 14);
    }
}
