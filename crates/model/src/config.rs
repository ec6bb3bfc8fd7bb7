//! The shape of a decoder, read from and written to the `config.json` of a checkpoint.

use crate::error::ConfigError;
use crate::families::{BiasRule, FAMILIES, Family, WindowRule};
use serde_json::{Map, Value, json};

mod fields;
use fields::Fields;

/// All that determines the architecture of a decoder, checked: sizes are positive and bounded, so
/// that their products cannot overflow.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerConfig {
    /// The family, which is needed to write the configuration.
    pub family: &'static Family,
    /// Features of the residual stream.
    pub hidden: usize,
    /// Features inside the MLP.
    pub intermediate: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides [`Self::heads`].
    pub kv_heads: usize,
    /// Features of a head; even.
    pub head_dim: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Longest sequence, in tokens.
    pub max_positions: usize,
    /// Added to the mean square in RMS normalisation.
    pub norm_eps: f64,
    /// Rotary positions.
    pub rope: Rope,
    /// Which linear layers have biases.
    pub biases: Biases,
    /// Whether the embedding is the output matrix too.
    pub tied_embeddings: bool,
    /// Keys that a query sees, its own included; `None`: all before it.
    pub sliding_window: Option<usize>,
    /// Token that starts a document.
    pub bos_token: Option<u32>,
    /// Tokens that end a document.
    pub eos_tokens: Vec<u32>,
}

/// Rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the geometric series of wavelengths.
    pub theta: f64,
    /// How the frequencies are changed for long contexts.
    pub scaling: RopeScaling,
}

/// A change of the rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Long wavelengths divided by a factor, short ones kept, blended between.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `original_max_positions / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original_max_positions / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Positions that the model was first trained with.
        original_max_positions: usize,
    },
}

/// Which linear layers have biases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Query, key and value.
    pub query_key_value: bool,
    /// Output of attention.
    pub output: bool,
    /// Gate, up and down.
    pub mlp: bool,
}

/// Bounds that keep every product of sizes far from overflow; the largest known models stay well
/// below them.
mod limit {
    pub(super) const WIDTH: usize = 1 << 20;
    pub(super) const LAYERS: usize = 1 << 12;
    pub(super) const HEADS: usize = 1 << 14;
    pub(super) const HEAD_DIM: usize = 1 << 14;
    pub(super) const VOCAB: usize = 1 << 24;
    pub(super) const POSITIONS: usize = 1 << 31;
}

