//! Typed access to the fields of a JSON object, each failure naming its field.

use crate::error::ConfigError;
use serde_json::{Map, Value};

/// A JSON object whose fields are asked for by name and type. A field that is null counts as
/// absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// Of a value that must be an object.
    pub(super) fn of(value: &'a Value) -> Result<Self, ConfigError> {
        value.as_object().map(Self).ok_or(ConfigError::NotAnObject { found: kind(value) })
    }

    /// Of an object.
    pub(super) fn of_map(map: &'a Map<String, Value>) -> Self {
        Self(map)
    }

    /// Whether the field is written at all, be it as null.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// A whole number from one to `max`, which must be there.
    pub(super) fn size(&self, field: &'static str, max: usize) -> Result<usize, ConfigError> {
        let missing = ConfigError::Missing { field, expected: "a positive whole number" };
        self.optional_size(field, max)?.ok_or(missing)
    }

    /// A whole number from one to `max`.
    pub(super) fn optional_size(
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
            None => Err(invalid(field, value, format!("a whole number from 1 to {max}"))),
        }
    }

    /// A number within bounds, which must be there.
    pub(super) fn number(
        &self,
        field: &'static str,
        min: f64,
        max: f64,
    ) -> Result<f64, ConfigError> {
        let missing = ConfigError::Missing { field, expected: "a number" };
        self.optional_number(field, min, max)?.ok_or(missing)
    }

    /// A number within bounds.
    pub(super) fn optional_number(
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
            None => Err(invalid(field, value, format!("a number from {min} to {max}"))),
        }
    }

    /// True or false.
    pub(super) fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(default);
        };
        value.as_bool().ok_or_else(|| invalid(field, value, "true or false".into()))
    }

    /// A string.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        value.as_str().map(Some).ok_or_else(|| invalid(field, value, "a string".into()))
    }

    /// An object.
    pub(super) fn object(&self, field: &'static str) -> Result<Option<Self>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        match value.as_object() {
            Some(map) => Ok(Some(Self(map))),
            None => Err(invalid(field, value, "an object or null".into())),
        }
    }

    /// One token or a list of tokens, each below `vocab`.
    pub(super) fn tokens(
        &self,
        field: &'static str,
        vocab: usize,
    ) -> Result<Vec<u32>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let token = |item: &Value| {
            let token = item.as_u64().filter(|&token| token < vocab as u64);
            token.and_then(|token| u32::try_from(token).ok()).ok_or_else(|| {
                invalid(field, value, format!("token ids below vocab_size = {vocab}"))
            })
        };
        items.iter().map(token).collect()
    }
}

fn invalid(field: &'static str, value: &Value, expected: String) -> ConfigError {
    /// Characters of a value that a message shows.
    const SHOWN: usize = 80;
    let mut found = value.to_string();
    if let Some((cut, _)) = found.char_indices().nth(SHOWN) {
        found.truncate(cut);
        found.push('…');
    }
    ConfigError::Invalid { field, found, expected }
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
