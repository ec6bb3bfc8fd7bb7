//! Texts of terms: what stands first, pieces between commas, and values.

use linwright_run::shown_reason;
use serde_json::{Map, Value};

/// What stands first in a text, and the options after it: they follow the last colon that is before
/// a key and `=`, and is in no quotes and no brackets of a value.
pub(super) fn headed(text: &str) -> (&str, Option<&str>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let begins_options = |text: &str| {
        let key = text.trim_start().split_once('=').map(|(key, _)| key);
        key.is_some_and(|key| {
            key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(is_word)
        })
    };
    // A text in quotes ends where they do.
    let places = text.rmatch_indices(':').map(|(place, _)| place);
    let mut options = places.filter(|place| {
        let (head, options) = (&text[..*place], &text[place + 1..]);
        let is_open = head.starts_with('"') && !is_closed(head);
        begins_options(options) && is_closed(options) && !is_open
    });
    match options.next() {
        Some(place) => (text[..place].trim(), Some(&text[place + 1..])),
        None => (text, None),
    }
}

/// Whether a text has an end for each bracket and quote, and a beginning for each end.
fn is_closed(text: &str) -> bool {
    let (mut depth, mut quote) = (0_usize, None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') => drop(chars.next()),
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[' | '(') => depth += 1,
            (None, '}' | ']' | ')') if depth == 0 => return false,
            (None, '}' | ']' | ')') => depth -= 1,
            (None, _) => {}
        }
    }
    depth == 0 && quote.is_none()
}

/// What stands first, as it is typed: in quotes only where it would be read as something else.
pub(super) fn plain_head(head: &Value) -> String {
    let is_plain = |text: &str| {
        let is_read = !text.is_empty() && text.trim() == text && !text.starts_with('{');
        is_read && headed(text).1.is_none() && unquoted(text).as_deref() == Some(text)
    };
    match head {
        Value::String(text) if is_plain(text) => text.clone(),
        head => head.to_string(),
    }
}

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

/// The value at a path of maps.
pub(super) fn get<'a>(map: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(map.get(first)?, |value, word| value.get(word))
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
