//! Configurations of models whose widths differ from their source: narrower ones of the same kind,
//! or ones with layer-wise widths.
//!
//! A written configuration is read again and must describe the model exactly; there is no list of
//! the possibilities of each family.

use super::super::source::Source;
use crate::config::{AttentionConfig, MlpConfig, TransformerConfig};
use crate::families::{BLOCKS, Family, PLAIN};
use crate::transformer::Transformer;
use serde_json::{Map, Value, json};

/// Name of the Python file for transformers.
pub const BLOCKS_FILE: &str = "modeling_blocks.py";
/// Source of the Python file.
pub const BLOCKS_MODELLING: &str = include_str!("../../../assets/modeling_blocks.py");
/// MLP widths of the block form are multiples of this, for runtimes that only support a multiplier.
pub(super) const MULTIPLE: usize = 256;

/// Key and value heads and MLP features, if every layer has the same.
pub(super) fn common(config: &TransformerConfig) -> Option<(usize, usize)> {
    let widths = |layer: &crate::config::LayerConfig| match (layer.attention, layer.mlp) {
        (AttentionConfig::Heads(heads), MlpConfig::Inner(inner)) if heads.heads == config.heads => {
            Some((heads.kv_heads, inner))
        }
        _ => None,
    };
    let first = widths(config.layers.first()?)?;
    config.layers.iter().all(|layer| widths(layer) == Some(first)).then_some(first)
}

/// A description of the first two layers of different widths.
pub(super) fn difference(config: &TransformerConfig) -> String {
    let words = |layer: &crate::config::LayerConfig| {
        let attention = match layer.attention {
            AttentionConfig::Heads(heads) => {
                format!("{} heads with {} key heads", heads.heads, heads.kv_heads)
            }
            AttentionConfig::Linear => "a linear layer for attention".into(),
            AttentionConfig::Absent => "no attention".into(),
        };
        let mlp = match layer.mlp {
            MlpConfig::Inner(inner) => format!("an MLP of {inner}"),
            MlpConfig::Linear => "a linear layer for an MLP".into(),
            MlpConfig::Absent => "no MLP".into(),
        };
        format!("{attention} and {mlp}")
    };
    let descriptions: Vec<String> = config.layers.iter().map(words).collect();
    match descriptions.iter().position(|words| *words != descriptions[0]) {
        Some(other) => {
            format!("layer 0 has {}, layer {other} {}", descriptions[0], descriptions[other])
        }
        None => {
            format!("every layer has {}", descriptions.first().map_or("nothing", String::as_str))
        }
    }
}

/// Model and source with a configuration of the original kind, if one describes the model.
pub(super) fn plain(model: &Transformer, source: &Source) -> Result<(Transformer, Source), String> {
    let config = model.config();
    let mut object = source.config.clone();
    let family = if config.family == BLOCKS { PLAIN } else { config.family };
    let Some((kv_heads, inner)) = common(config) else {
        return Err(format!("{}: no common widths", difference(config)));
    };
    if config.family != family {
        rename(&mut object, family);
        object.shift_remove("block_configs");
    }
    write_layers(&mut object, source, config, family);
    let mut set = |field: &'static str, value: usize, always: bool| {
        let name = own_name(&object, family, field);
        if !name.is_empty() && (always || object.get(name).is_some_and(|old| !old.is_null())) {
            object.insert(name.to_owned(), json!(value));
        }
    };
    set("hidden_size", config.hidden, true);
    set("word_embed_proj_dim", config.embedding_width, false);
    set("intermediate_size", inner, true);
    set("num_attention_heads", config.heads, true);
    set("num_key_value_heads", kv_heads, kv_heads != config.heads);
    set("head_dim", config.head_dim, !has_usual_heads(config));
    described(model, source, object, family)
}

