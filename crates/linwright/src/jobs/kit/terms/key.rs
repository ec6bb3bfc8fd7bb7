//! Options of a term, from a schema.

use super::text;
use crate::jobs::kit::{Name, bound_text, parse_layers};
use linwright_run::shown;
use serde_json::{Map, Value, json};

/// An option of a term.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// What is typed: the last word of its path, or all of them with dots.
    pub name: String,
    /// Where its value stands.
    pub path: Vec<String>,
    /// Type of the value.
    pub kind: ValueKind,
    /// Its value where it is not given; null if it is absent then.
    pub default: Value,
    /// What it means.
    pub help: String,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueKind {
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number within bounds, both included, or one of some names.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
        /// The names.
        names: Vec<Name>,
    },
    /// One of a list of names.
    Named(Vec<Name>),
    /// Some of a list of names: `[key,value]`, or one of them.
    Names(Vec<Name>),
    /// Whole numbers: `[0,3]`, `0-3`.
    Integers,
    /// Text.
    Text,
    /// Text that may hold an object in JSON, or the object.
    Json,
    /// Texts: `[a.txt,b.txt]`, or one of them.
    Texts,
    /// Anything else, in YAML.
    Any,
}

impl ValueKind {
    /// What a value should be, for messages.
    #[must_use]
    pub fn expected(&self) -> String {
        let words = |names: &[Name]| {
            names.iter().map(|name| name.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Integer { min, max } if *max >= u64::from(u32::MAX) => {
                format!("a whole number from {min}")
            }
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max, names } => {
                let number = match (min.is_finite(), max.is_finite()) {
                    (true, true) => {
                        format!("a number from {} to {}", bound_text(*min), bound_text(*max))
                    }
                    (true, false) => format!("a number from {}", bound_text(*min)),
                    (false, _) => "a number".to_owned(),
                };
                if names.is_empty() { number } else { format!("{number} or {}", words(names)) }
            }
            Self::Named(names) => format!("one of {}", words(names)),
            Self::Names(names) => format!("one or several, such as [a,b], of {}", words(names)),
            Self::Integers => "whole numbers such as [0,3] or 0-3".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Json => "text, or an object in JSON".to_owned(),
            Self::Texts => "a text, or texts such as [a,b]".to_owned(),
            Self::Any => "a value in YAML".to_owned(),
        }
    }
}

impl Key {
    /// A value from its text.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub(super) fn read(&self, text: &str) -> Result<Value, String> {
        let wrong =
            || format!("{} is {}, expected {}", self.name, shown(text), self.kind.expected());
        let named = |text: &str, names: &[Name]| {
            let same = |word: &str| word.replace('-', "_") == text.replace('-', "_");
            let is_called = |name: &&Name| same(&name.name) || name.others.iter().any(|o| same(o));
            names.iter().find(is_called).map(|name| Value::from(name.name.as_str()))
        };
        let found = match &self.kind {
            ValueKind::Flag => text.parse::<bool>().ok().map(Value::from),
            ValueKind::Integer { min, max } => {
                let number = text.parse::<u64>().ok();
                number.filter(|number| (min..=max).contains(&number)).map(Value::from)
            }
            ValueKind::Number { min, max, names } => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.filter(|number| (min..=max).contains(&number));
                let whole = text.parse::<u64>().ok().map(Value::from);
                number
                    .map(|number| whole.unwrap_or_else(|| number.into()))
                    .or_else(|| named(text, names))
            }
            ValueKind::Named(names) => named(text, names),
            ValueKind::Names(names) => {
                let list = text.trim_start_matches('[').trim_end_matches(']');
                let name = |text: &str| named(text.trim().trim_matches('"'), names);
                list.split(',').map(name).collect::<Option<Vec<Value>>>().map(Value::from)
            }
            ValueKind::Integers => {
                let list = text.trim_start_matches('[').trim_end_matches(']');
                parse_layers(&self.name, list).ok().map(Value::from)
            }
            ValueKind::Text | ValueKind::Json => text::unquoted(text).map(Value::from),
            ValueKind::Texts if text.starts_with('[') => {
                text::yaml(text).ok().and_then(|value| texts(&value))
            }
            ValueKind::Texts => text::unquoted(text).map(|text| vec![text].into()),
            ValueKind::Any => return text::yaml(text).map_err(|e| format!("{}: {e}", self.name)),
        };
        found.ok_or_else(wrong)
    }

    /// A value of a map.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_value(&self, value: &Value) -> Result<Value, String> {
        match (value, &self.kind) {
            (value, ValueKind::Any) => Ok(value.clone()),
            // A text in YAML or JSON has had its quotes, and holds any others itself.
            (Value::String(_), ValueKind::Text | ValueKind::Json) => Ok(value.clone()),
            (Value::Object(_), ValueKind::Json) => Ok(value.to_string().into()),
            (Value::Array(_), ValueKind::Texts) => texts(value).ok_or_else(|| self.wrong(value)),
            (Value::String(text), _) => self.read(text),
            (Value::Array(list), ValueKind::Names(_)) if list.is_empty() => Ok(value.clone()),
            (Value::Array(_), ValueKind::Integers | ValueKind::Names(_)) => {
                self.read(&value.to_string())
            }
            (Value::Number(_) | Value::Bool(_), _) => self.read(&value.to_string()),
            (other, _) => Err(self.wrong(other)),
        }
    }

    fn wrong(&self, value: &Value) -> String {
        let found = shown(&value.to_string());
        format!("{} is {found}, expected {}", self.name, self.kind.expected())
    }
}