impl TransformerConfig {
    /// Reads and checks a `config.json`. Defaults of absent fields are those of the family's
    /// configuration class in transformers; sizes have none.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field.
    pub fn from_json(config: &Value) -> Result<Self, ConfigError> {
        let fields = Fields::of(config)?;
        let family = read_family(&fields)?;
        let hidden = fields.size("hidden_size", limit::WIDTH)?;
        let heads = fields.size("num_attention_heads", limit::HEADS)?;
        let kv_heads = fields
            .optional_size("num_key_value_heads", limit::HEADS)?
            .unwrap_or_else(|| family.kv_heads.unwrap_or(heads));
        let head_dim = read_head_dim(&fields, hidden, heads)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(ConfigError::Inconsistent {
                fields: "num_attention_heads and num_key_value_heads",
                reason: format!("{heads} query heads are no multiple of {kv_heads}"),
            });
        }
        read_activation(&fields)?;
        let max_positions = fields.size("max_position_embeddings", limit::POSITIONS)?;
        let vocab = fields.size("vocab_size", limit::VOCAB)?;
        Ok(Self {
            family,
            hidden,
            intermediate: fields.size("intermediate_size", limit::WIDTH)?,
            layers: fields.size("num_hidden_layers", limit::LAYERS)?,
            heads,
            kv_heads,
            head_dim,
            vocab,
            max_positions,
            norm_eps: fields.number("rms_norm_eps", 0.0, 1.0)?,
            rope: read_rope(&fields, max_positions)?,
            biases: read_biases(&fields, family)?,
            tied_embeddings: fields.flag("tie_word_embeddings", false)?,
            sliding_window: read_window(&fields, family)?,
            bos_token: fields.tokens("bos_token_id", vocab)?.first().copied(),
            eos_tokens: fields.tokens("eos_token_id", vocab)?,
        })
    }

    /// The `config.json` that transformers loads (versions 4 and 5).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut config = json!({
            "architectures": [self.family.architecture],
            "model_type": self.family.model_type,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.max_positions,
            "rms_norm_eps": self.norm_eps,
            "hidden_act": "silu",
            "rope_theta": self.rope.theta,
            "rope_scaling": self.rope.scaling.to_json(),
            "tie_word_embeddings": self.tied_embeddings,
            "bos_token_id": self.bos_token,
            "eos_token_id": match self.eos_tokens.as_slice() {
                [] => Value::Null,
                [one] => json!(one),
                many => json!(many),
            },
            "torch_dtype": "float32",
        });
        if self.family.biases == BiasRule::Fields {
            config["attention_bias"] = json!(self.biases.query_key_value);
            config["mlp_bias"] = json!(self.biases.mlp);
        }
        match self.family.window {
            WindowRule::Never => {}
            WindowRule::Field(_) => config["sliding_window"] = json!(self.sliding_window),
            WindowRule::Refused => config["use_sliding_window"] = json!(false),
        }
        config
    }

    /// Number of parameters: weights, biases, norms and embeddings.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let count = |shape: &Vec<usize>| shape.iter().map(|&n| n as u64).product::<u64>();
        self.tensor_shapes().iter().map(|(_, shape)| count(shape)).sum()
    }

    /// Name and shape of every tensor of a dense checkpoint, in the order of computation.
    #[must_use]
    pub fn tensor_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut all = vec![(EMBEDDING.to_owned(), vec![self.vocab, self.hidden])];
        for layer in 0..self.layers {
            let [input_norm, mlp_norm] = NORMS.map(|norm| format!("model.layers.{layer}.{norm}"));
            all.push((input_norm, vec![self.hidden]));
            for (index, linear) in self.linears().into_iter().enumerate() {
                if index == LINEARS_OF_ATTENTION {
                    all.push((mlp_norm.clone(), vec![self.hidden]));
                }
                let site = format!("model.layers.{layer}.{}", linear.name);
                all.push((format!("{site}.weight"), vec![linear.out, linear.inp]));
                if linear.bias {
                    all.push((format!("{site}.bias"), vec![linear.out]));
                }
            }
        }
        all.push((FINAL_NORM.to_owned(), vec![self.hidden]));
        if !self.tied_embeddings {
            all.push((format!("{HEAD}.weight"), vec![self.vocab, self.hidden]));
        }
        all
    }

    /// Features of all query heads.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Features of all key heads, which is that of all value heads.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// The linear layers of one layer, in the order of computation.
    pub(crate) fn linears(&self) -> [Linear; 7] {
        let (hidden, query, kv, mlp) =
            (self.hidden, self.query_width(), self.kv_width(), self.intermediate);
        let Biases { query_key_value, output, mlp: mlp_bias } = self.biases;
        [
            Linear::new("self_attn.q_proj", query, hidden, query_key_value),
            Linear::new("self_attn.k_proj", kv, hidden, query_key_value),
            Linear::new("self_attn.v_proj", kv, hidden, query_key_value),
            Linear::new("self_attn.o_proj", hidden, query, output),
            Linear::new("mlp.gate_proj", mlp, hidden, mlp_bias),
            Linear::new("mlp.up_proj", mlp, hidden, mlp_bias),
            Linear::new("mlp.down_proj", hidden, mlp, mlp_bias),
        ]
    }
}

/// Name of the token embedding in checkpoints.
pub(crate) const EMBEDDING: &str = "model.embed_tokens.weight";
/// Name of the norm before the head.
pub(crate) const FINAL_NORM: &str = "model.norm.weight";
/// Site of the output matrix.
pub(crate) const HEAD: &str = "lm_head";
/// Names of the norms before attention and MLP, within a layer.
pub(crate) const NORMS: [&str; 2] = ["input_layernorm.weight", "post_attention_layernorm.weight"];
/// How many of a layer's linears come before the norm of the MLP.
pub(crate) const LINEARS_OF_ATTENTION: usize = 4;

/// A linear layer of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear {
    /// Its site within the layer.
    pub(crate) name: &'static str,
    /// Features out.
    pub(crate) out: usize,
    /// Features in.
    pub(crate) inp: usize,
    /// Whether it has a bias.
    pub(crate) bias: bool,
}

impl Linear {
    fn new(name: &'static str, out: usize, inp: usize, bias: bool) -> Self {
        Self { name, out, inp, bias }
    }
}

impl RopeScaling {
    fn to_json(self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
            Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_positions } => {
                json!({
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low_freq_factor,
                    "high_freq_factor": high_freq_factor,
                    "original_max_position_embeddings": original_max_positions,
                })
            }
        }
    }
}

