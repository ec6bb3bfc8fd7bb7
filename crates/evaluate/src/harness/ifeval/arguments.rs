//! The arguments of an instruction: its entry of `kwargs`.
//!
//! As in the harness, an entry may list arguments of other kinds that are null, zero or empty:
//! columnar files have every argument in every entry. An argument that the kind does not have is
//! an error there and here. A missing argument is an error here; the harness draws one at random.

use linwright_run::shown;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Largest count that an instruction may have.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Reads the arguments of one instruction.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    fields: &'a Map<String, Value>,
    known: BTreeSet<&'static str>,
}

/// How a number is compared with that of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    LessThan,
    AtLeast,
}

impl Relation {
    pub(super) fn holds(self, found: usize, threshold: u64) -> bool {
        let found = found as u64;
        match self {
            Self::LessThan => found < threshold,
            Self::AtLeast => found >= threshold,
        }
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn new(fields: &'a Map<String, Value>) -> Self {
        Self { fields, known: BTreeSet::new() }
    }

    fn value(&mut self, name: &'static str) -> Result<&'a Value, String> {
        self.known.insert(name);
        match self.fields.get(name) {
            None | Some(Value::Null) => Err(format!("the argument {name} is missing")),
            Some(value) => Ok(value),
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, name: &'static str) -> Result<&'a str, String> {
        match self.value(name)? {
            Value::String(text) if text.is_empty() => Err(format!("the argument {name} is empty")),
            Value::String(text) => Ok(text),
            other => Err(expected(name, other, "text")),
        }
    }

    /// A list of at least one text.
    pub(super) fn texts(&mut self, name: &'static str) -> Result<Vec<&'a str>, String> {
        let value = self.value(name)?;
        let texts: Option<Vec<&str>> =
            value.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
        match texts {
            None => Err(expected(name, value, "a list of texts")),
            Some(texts) if texts.is_empty() => Err(format!("the argument {name} is an empty list")),
            Some(texts) => Ok(texts),
        }
    }

    /// A whole number; pandas writes such columns as 3.0.
    pub(super) fn count(&mut self, name: &'static str) -> Result<u64, String> {
        let value = self.value(name)?;
        let whole = |number: &f64| number.fract() == 0.0 && (0.0..=LARGEST).contains(number);
        let count = match value.as_u64() {
            Some(count) if count as f64 <= LARGEST => Some(count),
            Some(_) => None,
            None => value.as_f64().filter(whole).map(|number| number as u64),
        };
        count.ok_or_else(|| expected(name, value, "a whole number from 0 to 2^53"))
    }

    /// `less than` or `at least`.
    pub(super) fn relation(&mut self, name: &'static str) -> Result<Relation, String> {
        let value = self.value(name)?;
        match value.as_str() {
            Some("less than") => Ok(Relation::LessThan),
            Some("at least") => Ok(Relation::AtLeast),
            _ => Err(expected(name, value, "\"less than\" or \"at least\"")),
        }
    }

    /// Rejects arguments that were not read, unless they are null, zero or empty.
    pub(super) fn finish(self) -> Result<(), String> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Bool(truth) => !truth,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        };
        let is_other = |(name, value): &(&String, &Value)| {
            !self.known.contains(name.as_str()) && !is_empty(value)
        };
        let Some((name, value)) = self.fields.iter().find(is_other) else { return Ok(()) };
        let known: Vec<&str> = self.known.iter().copied().collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let (name, value) = (shown(name), shown(&value.to_string()));
        Err(format!("has the argument {name} ({value}), which it does not take; it takes {known}"))
    }
}

fn expected(name: &str, found: &Value, expected: &str) -> String {
    format!("the argument {name} is {}, expected {expected}", shown(&found.to_string()))
}
