//! Fields of features that the transformer does not implement.
//!
//! A model must not load as a different one: such a field is an error, unless its value disables
//! the feature. Fields that a family's class in transformers ignores are not listed here; they are
//! absent from [`Family::reads`].

use super::fields::shown;
use crate::error::ConfigError;
use crate::families::Family;
use serde_json::{Map, Value, json};

/// Allowed value of a field, besides null and false.
#[derive(Clone, Copy, Debug)]
enum Harmless {
    /// No other value.
    Nothing,
    /// True.
    True,
    /// One.
    One,
    /// This string.
    Word(&'static str),
    /// An empty object or list.
    Empty,
}

/// Fields that the common code of transformers, or models of other kinds, obey: a configuration
/// with one of them describes an unsupported model, whatever its `model_type`.
const EVERYWHERE: &[(&str, Harmless)] = &[
    ("is_causal", Harmless::True),
    ("per_layer_config", Harmless::Empty),
    ("quantization_config", Harmless::Empty),
    ("position_embedding_type", Harmless::Word("absolute")),
    ("alibi", Harmless::Nothing),
    ("use_alibi", Harmless::Nothing),
    ("embedding_multiplier", Harmless::One),
    ("residual_multiplier", Harmless::One),
    ("attention_multiplier", Harmless::Nothing),
    ("logits_scaling", Harmless::One),
    ("logit_scale", Harmless::One),
    ("scale_emb", Harmless::One),
    ("scale_depth", Harmless::One),
    ("num_experts", Harmless::Nothing),
    ("num_local_experts", Harmless::Nothing),
];

/// An error for the first field with an unsupported feature.
pub(super) fn refuse(config: &Map<String, Value>, family: &Family) -> Result<(), ConfigError> {
    let of_family = family.beyond.iter().map(|field| (*field, Harmless::Nothing));
    for (field, harmless) in EVERYWHERE.iter().copied().chain(of_family) {
        let Some(value) = config.get(field) else {
            continue;
        };
        let fits = match harmless {
            Harmless::Nothing => false,
            Harmless::True => *value == json!(true),
            Harmless::One => value.as_f64() == Some(1.0),
            Harmless::Word(word) => *value == json!(word),
            Harmless::Empty => value.as_object().is_some_and(Map::is_empty) || *value == json!([]),
        };
        if !(fits || value.is_null() || *value == json!(false)) || is_no(harmless, value) {
            return Err(ConfigError::Unsupported {
                field,
                found: shown(value),
                supported: harmless.words(),
            });
        }
    }
    Ok(())
}

/// Whether false is not an allowed value.
fn is_no(harmless: Harmless, value: &Value) -> bool {
    matches!(harmless, Harmless::True) && *value == json!(false)
}

impl Harmless {
    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "its absence, null, or false",
            Self::True => "its absence, null, or true",
            Self::One => "its absence, null, or 1",
            Self::Word(word) => word,
            Self::Empty => "its absence, null, or nothing in it",
        }
    }
}
