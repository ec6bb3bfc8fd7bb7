//! Families of models as data: how the fields of a `config.json` are called, what it leaves unsaid,
//! how blocks are built, and how tensors are named. There is one transformer; a family only says
//! which of its parts are there. A new family is one constant in one file, and one line here.

mod bert;
mod deci;
mod distilbert;
mod gemma;
mod gpt2;
mod gpt_neox;
mod gptj;
mod llama;
mod mistral;
mod olmo;
mod opt;
mod phi;
mod phi3;
mod qwen;
mod roberta;
mod smollm3;
mod stablelm;
pub(crate) mod tokenizers;

/// Fields of rotary positions; see [`RotaryForm`].
const ROTARY: &[&str] = &[
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "original_max_position_embeddings",
];
/// Fields of heads whose keys and values are shared.
const HEADS: &[&str] = &["num_key_value_heads", "head_dim"];
/// Fields of windows in some layers.
const WINDOWS: &[&str] =
    &["sliding_window", "use_sliding_window", "max_window_layers", "layer_types"];
/// What an encoder must not be.
const NO_DECODER: &[&str] = &["is_decoder"];
/// What a decoder must not be.
const BIDIRECTIONAL: &[&str] = &["use_bidirectional_attention"];

use linwright_ops::Role;
use linwright_tensor::kernels::activation::Activation;
use linwright_tensor::kernels::norm::NormKind;
use linwright_tensor::kernels::rope::Pairing;
use std::fmt;

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Never.
    Off,
    /// Always.
    On,
    /// As this field of the configuration says.
    Field(&'static str),
}

/// What an absent field of a configuration means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// A whole number.
    Size(usize),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A string.
    Text(&'static str),
    /// This many times the width, also where the field is null.
    TimesHidden(usize),
}

/// Where the norms of a block stand; b is attention or MLP.
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
    /// [`Self::Before`] if the field says true, else [`Self::OnSum`].
    BeforeIf(&'static str),
}

/// Whether attention and MLP read the same residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    /// Whether they do; otherwise the MLP reads what attention left.
    pub when: Switch,
    /// Whether they then share the norm of attention too.
    pub one_norm: bool,
}

/// Norms of residual rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormRule {
    /// By the mean square, or by mean and variance.
    pub kind: NormKind,
    /// Whether there is a weight.
    pub weight: Switch,
    /// Whether there is a bias.
    pub bias: Switch,
    /// What is added to the weight.
    pub offset: f32,
}

/// Norms of queries and keys, before positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKeyNorm {
    /// Whether they are there.
    pub when: Switch,
    /// What is normalised together.
    pub scope: Scope,
    /// Whether there is a bias.
    pub bias: bool,
    /// Names of the two; `{}` stands for the head where each has its own.
    pub names: [&'static str; 2],
}

/// Features that a norm of queries or keys takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A head; all heads share weights.
    Head,
    /// A head, each with weights of its own in a tensor of its own.
    EachHead,
    /// All heads together.
    Whole,
}

/// Where a family takes the width of its attention windows from: the field `sliding_window`, in the
/// layers that the rule names, unless the field `layer_types` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// There is none.
    Never,
    /// Every layer.
    Every,
    /// Every layer but each n-th, which sees everything; n is the field `sliding_window_pattern`.
    AllButNth,
    /// With `use_sliding_window`, the layers from `max_window_layers` on.
    Upper,
    /// With `use_sliding_window`, the layers without rotary positions.
    Unrotated,
}

/// How a family knows positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// Queries and keys rotate.
    Rotary(Pairing),
    /// A row of a table is added to the embedding.
    Learned {
        /// Name of the table.
        name: &'static str,
        /// The row of the first position.
        first: FirstRow,
    },
}

/// What the fields of rotary positions of a family say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotaryForm {
    /// One form for all layers; the whole head rotates.
    Whole,
    /// One form for all layers; `partial_rotary_factor` says how much of a head rotates.
    Part,
    /// As [`Self::Part`]; every scaled kind is a factor for each frequency.
    PartLong,
    /// One form for full layers and one for those with a window, whose base is
    /// `rope_local_base_freq`; the whole head rotates.
    ByKind,
    /// `rotary_dim` says how many features of a head rotate, and nothing else is said.
    Features,
}

/// The row of a table of positions that belongs to the first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRow {
    /// This one; the rows before it come on top of the positions that the configuration counts.
    At(usize),
    /// The one after `pad_token_id`; the configuration counts the rows before it too.
    AfterPad,
}

/// Which linear layers have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiasRule {
    /// Query, key and value.
    pub query_key_value: Switch,
    /// Output of attention.
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

/// How the rows of a fused projection stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fused {
    /// All of the first, then all of the next.
    Whole,
    /// Query, key and value of the first head, then of the next.
    ByHead,
}

