//! Reading of `config.json`.

use super::beyond;
use super::fields::{self, Fields};
use super::rotary::{self, Rope};
use super::{
    AttentionConfig, Biases, HeadsConfig, LayerConfig, LearnedPositions, MlpConfig, NormConfig,
    ParallelNorms, Placement, TransformerConfig, limit,
};
use crate::error::ConfigError;
use crate::families::{
    self, FAMILIES, Family, FirstRow, Fused, Positions, RotaryForm, Switch, WindowRule,
};
use linwright_tensor::kernels::activation::Activation;
use serde_json::{Map, Value};

/// MLP widths of DeciLM are multiples of this.
const DECI_MULTIPLE: usize = 256;

impl TransformerConfig {
    /// Reads and checks a `config.json`. Defaults of absent fields are those of the family's
    /// configuration class in transformers; sizes have none.
    ///
    /// # Errors
    /// [`ConfigError`] with the field.
    pub fn from_json(config: &Value) -> Result<Self, ConfigError> {
        let object = fields::object(config)?;
        let family = read_family(object)?;
        beyond::refuse(object, family)?;
        let usual = fields::usual(object, family);
        let fields = Fields::new(&usual, family.fields);
        let hidden = fields.size("hidden_size", limit::WIDTH)?;
        let heads = fields.size("num_attention_heads", limit::HEADS)?;
        let head_dim = read_head_dim(&fields, hidden, heads)?;
        let (max_positions, learned_positions) = read_positions(&fields, family)?;
        let sizes = rotary::Sizes { head_dim, max_positions };
        let ropes = match family.positions {
            Positions::Rotary(_) => rotary::read(&fields, family, sizes)?,
            Positions::Learned { .. } => Vec::new(),
        };
        let longest = ropes.iter().filter_map(Rope::longest).max();
        let placement = read_placement(&fields, family)?;
        let vocab = fields.size("vocab_size", limit::VOCAB)?;
        let removed = fields.flag("_remove_final_layer_norm", false)?;
        let normed = family.names.final_norm.is_some() && placement != Placement::OnSum;
        let is_masked = matches!(family.names.head, families::Head::Masked { .. });
        let architecture = read_architecture(object).unwrap_or(family.architecture);
        let types = family.names.types.map(|_| fields.size("type_vocab_size", limit::VOCAB));
        Ok(Self {
            family,
            hidden,
            embedding_width: fields
                .optional_size("word_embed_proj_dim", limit::WIDTH)?
                .unwrap_or(hidden),
            heads,
            head_dim,
            vocab,
            max_positions: longest.unwrap_or(max_positions),
            layers: read_layers(&fields, family, heads, head_dim)?,
            activation: read_activation(&fields, family)?,
            norm: NormConfig {
                kind: family.norm.kind,
                epsilon: fields.number("rms_norm_eps", 0.0, 1.0)?,
                weight: read_switch(&fields, family.norm.weight)?,
                bias: read_switch(&fields, family.norm.bias)?,
                offset: family.norm.offset,
            },
            placement,
            parallel: read_parallel(&fields, family)?,
            query_key_norm: match family.query_key_norm {
                Some(norm) => read_switch(&fields, norm.when)?,
                None => false,
            },
            final_norm: normed && !removed,
            biases: read_biases(&fields, family)?,
            ropes,
            learned_positions,
            token_types: types.transpose()?,
            embedding_scale: if family.scaled_embedding { (hidden as f32).sqrt() } else { 1.0 },
            clip: read_positive(&fields, "clip_qkv")?,
            score_cap: read_positive(&fields, "attn_logit_softcapping")?,
            logit_cap: read_positive(&fields, "final_logit_softcapping")?,
            tied_embeddings: fields.flag("tie_word_embeddings", false)?,
            masked_head: is_masked && architecture.contains("For"),
            pooler: family.names.pooler.is_some() && !architecture.contains("ForMaskedLM"),
            bos_token: fields.tokens("bos_token_id", vocab).first().copied(),
            eos_tokens: fields.tokens("eos_token_id", vocab),
        })
    }
}

