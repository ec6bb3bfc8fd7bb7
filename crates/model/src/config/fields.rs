//! Typed access to the fields of a JSON object; each error names its field.

use crate::error::ConfigError;
use crate::families::{Default, Family};
use serde_json::{Map, Value};

/// Fields that every family reads, by their standard names.
const EVERY: &[&str] = &[
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
    "max_position_embeddings",
    "hidden_act",
    "rms_norm_eps",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
];

/// The fields of a configuration that its family reads, by their standard names, with its defaults
/// filled in. Fields that the family's class in transformers ignores are left out.
pub(crate) fn usual(config: &Map<String, Value>, family: &Family) -> Map<String, Value> {
    let mut usual = Map::new();
    for name in [EVERY].iter().chain(family.reads).copied().flatten() {
        let renamed = family.fields.iter().find(|(usual, _)| usual == name);
        let stored = renamed.map_or(*name, |(_, own)| *own);
        let synonym = config.get(*name).filter(|_| family.synonyms.contains(name));
        if let Some(value) = synonym.or_else(|| config.get(stored).filter(|_| !stored.is_empty())) {
            usual.insert((*name).to_owned(), value.clone());
        }
    }
    for (name, default) in family.defaults {
        let value: Value = match *default {
            Default::Size(size) => size.into(),
            Default::Number(number) => number.into(),
            Default::Flag(flag) => flag.into(),
            Default::Text(text) => text.into(),
            Default::TimesHidden(times) => {
                let hidden = usual.get("hidden_size").and_then(Value::as_u64);
                hidden.map_or(Value::Null, |hidden| hidden.saturating_mul(times as u64).into())
            }
        };
        match usual.get(*name) {
            None => usual.insert((*name).to_owned(), value),
            Some(Value::Null) if matches!(default, Default::TimesHidden(_)) => {
                usual.insert((*name).to_owned(), value)
            }
            Some(_) => None,
        };
    }
    usual
}

/// A JSON object.
pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, ConfigError> {
    value.as_object().ok_or(ConfigError::NotAnObject { found: kind(value) })
}

/// A JSON object with typed access by standard names. A null field counts as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Standard names, and those of the file; for messages.
    names: &'static [(&'static str, &'static str)],
}

impl<'a> Fields<'a> {
    /// Fields of an object with other names for some fields.
    pub(crate) fn new(
        map: &'a Map<String, Value>,
        names: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { map, names }
    }