/// A linear layer: its name within a layer, and what it does.
pub type Named = (&'static str, Role);

/// Names of the tensors of a checkpoint, without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Names {
    /// What stands before every name but those of the head; files of the bare model leave it out.
    pub prefix: &'static str,
    /// Embedding of tokens.
    pub embedding: &'static str,
    /// Embedding of token types.
    pub types: Option<&'static str>,
    /// Norm of the embedding.
    pub embedding_norm: Option<&'static str>,
    /// What stands before the number of a layer.
    pub layer: &'static str,
    /// What makes queries, keys and values: three layers, or one.
    pub attention: &'static [Named],
    /// Output of attention.
    pub output: &'static str,
    /// What leads into the MLP: gate and up, both in one, or one without a gate.
    pub mlp: &'static [Named],
    /// What leads out of it.
    pub mlp_output: Named,
    /// Norms of attention, in the order of their placement.
    pub attention_norms: &'static [&'static str],
    /// Norms of the MLP.
    pub mlp_norms: &'static [&'static str],
    /// Norm before the head.
    pub final_norm: Option<&'static str>,
    /// The end of the model.
    pub head: Head,
    /// The layer on top of the first token, if a checkpoint has it.
    pub pooler: Option<&'static str>,
    /// Parts of names that some files write otherwise: as they stand there, and as above.
    pub variants: &'static [(&'static str, &'static str)],
}

/// The end of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// One linear layer of this name.
    Linear(&'static str),
    /// `output(norm(act(dense(h))))`; a checkpoint may leave it all out.
    Masked {
        /// The linear layer before the norm.
        dense: &'static str,
        /// The norm.
        norm: &'static str,
        /// The output matrix, where it is not the embedding.
        output: &'static str,
        /// Name of the bias of the output where that is the embedding.
        bias: &'static str,
        /// Whether its activation is the exact gelu, whatever that of the layers is.
        gelu: bool,
    },
}

/// What distinguishes one family from another.
#[derive(Clone, Copy, PartialEq)]
pub struct Family {
    /// The `model_type` of its configurations.
    pub model_type: &'static str,
    /// Other model types that are read the same way.
    pub aliases: &'static [&'static str],
    /// The first of `architectures`.
    pub architecture: &'static str,
    /// Fields that the family calls otherwise: the usual name, and its own, empty where it has no
    /// such field.
    pub fields: &'static [(&'static str, &'static str)],
    /// Names, among the usual ones, that its class takes as well as its own; they count where both
    /// are written.
    pub synonyms: &'static [&'static str],
    /// Optional fields that its class in transformers obeys, by their usual names and in groups. It
    /// passes over all others, and so do we; see also [`Self::beyond`].
    pub reads: &'static [&'static [&'static str]],
    /// Fields that its class obeys and that no part of the one transformer follows: they are
    /// refused unless they are false or absent.
    pub beyond: &'static [&'static str],
    /// What absent fields mean, by their usual names: defaults of its configuration class.
    pub defaults: &'static [(&'static str, Default)],
    /// Activations that the family calls otherwise.
    pub activations: &'static [(&'static str, Activation<f32>)],
    /// Names of tensors.
    pub names: Names,
    /// Whether a token sees only those before it.
    pub causal: bool,
    /// Whether matrices are stored with inputs in rows.
    pub transposed: bool,
    /// How a fused projection of queries, keys and values is ordered.
    pub fused: Fused,
    /// Norms of residual rows.
    pub norm: NormRule,
    /// Where they stand.
    pub placement: Placement,
    /// Whether attention and MLP stand side by side.
    pub parallel: Parallel,
    /// Norms of queries and keys.
    pub query_key_norm: Option<QueryKeyNorm>,
    /// Biases of linear layers.
    pub biases: BiasRule,
    /// Attention windows.
    pub window: WindowRule,
    /// Positions.
    pub positions: Positions,
    /// What the fields of rotary positions say.
    pub rotary: RotaryForm,
    /// Whether embeddings are multiplied by the root of the width.
    pub scaled_embedding: bool,
}

/// The family whose configurations name widths layer by layer.
pub const BLOCKS: &Family = &deci::DECI;
/// The family of the same models where all layers have one width.
pub const PLAIN: &Family = &llama::LLAMA;

/// What transformers since version 5 calls the module of a site, where its files say otherwise.
pub(crate) fn module_name(site: &str) -> &str {
    match site {
        "embed_out" => "lm_head",
        other => other,
    }
}

/// All families, in the order of listings.
pub const FAMILIES: &[&Family] = &[
    &llama::LLAMA,
    &mistral::MISTRAL,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &phi::PHI,
    &phi3::PHI3,
    &gpt2::GPT2,
    &gptj::GPTJ,
    &gpt_neox::GPT_NEOX,
    &opt::OPT,
    &stablelm::STABLELM,
    &smollm3::SMOLLM3,
    &olmo::OLMO,
    &olmo::OLMO2,
    &deci::DECI,
    &bert::BERT,
    &roberta::ROBERTA,
    &distilbert::DISTILBERT,
];

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

    /// Whether models of both families compute and store the same if their configurations say the
    /// same.
    pub(crate) fn computes_as(&self, other: &Self) -> bool {
        let of = |family: &Self| {
            let Self { names, causal, transposed, fused, positions, .. } = *family;
            (names, causal, transposed, fused, positions)
        };
        of(self) == of(other)
    }
}