fn read_family(config: &Map<String, Value>) -> Result<&'static Family, ConfigError> {
    let fields = Fields::new(config, &[]);
    let expected = "the name of a family";
    let model_type = fields.text("model_type")?;
    let model_type = model_type.ok_or(ConfigError::Missing { field: "model_type", expected })?;
    Family::find(model_type).ok_or_else(|| ConfigError::UnknownFamily {
        found: model_type.to_owned(),
        known: FAMILIES.iter().map(|family| family.model_type).collect::<Vec<_>>().join(", "),
    })
}

/// The first of `architectures`, which decides the head of an encoder.
fn read_architecture(config: &Map<String, Value>) -> Option<&str> {
    config.get("architectures")?.as_array()?.first()?.as_str()
}

fn read_switch(fields: &Fields<'_>, switch: Switch) -> Result<bool, ConfigError> {
    match switch {
        Switch::Off => Ok(false),
        Switch::On => Ok(true),
        Switch::Field(field) => fields.flag(field, false),
    }
}

fn read_positive(fields: &Fields<'_>, field: &'static str) -> Result<Option<f32>, ConfigError> {
    Ok(fields.optional_number(field, 1e-6, 1e9)?.map(|number| number as f32))
}

fn read_head_dim(fields: &Fields<'_>, hidden: usize, heads: usize) -> Result<usize, ConfigError> {
    let head_dim = match fields.optional_size("head_dim", limit::HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(ConfigError::Inconsistent {
                fields: "hidden_size and num_attention_heads",
                reason: format!("{hidden} is not a multiple of {heads}, and head_dim is absent"),
            });
        }
    };
    if heads * head_dim > limit::WIDTH {
        return Err(ConfigError::Inconsistent {
            fields: "num_attention_heads and head_dim",
            reason: format!("{heads} x {head_dim} features exceed {}", limit::WIDTH),
        });
    }
    Ok(head_dim)
}

/// The longest sequence, and the row of the first learned position.
fn read_positions(
    fields: &Fields<'_>,
    family: &Family,
) -> Result<(usize, Option<LearnedPositions>), ConfigError> {
    let name = "max_position_embeddings";
    let counted = fields.size(name, limit::POSITIONS)?;
    match family.positions {
        Positions::Rotary(_) => Ok((counted, None)),
        Positions::Learned { first: FirstRow::At(first), .. } => {
            Ok((counted, Some(LearnedPositions { first })))
        }
        Positions::Learned { first: FirstRow::AfterPad, .. } => {
            // -1, as where no token is padding, puts the first position at row 0.
            let first = match fields.is("pad_token_id", -1) {
                true => 0,
                false => fields.optional_count("pad_token_id", limit::VOCAB)?.unwrap_or(0) + 1,
            };
            match counted.checked_sub(first).filter(|&positions| positions > 0) {
                Some(positions) => Ok((positions, Some(LearnedPositions { first }))),
                None => Err(ConfigError::Inconsistent {
                    fields: "max_position_embeddings and pad_token_id",
                    reason: format!("{counted} rows leave none behind the padding token"),
                }),
            }
        }
    }
}

fn read_placement(fields: &Fields<'_>, family: &Family) -> Result<Placement, ConfigError> {
    Ok(match family.placement {
        families::Placement::Before => Placement::Before,
        families::Placement::BeforeAndAfter => Placement::BeforeAndAfter,
        families::Placement::After => Placement::After,
        families::Placement::OnSum => Placement::OnSum,
        families::Placement::BeforeIf(field) => match fields.flag(field, true)? {
            true => Placement::Before,
            false => Placement::OnSum,
        },
    })
}

fn read_parallel(
    fields: &Fields<'_>,
    family: &Family,
) -> Result<Option<ParallelNorms>, ConfigError> {
    let norms = if family.parallel.one_norm { ParallelNorms::Shared } else { ParallelNorms::Own };
    Ok(read_switch(fields, family.parallel.when)?.then_some(norms))
}

fn read_activation(fields: &Fields<'_>, family: &Family) -> Result<Activation<f32>, ConfigError> {
    let default = family.defaults.iter().find_map(|(field, default)| match default {
        families::Default::Text(text) if *field == "hidden_act" => Some(*text),
        _ => None,
    });
    let name = fields.text("hidden_act")?.or(default).unwrap_or("silu");
    if let Some((_, activation)) = family.activations.iter().find(|(own, _)| *own == name) {
        return Ok(*activation);
    }
    match name {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
        "quick_gelu" => Ok(Activation::QuickGelu),
        "relu" => Ok(Activation::Relu),
        "relu2" => Ok(Activation::ReluSquared),
        "tanh" => Ok(Activation::Tanh),
        other => Err(ConfigError::Unsupported {
            field: fields.name("hidden_act"),
            found: format!("{other:?}"),
            supported: "silu, swish, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, quick_gelu, \
                        relu, relu2, tanh",
        }),
    }
}