/// A list of texts; none if it holds anything else.
fn texts(value: &Value) -> Option<Value> {
    let texts = value.as_array().filter(|list| list.iter().all(Value::is_string));
    texts.map(|texts| texts.clone().into())
}

/// Options of a schema, whose values stand below `path` in the standard ones.
pub(super) fn keys(root: &Value, path: &[&str], standard: &Map<String, Value>) -> Vec<Key> {
    let mut keys = Vec::new();
    let path: Vec<String> = path.iter().map(|&word| word.to_owned()).collect();
    collect(root, root, &path, standard, &mut keys);
    keys
}

/// Names keys by the last word of their path, where it is unique.
pub(super) fn shorten(keys: &mut [Key]) {
    let last = |key: &Key| key.path.last().cloned().unwrap_or_default();
    let words: Vec<String> = keys.iter().map(last).collect();
    for key in keys {
        let word = last(key);
        let is_unique = words.iter().filter(|other| **other == word).count() == 1;
        key.name = if is_unique { word } else { key.path.join(".") };
    }
}

fn collect(
    root: &Value,
    schema: &Value,
    path: &[String],
    standard: &Map<String, Value>,
    keys: &mut Vec<Key>,
) {
    let properties = resolved(root, schema).get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let path = [path, std::slice::from_ref(name)].concat();
        let known = path
            .iter()
            .skip(1)
            .try_fold(standard.get(&path[0]), |value, word| value.map(|value| value.get(word)));
        let inner = resolved(root, property);
        if inner.get("properties").is_some() {
            collect(root, inner, &path, standard, keys);
            continue;
        }
        let help = property.get("description").or_else(|| inner.get("description"));
        keys.push(Key {
            name: name.clone(),
            kind: kind(root, property),
            default: known
                .flatten()
                .or_else(|| property.get("default"))
                .cloned()
                .unwrap_or_default(),
            help: help.and_then(Value::as_str).unwrap_or_default().replace('\n', " "),
            path,
        });
    }
}

/// A schema behind a reference.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let place = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
    place.and_then(|place| root.pointer(place)).unwrap_or(schema)
}

/// The forms of a value that has several, but null.
fn forms<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let list = ["anyOf", "oneOf"].into_iter().find_map(|word| schema.get(word)?.as_array());
    let is_null = |form: &&Value| form.get("type").and_then(Value::as_str) == Some("null");
    let Some(list) = list else { return vec![schema] };
    let inner = list.iter().filter(|form| !is_null(form)).map(|form| resolved(root, form));
    inner.flat_map(|form| forms(root, form)).collect()
}

fn kind(root: &Value, schema: &Value) -> ValueKind {
    let forms = forms(root, resolved(root, schema));
    let name = |form: &&Value| {
        let name = Name::new(form.get("const")?.as_str()?);
        let help = form.get("description").and_then(Value::as_str);
        Some(help.into_iter().fold(name, |name, help| name.with_help(help)))
    };
    let mut names: Vec<Name> = forms.iter().filter_map(name).collect();
    names.extend(forms.iter().flat_map(|form| Name::all_of(form)));
    let is_name = |form: &&&Value| form.get("const").is_none() && form.get("enum").is_none();
    let others: Vec<&&Value> = forms.iter().filter(is_name).collect();
    match (others.as_slice(), names.is_empty()) {
        ([], false) => ValueKind::Named(names),
        ([number], _) if type_of(number) == "number" => {
            let bound =
                |word: &str, or: f64| number.get(word).and_then(Value::as_f64).unwrap_or(or);
            let (min, max) = (bound("minimum", f64::NEG_INFINITY), bound("maximum", f64::INFINITY));
            ValueKind::Number { min, max, names }
        }
        ([one], true) => match type_of(one) {
            "boolean" => ValueKind::Flag,
            "integer" => {
                let bound =
                    |word: &str, or: u64| one.get(word).and_then(Value::as_u64).unwrap_or(or);
                let widest = match one.get("format").and_then(Value::as_str) {
                    Some("uint32") => u64::from(u32::MAX),
                    _ => u64::MAX,
                };
                ValueKind::Integer { min: bound("minimum", 0), max: bound("maximum", widest) }
            }
            "string" if one.get("x-value").and_then(Value::as_str).is_some_and(holds_json) => {
                ValueKind::Json
            }
            "string" => ValueKind::Text,
            "array"
                if one.get("items").is_some_and(|items| items == &json!({"type": "string"})) =>
            {
                ValueKind::Texts
            }
            "array" if one.get("items").is_some_and(|items| type_of(items) == "integer") => {
                ValueKind::Integers
            }
            "array" => match one.get("items").map(|items| kind(root, items)) {
                Some(ValueKind::Named(names)) => ValueKind::Names(names),
                _ => ValueKind::Any,
            },
            _ => ValueKind::Any,
        },
        _ => ValueKind::Any,
    }
}

/// Whether the word for a value in help says that it is JSON: `JSON`, `FILE|JSON`.
fn holds_json(word: &str) -> bool {
    word.split('|').any(|word| word == "JSON")
}

/// The type of a schema, of which null is none.
fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(word)) => word,
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).find(|word| *word != "null").unwrap_or("")
        }
        _ => "",
    }
}
