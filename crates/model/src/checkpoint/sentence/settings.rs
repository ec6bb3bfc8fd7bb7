//! Settings of sentence-transformers: JSON objects whose fields affect scores.

use super::modules::{MAX_BYTES, MODULES};
use linwright_files::json::{parse_object, read_bounded};
use linwright_run::shown;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::path::Path;

/// The settings of one file. Errors of its methods are only the reason, with file and field.
pub(super) struct Settings {
    name: String,
    list: String,
    fields: Map<String, Value>,
}

impl Settings {
    /// Reads a file of a folder; without it there are no settings, unless it `must` exist.
    pub(super) fn of(dir: &Path, name: String, must: bool) -> Result<Self, String> {
        let path = dir.join(&name);
        let read = || {
            let bytes = read_bounded(&path, MAX_BYTES)?;
            parse_object(&path, &bytes)
        };
        let fields = match must || path.is_file() {
            true => read().map_err(|error| error.to_string())?,
            false => Map::new(),
        };
        let shown = |name: &str| dir.join(name).display().to_string();
        Ok(Self { name: shown(&name), list: shown(MODULES), fields })
    }

    /// The path of the list of modules.
    pub(super) fn list(&self) -> &str {
        &self.list
    }

    /// Whether there is a value, even null.
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// A value that is not null.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// The error in a field.
    pub(super) fn refuse(&self, field: &str, expected: &str) -> String {
        let found = match self.fields.get(field) {
            Some(value) => format!("is {}", shown(&value.to_string())),
            None => "is missing".to_owned(),
        };
        format!("{}: {field} {found}, expected {expected}", self.name)
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&str>, String> {
        let text = |value: &Value| match value {
            Value::String(_) => Ok(()),
            _ => Err(self.refuse(field, "a string")),
        };
        self.get(field).map(text).transpose()?;
        Ok(self.get(field).and_then(Value::as_str))
    }

    pub(super) fn flag(&self, field: &str, default: bool) -> Result<bool, String> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.refuse(field, "true or false")),
        }
    }

    pub(super) fn count(
        &self,
        field: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        let (least, most) = (range.start(), range.end());
        count
            .filter(|count| range.contains(count))
            .map(Some)
            .ok_or_else(|| self.refuse(field, &format!("a whole number from {least} to {most}")))
    }

    /// An object that is not empty.
    pub(super) fn object(&self, field: &str) -> Result<Option<&Map<String, Value>>, String> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object).filter(|object| !object.is_empty())),
            Some(_) => Err(self.refuse(field, "an object")),
        }
    }
}