fn read_family(fields: &Fields<'_>) -> Result<&'static Family, ConfigError> {
    let model_type = fields
        .text("model_type")?
        .ok_or(ConfigError::Missing { field: "model_type", expected: "the name of a family" })?;
    Family::find(model_type).ok_or_else(|| ConfigError::UnknownFamily {
        found: model_type.to_owned(),
        known: FAMILIES.iter().map(|family| family.model_type).collect::<Vec<_>>().join(", "),
    })
}

fn read_head_dim(fields: &Fields<'_>, hidden: usize, heads: usize) -> Result<usize, ConfigError> {
    let head_dim = match fields.optional_size("head_dim", limit::HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(ConfigError::Inconsistent {
                fields: "hidden_size and num_attention_heads",
                reason: format!("{hidden} is no multiple of {heads}, and head_dim is absent"),
            });
        }
    };
    if !head_dim.is_multiple_of(2) {
        return Err(ConfigError::Inconsistent {
            fields: "hidden_size, num_attention_heads and head_dim",
            reason: format!("heads have {head_dim} features; rotary positions need an even number"),
        });
    }
    if heads * head_dim > limit::WIDTH {
        return Err(ConfigError::Inconsistent {
            fields: "num_attention_heads and head_dim",
            reason: format!("{heads} x {head_dim} features exceed {}", limit::WIDTH),
        });
    }
    Ok(head_dim)
}

fn read_activation(fields: &Fields<'_>) -> Result<(), ConfigError> {
    match fields.text("hidden_act")? {
        None | Some("silu" | "swish") => Ok(()),
        Some(other) => Err(ConfigError::Unsupported {
            field: "hidden_act",
            found: format!("{other:?}"),
            supported: "\"silu\"",
        }),
    }
}

fn read_biases(fields: &Fields<'_>, family: &Family) -> Result<Biases, ConfigError> {
    Ok(match family.biases {
        BiasRule::Never => Biases::default(),
        BiasRule::QueryKeyValue => Biases { query_key_value: true, ..Biases::default() },
        BiasRule::Fields => {
            let attention = fields.flag("attention_bias", false)?;
            Biases {
                query_key_value: attention,
                output: attention,
                mlp: fields.flag("mlp_bias", false)?,
            }
        }
    })
}

fn read_window(fields: &Fields<'_>, family: &Family) -> Result<Option<usize>, ConfigError> {
    match family.window {
        WindowRule::Never => Ok(None),
        WindowRule::Field(default) if !fields.has("sliding_window") => Ok(Some(default)),
        WindowRule::Field(_) => fields.optional_size("sliding_window", limit::POSITIONS),
        WindowRule::Refused if fields.flag("use_sliding_window", false)? => {
            Err(ConfigError::Unsupported {
                field: "use_sliding_window",
                found: "true".into(),
                supported: "false (full attention in every layer)",
            })
        }
        WindowRule::Refused => Ok(None),
    }
}

/// Positions stand in `rope_theta` and `rope_scaling`, or, as newer versions of transformers write
/// them, together in `rope_parameters`.
fn read_rope(fields: &Fields<'_>, max_positions: usize) -> Result<Rope, ConfigError> {
    let empty = Map::new();
    let newer = fields.object("rope_parameters")?;
    let scaling = match newer {
        Some(object) => object,
        None => fields.object("rope_scaling")?.unwrap_or(Fields::of_map(&empty)),
    };
    for place in [fields, &scaling] {
        let share = place.optional_number("partial_rotary_factor", 0.0, 1.0)?.unwrap_or(1.0);
        if share != 1.0 {
            return Err(ConfigError::Unsupported {
                field: "partial_rotary_factor",
                found: share.to_string(),
                supported: "1 (all features of a head rotate)",
            });
        }
    }
    let theta = scaling
        .optional_number("rope_theta", 1.0, 1e30)?
        .or(fields.optional_number("rope_theta", 1.0, 1e30)?)
        .unwrap_or(10_000.0);
    Ok(Rope { theta, scaling: read_scaling(&scaling, max_positions)? })
}

fn read_scaling(fields: &Fields<'_>, max_positions: usize) -> Result<RopeScaling, ConfigError> {
    let kind = match fields.text("rope_type")? {
        Some(kind) => Some(kind),
        None => fields.text("type")?,
    };
    let factor = || fields.number("factor", 1.0, 1e6);
    match kind {
        None | Some("default") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: factor()? }),
        Some("llama3") => {
            let low = fields.number("low_freq_factor", 1e-6, 1e6)?;
            let high = fields.number("high_freq_factor", 1e-6, 1e6)?;
            if high <= low {
                return Err(ConfigError::Inconsistent {
                    fields: "low_freq_factor and high_freq_factor",
                    reason: format!("{high} is not above {low}"),
                });
            }
            let original = "original_max_position_embeddings";
            Ok(RopeScaling::Llama3 {
                factor: factor()?,
                low_freq_factor: low,
                high_freq_factor: high,
                original_max_positions: fields
                    .optional_size(original, limit::POSITIONS)?
                    .unwrap_or(max_positions),
            })
        }
        Some(other) => Err(ConfigError::Unsupported {
            field: "rope_scaling",
            found: format!("{other:?}"),
            supported: "null, \"default\", \"linear\", \"llama3\"",
        }),
    }
}

#[cfg(test)]
mod tests;