fn read_biases(fields: &Fields<'_>, family: &Family) -> Result<Biases, ConfigError> {
    Ok(Biases {
        query_key_value: read_switch(fields, family.biases.query_key_value)?,
        output: read_switch(fields, family.biases.output)?,
        mlp: read_switch(fields, family.biases.mlp)?,
        head: read_switch(fields, family.biases.head)?,
    })
}

fn read_layers(
    fields: &Fields<'_>,
    family: &Family,
    heads: usize,
    head_dim: usize,
) -> Result<Vec<LayerConfig>, ConfigError> {
    let count = fields.size("num_hidden_layers", limit::LAYERS)?;
    let rotates = read_rotating(fields, family, count)?;
    let slides = read_sliding(fields, family, &rotates)?;
    // A model without windows may have any width for them.
    let window = match slides.contains(&true) {
        true => fields.optional_size("sliding_window", limit::POSITIONS)?,
        false => None,
    };
    let scale = match fields.optional_number("query_pre_attn_scalar", 1e-6, 1e9)? {
        Some(scalar) => scalar.sqrt().recip(),
        None if fields.flag("scale_attn_weights", true)? => (head_dim as f64).sqrt().recip(),
        None => 1.0,
    };
    let by_index = fields.flag("scale_attn_by_inverse_layer_idx", false)?;
    let blocks = fields.by_layer("block_configs", count)?;
    let mut layers = Vec::with_capacity(count);
    for index in 0..count {
        let scale = if by_index { scale / (index + 1) as f64 } else { scale };
        let block = blocks.map(|blocks| &blocks[index]);
        let rope = rotates[index]
            .then_some(usize::from(family.rotary == RotaryForm::ByKind && slides[index]));
        let attention = read_attention(fields, block, family, heads)?.map(|[heads, kv_heads]| {
            let (window, scale) = (window.filter(|_| slides[index]), scale as f32);
            AttentionConfig::Heads(HeadsConfig { heads, kv_heads, window, rope, scale })
        });
        layers.push(LayerConfig {
            attention: attention.unwrap_or_else(|other| other),
            mlp: read_mlp(fields, block)?,
        });
    }
    Ok(layers)
}

/// Which layers have rotary embeddings.
fn read_rotating(
    fields: &Fields<'_>,
    family: &Family,
    count: usize,
) -> Result<Vec<bool>, ConfigError> {
    if matches!(family.positions, Positions::Learned { .. }) {
        return Ok(vec![false; count]);
    }
    if let Some(listed) = fields.by_layer("no_rope_layers", count)? {
        return Ok(listed.iter().map(|rotates| rotates.as_u64() != Some(0)).collect());
    }
    let every = fields.optional_size("no_rope_layer_interval", limit::LAYERS)?;
    Ok((1..=count).map(|nth| every.is_none_or(|every| !nth.is_multiple_of(every))).collect())
}

