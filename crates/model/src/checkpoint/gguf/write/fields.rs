//! Fields of a `config.json` whose model becomes a GGUF file.

use super::refuse;
use crate::checkpoint::gguf_fault::NoGguf;
use crate::families::gguf::Architecture;
use serde_json::{Map, Value};

/// A `config.json` and its GGUF architecture.
pub(super) struct Config<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) architecture: &'static Architecture,
}

impl Config<'_> {
    /// The whole key of an architecture's key.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture.name)
    }

    /// Value of the field that belongs to a size key.
    pub(super) fn sized(&self, key: &str) -> Result<u32, NoGguf> {
        let field = self.architecture.sizes.iter().find(|(other, _)| *other == key);
        let field = field.map_or("", |(_, field)| field);
        match size(self.fields, field)? {
            Some(size) if size > 0 => Ok(size),
            _ => Err(refuse(field, "is missing or zero")),
        }
    }
}

/// A field with a size; none if it is missing.
pub(super) fn size(fields: &Map<String, Value>, field: &str) -> Result<Option<u32>, NoGguf> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|size| u32::try_from(size).ok()) {
            Some(size) => Ok(Some(size)),
            None => Err(refuse(field, format!("is {value}, expected an integer"))),
        },
    }
}

/// A field with a number; none if it is missing.
pub(super) fn number(fields: &Map<String, Value>, field: &str) -> Result<Option<f64>, NoGguf> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(refuse(field, format!("is {value}, expected a number"))),
        },
    }
}

/// `vocab_size`.
pub(super) fn vocab(fields: &Map<String, Value>) -> Result<usize, NoGguf> {
    let vocab = size(fields, "vocab_size")?;
    vocab.map(|vocab| vocab as usize).ok_or_else(|| refuse("vocab_size", "is missing"))
}