/// Name under which a family reads a field; empty if it has no such field.
fn own_name(object: &Map<String, Value>, family: &Family, field: &'static str) -> &'static str {
    let renamed = family.fields.iter().find(|(usual, _)| *usual == field);
    match renamed {
        Some((_, renamed)) if !(family.synonyms.contains(&field) && object.contains_key(field)) => {
            renamed
        }
        _ => field,
    }
}

/// Writes changes of the number of layers and their kinds, and whether the output matrix is tied.
fn write_layers(
    object: &mut Map<String, Value>,
    source: &Source,
    config: &TransformerConfig,
    family: &Family,
) {
    let read = source.decoder_config().ok();
    if read.as_ref().is_none_or(|read| read.tied_embeddings != config.tied_embeddings) {
        object.insert("tie_word_embeddings".into(), json!(config.tied_embeddings));
    }
    if read.as_ref().is_some_and(|read| read.layers.len() == config.layers.len()) {
        return;
    }
    let differ = read.is_none_or(|read| {
        let kinds = read.layers.iter().map(|layer| layer.attention);
        kinds.clone().zip(kinds.skip(1)).any(|(a, b)| a != b)
    });
    let name = own_name(object, family, "num_hidden_layers");
    object.insert(name.to_owned(), json!(config.layers.len()));
    // Rules such as every sixth layer now refer to other layers.
    let whole = config.to_json();
    for field in ["layer_types", "no_rope_layers"] {
        match whole.get(field) {
            Some(kinds) if differ => object.insert(field.into(), kinds.clone()),
            _ => object.shift_remove(field),
        };
    }
}

/// Whether some form can hold layers of different widths.
///
/// # Errors
/// The reason if none can.
pub fn layers_may_differ(config: &TransformerConfig) -> Result<(), String> {
    if config.family.computes_as(BLOCKS) {
        return Ok(());
    }
    let (own, like) = (config.family.model_type, PLAIN.model_type);
    Err(format!("widths by layer exist for models of the shape of {like}, this is {own}"))
}

/// Model and source with a configuration of layer-wise widths.
pub(super) fn blocks(
    model: &Transformer,
    source: &Source,
) -> Result<(Transformer, Source), String> {
    let config = model.config();
    layers_may_differ(config)?;
    let mut object = source.config.clone();
    rename(&mut object, BLOCKS);
    for field in ["intermediate_size", "num_key_value_heads"] {
        object.insert(field.into(), Value::Null);
    }
    object.insert("num_attention_heads".into(), json!(config.heads));
    if !has_usual_heads(config) {
        object.insert("head_dim".into(), json!(config.head_dim));
    }
    let layers = config.layers.iter().map(|layer| block(config, layer));
    object.insert("block_configs".into(), layers.collect());
    object.insert("num_hidden_layers".into(), json!(config.layers.len()));
    let module = BLOCKS_FILE.trim_end_matches(".py");
    let map = json!({
        "AutoConfig": format!("{module}.BlocksConfig"),
        "AutoModelForCausalLM": format!("{module}.BlocksForCausalLM"),
    });
    object.insert("auto_map".into(), map);
    described(model, source, object, BLOCKS)
}

/// Whether runtimes derive the width of every MLP from its multiplier.
pub(super) fn has_multipliers(config: &TransformerConfig) -> bool {
    config.layers.iter().all(|layer| match layer.mlp {
        MlpConfig::Inner(inner) => inner.is_multiple_of(MULTIPLE),
        MlpConfig::Linear | MlpConfig::Absent => true,
    })
}

/// Whether the size of a head follows from their number.
fn has_usual_heads(config: &TransformerConfig) -> bool {
    config.hidden.is_multiple_of(config.heads) && config.hidden / config.heads == config.head_dim
}

/// Whether layers have different numbers of query heads.
pub(super) fn has_own_heads(config: &TransformerConfig) -> bool {
    config.layers.iter().any(|layer| match layer.attention {
        AttentionConfig::Heads(heads) => heads.heads != config.heads,
        AttentionConfig::Linear | AttentionConfig::Absent => false,
    })
}

fn rename(object: &mut Map<String, Value>, family: &Family) {
    object.insert("model_type".into(), json!(family.model_type));
    object.insert("architectures".into(), json!([family.architecture]));
}

/// One layer of `block_configs`.
fn block(config: &TransformerConfig, layer: &crate::config::LayerConfig) -> Value {
    let mut attention = Map::new();
    let group = match layer.attention {
        AttentionConfig::Heads(heads) => {
            // Other runtimes do not know this field and would find tensors of other shapes.
            if heads.heads != config.heads {
                attention.insert("n_heads".into(), json!(heads.heads));
            }
            json!(heads.heads / heads.kv_heads)
        }
        AttentionConfig::Linear | AttentionConfig::Absent => Value::Null,
    };
    attention.insert("n_heads_in_group".into(), group);
    attention.insert("no_op".into(), json!(layer.attention == AttentionConfig::Absent));
    let linear = layer.attention == AttentionConfig::Linear;
    attention.insert("replace_with_linear".into(), json!(linear));
    let mut ffn = Map::new();
    if let MlpConfig::Inner(inner) = layer.mlp {
        ffn.insert("intermediate_size".into(), json!(inner));
        // A runtime prefers a multiplier if there is one, so it must be absent otherwise.
        if inner.is_multiple_of(MULTIPLE) {
            let multiplier = 1.5 * inner as f64 / config.hidden as f64;
            ffn.insert("ffn_mult".into(), json!(multiplier));
        }
    }
    ffn.insert("no_op".into(), json!(layer.mlp == MlpConfig::Absent));
    ffn.insert("replace_with_linear".into(), json!(layer.mlp == MlpConfig::Linear));
    json!({ "attention": attention, "ffn": ffn })
}

/// Model and source with this configuration, if it describes the model.
fn described(
    model: &Transformer,
    source: &Source,
    object: Map<String, Value>,
    family: &'static Family,
) -> Result<(Transformer, Source), String> {
    let source = Source { config: object, ..source.clone() };
    let config = model.config();
    let read = source.config_of(model).map_err(|error| error.to_string())?;
    let expected = TransformerConfig { family, ..config.clone() };
    if read != expected {
        let (found, difference) = (family.model_type, unlike(&read, &expected));
        return Err(format!("a configuration of {found} cannot describe this model{difference}"));
    }
    Ok((model.under(expected), source))
}

/// The contents of a configuration instead, for a message.
fn unlike(read: &TransformerConfig, expected: &TransformerConfig) -> String {
    if read.head_dim != expected.head_dim {
        let (read, own) = (read.head_dim, expected.head_dim);
        return format!(": heads of {read} features instead of {own}");
    }
    let layers = read.layers.iter().zip(&expected.layers);
    match layers.into_iter().position(|(read, expected)| read != expected) {
        Some(layer) => format!(": windows, positions or scales of layer {layer} differ"),
        None => String::new(),
    }
}