/// Which layers have a sliding window.
fn read_sliding(
    fields: &Fields<'_>,
    family: &Family,
    rotates: &[bool],
) -> Result<Vec<bool>, ConfigError> {
    let count = rotates.len();
    let optional = matches!(family.window, WindowRule::Upper | WindowRule::Unrotated);
    let used = !optional || fields.flag("use_sliding_window", false)?;
    // With listed layers, one rule needs the flag as well, the other does not.
    if family.window == WindowRule::Never || (!used && family.window == WindowRule::Upper) {
        return Ok(vec![false; count]);
    }
    if let Some(types) = fields.by_layer("layer_types", count)? {
        let slides = |kind: &Value| match kind.as_str() {
            Some("full_attention") => Ok(false),
            Some("sliding_attention") => Ok(true),
            _ => Err(ConfigError::Unsupported {
                field: "layer_types",
                found: kind.to_string(),
                supported: "full_attention, sliding_attention",
            }),
        };
        let slides: Vec<bool> = types.iter().map(slides).collect::<Result<_, _>>()?;
        // transformers builds one mask for all layers of such a family.
        if family.window == WindowRule::Every && slides.windows(2).any(|two| two[0] != two[1]) {
            return Err(ConfigError::Unsupported {
                field: "layer_types",
                found: "both kinds of layers".into(),
                supported: "one kind for all layers, as in this family",
            });
        }
        return Ok(slides);
    }
    Ok(match family.window {
        _ if !used => vec![false; count],
        WindowRule::Never => vec![false; count],
        WindowRule::Every => vec![true; count],
        WindowRule::AllButNth => {
            let nth = fields.size("sliding_window_pattern", limit::LAYERS)?;
            (1..=count).map(|layer| !layer.is_multiple_of(nth)).collect()
        }
        WindowRule::Upper => {
            let first = fields.optional_count("max_window_layers", limit::LAYERS)?.unwrap_or(count);
            (0..count).map(|layer| layer >= first).collect()
        }
        WindowRule::Unrotated => rotates.iter().map(|rotates| !rotates).collect(),
    })
}

/// Attention of a layer: query heads with key and value heads, or a replacement.
fn read_attention(
    fields: &Fields<'_>,
    block: Option<&Value>,
    family: &Family,
    heads: usize,
) -> Result<Result<[usize; 2], AttentionConfig>, ConfigError> {
    let block = block.and_then(|block| block.get("attention")).and_then(Value::as_object);
    let [heads, kv_heads] = match block.map(|block| fields.inner(block)) {
        Some(block) if block.flag("no_op", false)? => return Ok(Err(AttentionConfig::Absent)),
        Some(block) if block.flag("replace_with_linear", false)? => {
            return Ok(Err(AttentionConfig::Linear));
        }
        Some(block) => {
            let heads = block.optional_size("n_heads", heads)?.unwrap_or(heads);
            let group = block.size("n_heads_in_group", limit::HEADS)?;
            if !heads.is_multiple_of(group) {
                return Err(ConfigError::Inconsistent {
                    fields: "num_attention_heads and n_heads_in_group",
                    reason: format!("{heads} query heads are not a multiple of {group}"),
                });
            }
            [heads, heads / group]
        }
        None => {
            let kv_heads = fields.optional_size("num_key_value_heads", limit::HEADS)?;
            [heads, kv_heads.unwrap_or(heads)]
        }
    };
    if !heads.is_multiple_of(kv_heads) {
        return Err(ConfigError::Inconsistent {
            fields: "num_attention_heads and num_key_value_heads",
            reason: format!("{heads} query heads are not a multiple of {kv_heads}"),
        });
    }
    if family.fused == Fused::ByHead && kv_heads != heads {
        return Err(ConfigError::Unsupported {
            field: "num_key_value_heads",
            found: kv_heads.to_string(),
            supported: "as many as query heads, if one matrix holds all three head by head",
        });
    }
    Ok(Ok([heads, kv_heads]))
}

fn read_mlp(fields: &Fields<'_>, block: Option<&Value>) -> Result<MlpConfig, ConfigError> {
    let width = "intermediate_size";
    let block = block.and_then(|block| block.get("ffn")).and_then(Value::as_object);
    let Some(block) = block.map(|block| fields.inner(block)) else {
        return Ok(MlpConfig::Inner(fields.size(width, limit::WIDTH)?));
    };
    if block.flag("no_op", false)? {
        return Ok(MlpConfig::Absent);
    }
    if block.flag("replace_with_linear", false)? {
        return Ok(MlpConfig::Linear);
    }
    if let Some(width) = block.optional_size(width, limit::WIDTH)? {
        return Ok(MlpConfig::Inner(width));
    }
    let factor = block.number("ffn_mult", 1e-3, 1e3)?;
    let hidden = fields.size("hidden_size", limit::WIDTH)? as f64;
    let width = ((2.0 * factor * hidden / 3.0) as usize).next_multiple_of(DECI_MULTIPLE);
    if width == 0 || width > limit::WIDTH {
        return Err(ConfigError::Inconsistent {
            fields: "hidden_size and ffn_mult",
            reason: format!("{factor} times {hidden} makes an MLP of {width} features"),
        });
    }
    Ok(MlpConfig::Inner(width))
}
