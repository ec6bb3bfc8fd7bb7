//! Texts of terms: pieces between commas, and values.

use linwright_run::shown_reason;
use serde_json::{Map, Value};

/// The pieces of a text between commas that stand in no brackets and no quotes.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    let mut chars = text.char_indices();
    while let Some((place, c)) = chars.next() {
        match (quote, c) {
            // In double quotes a backslash keeps the next one from ending the text, as in JSON.
            (Some('"'), '\\') => drop(chars.next()),
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[' | '(') => depth += 1,
            (None, '}' | ']' | ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                pieces.push(text[from..place].trim());
                from = place + 1;
            }
            (None, _) => {}
        }
    }
    pieces.push(text[from..].trim());
    pieces
}

/// A value in YAML.
pub(super) fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| shown_reason(&error.to_string()))
}

/// A text without its quotes, if it has some; none if what begins as quoted does not end so.
pub(super) fn unquoted(text: &str) -> Option<String> {
    if !text.starts_with(['"', '\'']) {
        return Some(text.to_owned());
    }
    match yaml(text) {
        Ok(Value::String(text)) => Some(text),
        Ok(_) | Err(_) => None,
    }
}

/// A value as it is typed.
#[must_use]
pub fn plain_value(value: &Value) -> String {
    let is_plain = |text: &str| {
        let mut chars = text.chars();
        !text.is_empty() && chars.all(|c| c.is_alphanumeric() || "_-./".contains(c))
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Sets a value at a path of maps, which are made where they are missing.
pub(super) fn set(map: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => drop(map.insert(last.clone(), value)),
        [first, rest @ ..] => {
            let inner = map.entry(first.clone()).or_insert_with(|| Map::new().into());
            if !inner.is_object() {
                *inner = Map::new().into();
            }
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}