    /// Fields of a nested object, which has standard names.
    pub(crate) fn inner<'b>(&self, map: &'b Map<String, Value>) -> Fields<'b> {
        Fields { map, names: &[] }
    }

    /// Whether there is no field.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the field is present, even as null.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// Name of the field in the file.
    pub(crate) fn name(&self, field: &'static str) -> &'static str {
        let renamed = self.names.iter().find(|(usual, own)| *usual == field && !own.is_empty());
        renamed.map_or(field, |(_, renamed)| renamed)
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    fn invalid(&self, field: &'static str, value: &Value, expected: String) -> ConfigError {
        invalid(self.name(field), value, expected)
    }

    /// A required integer from one to `max`.
    pub(crate) fn size(&self, field: &'static str, max: usize) -> Result<usize, ConfigError> {
        let missing =
            ConfigError::Missing { field: self.name(field), expected: "a positive whole number" };
        self.optional_size(field, max)?.ok_or(missing)
    }

    /// An optional integer from one to `max`.
    pub(crate) fn optional_size(
        &self,
        field: &'static str,
        max: usize,
    ) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        match size.filter(|size| (1..=max).contains(size)) {
            Some(size) => Ok(Some(size)),
            None => Err(self.invalid(field, value, format!("a whole number from 1 to {max}"))),
        }
    }

    /// An optional integer from zero to `max`.
    pub(crate) fn optional_count(
        &self,
        field: &'static str,
        max: usize,
    ) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match count.filter(|&count| count <= max) {
            Some(count) => Ok(Some(count)),
            None => Err(self.invalid(field, value, format!("a whole number from 0 to {max}"))),
        }
    }

    /// Whether the field is this integer.
    pub(crate) fn is(&self, field: &str, integer: i64) -> bool {
        self.get(field).and_then(Value::as_i64) == Some(integer)
    }

    /// A required number within bounds.
    pub(crate) fn number(
        &self,
        field: &'static str,
        min: f64,
        max: f64,
    ) -> Result<f64, ConfigError> {
        let missing = ConfigError::Missing { field: self.name(field), expected: "a number" };
        self.optional_number(field, min, max)?.ok_or(missing)
    }

    /// An optional number within bounds.
    pub(crate) fn optional_number(
        &self,
        field: &'static str,
        min: f64,
        max: f64,
    ) -> Result<Option<f64>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_f64().filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(field, value, format!("a number from {min} to {max}"))),
        }
    }

    /// True or false.
    pub(crate) fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(default);
        };
        value.as_bool().ok_or_else(|| self.invalid(field, value, "true or false".into()))
    }

    /// A string.
    pub(crate) fn text(&self, field: &'static str) -> Result<Option<&'a str>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        value.as_str().map(Some).ok_or_else(|| self.invalid(field, value, "a string".into()))
    }

    /// An object.
    pub(crate) fn object(&self, field: &'static str) -> Result<Option<Self>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_object() {
            Some(map) => Ok(Some(Self { map, names: &[] })),
            None => Err(self.invalid(field, value, "an object or null".into())),
        }
    }

    /// A required list of `len` numbers within bounds.
    pub(crate) fn numbers(
        &self,
        field: &'static str,
        len: usize,
        min: f64,
        max: f64,
    ) -> Result<Vec<f64>, ConfigError> {
        let expected = "a list of numbers";
        let missing = ConfigError::Missing { field: self.name(field), expected };
        let value = self.get(field).ok_or(missing)?;
        let number = |item: &Value| item.as_f64().filter(|number| (min..=max).contains(number));
        let numbers: Option<Vec<f64>> =
            value.as_array().and_then(|items| items.iter().map(number).collect());
        numbers
            .filter(|numbers| numbers.len() == len)
            .ok_or_else(|| self.invalid(field, value, format!("{len} numbers from {min} to {max}")))
    }

    /// A list, one item for each of `len` layers.
    pub(crate) fn by_layer(
        &self,
        field: &'static str,
        len: usize,
    ) -> Result<Option<&'a [Value]>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_array().filter(|items| items.len() == len) {
            Some(items) => Ok(Some(items)),
            None => Err(self.invalid(field, value, format!("a list of {len}, one for each layer"))),
        }
    }

    /// The tokens below `vocab` of one id or a list of ids. Anything else is ignored, see
    /// [`unknown_tokens`]: it only affects where generated text ends.
    pub(crate) fn tokens(&self, field: &str, vocab: usize) -> Vec<u32> {
        let value = self.get(field);
        value
            .map(|value| items(value).filter_map(|item| token(item, vocab)).collect())
            .unwrap_or_default()
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice).iter()
}

fn token(value: &Value, vocab: usize) -> Option<u32> {
    let token = value.as_u64().filter(|&token| token < vocab as u64)?;
    u32::try_from(token).ok()
}

/// A note on fields of special tokens with values outside of the vocabulary, which are ignored as
/// in transformers. `file` is the name of the file.
pub(crate) fn unknown_tokens(
    config: &Map<String, Value>,
    vocab: usize,
    file: &str,
) -> Option<String> {
    const SHOWN: usize = 8;
    let unknown = |(name, value): (&String, &Value)| {
        let is_one = name.ends_with("_token_id") && !value.is_null();
        let is_bad = |item: &Value| token(item, vocab).is_none();
        (is_one && items(value).any(is_bad))
            .then(|| format!("{} {}", linwright_run::shown(name), shown(value)))
    };
    let mut ids: Vec<String> = config.iter().filter_map(unknown).collect();
    if ids.is_empty() {
        return None;
    }
    let more = ids.len().saturating_sub(SHOWN);
    ids.truncate(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "{file}: {}{more}: ids beyond the vocabulary of {vocab} are ignored",
        ids.join(", ")
    ))
}

fn invalid(field: &'static str, value: &Value, expected: String) -> ConfigError {
    ConfigError::Invalid { field, found: shown(value), expected }
}

/// A value shortened for a message.
pub(crate) fn shown(value: &Value) -> String {
    linwright_run::shown(&value.to_string())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
