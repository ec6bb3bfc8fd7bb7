//! Named values with options in one text: `NAME:key=value,key=value`.
//!
//! The names of a kind of values, and the keys of each, are a [`Catalogue`], made from the schemas
//! of the types that a term becomes; the same list checks a term, explains it (`linwright ls
//! methods NAME`) and completes it. A key of a group of options is written by its last word, and
//! with dots where that is not unique. A switch alone means true; what begins with a brace or a
//! bracket is YAML. In a list of terms a piece with `=` and no `:` before it continues the term
//! before it. A map, as in plans, is the same value: `{method: NAME, key: value}`. A catalogue of
//! one entry without a name has terms without one: `key=value,key=value`, or with a value that
//! stands first in place of the name, such as a path: `FILE:key=value,key=value`.

mod key;
mod text;
mod with_options;

pub use key::{Key, ValueKind};
pub use text::plain_value;
pub use with_options::WithOptions;
pub(super) use with_options::options;

use linwright_run::shown;
use linwright_run::spelling::nearest_names;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

/// Key of a schema with the name of a catalogue.
pub(super) const TERM: &str = "x-term";

/// Keys of a map that hold the name of a term.
const TAGS: [&str; 3] = ["method", "kind", "name"];

/// All values of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// What they are, in messages: `method`.
    pub what: &'static str,
    /// The option that stands first without its name, if there is one: the path of a file.
    pub head: Option<Key>,
    /// The values.
    pub entries: Vec<Entry>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// One sentence about it.
    pub summary: String,
    /// Its options.
    pub keys: Vec<Key>,
    /// The value with its standard options.
    pub standard: Map<String, Value>,
}

impl Entry {
    /// A value with a schema of its options below `path`, in the order of the schema.
    pub(in crate::jobs) fn new(name: &'static str, summary: impl Into<String>) -> Self {
        Self { name, summary: summary.into(), keys: Vec::new(), standard: Map::new() }
    }

    /// The value with these standard options.
    pub(in crate::jobs) fn with_standard(mut self, standard: Map<String, Value>) -> Self {
        self.standard = standard;
        self
    }

    /// The value with the options of a schema, which stand below `path`.
    pub(in crate::jobs) fn with_keys(mut self, schema: &Schema, path: &[&str]) -> Self {
        self.keys.extend(key::keys(schema.as_value(), path, &self.standard));
        key::shorten(&mut self.keys);
        self
    }

    /// The names of its keys.
    fn words(&self) -> String {
        self.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn key(&self, word: &str) -> Option<&Key> {
        let word = word.replace('-', "_");
        self.keys.iter().find(|key| key.name == word || key.path.join(".") == word)
    }
}

/// A name with the options that were given.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The name.
    pub name: &'static str,
    /// What stands first in its place.
    pub head: Option<Value>,
    /// The given options by the names of their keys, in the order of the catalogue.
    pub given: Vec<(String, Value)>,
}

impl Catalogue {
    /// Values with names, or one without.
    #[must_use]
    pub fn new(what: &'static str, entries: Vec<Entry>) -> Self {
        Self { what, head: None, entries }
    }

    /// The value with this name; hyphens and underscores are equal.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let plain = |name: &str| name.replace('-', "_");
        self.entries.iter().find(|entry| plain(entry.name) == plain(name))
    }

    /// The only entry, if it has no name.
    #[must_use]
    pub fn unnamed(&self) -> Option<&Entry> {
        match self.entries.as_slice() {
            [entry] if entry.name.is_empty() => Some(entry),
            _ => None,
        }
    }

    /// What a term should be, for messages.
    #[must_use]
    pub fn expected(&self) -> String {
        match (self.unnamed(), &self.head) {
            (Some(entry), Some(head)) => {
                let word = head.name.to_uppercase();
                format!("{word} or {word}:key=value,..., with keys of {}", entry.words())
            }
            (Some(entry), None) => format!("KEY=VALUE,..., with keys of {}", entry.words()),
            (None, _) => format!("NAME or NAME:key=value,..., NAME of {}", self.what),
        }
    }

    /// A term from its text, or from a map in YAML.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub fn read(&self, text: &str) -> Result<Term, String> {
        let text = text.trim();
        if text.starts_with('{') {
            return self.read_map(&text::yaml(text)?);
        }
        let (entry, head, options) = match (self.unnamed(), &self.head) {
            (Some(entry), Some(key)) => {
                let (head, options) = match key.kind {
                    ValueKind::Text => text::headed(text),
                    _ => {
                        text.split_once(':').map_or((text, None), |(head, rest)| (head, Some(rest)))
                    }
                };
                let head = if head.is_empty() { None } else { Some(key.read(head)?) };
                (entry, head, options.unwrap_or_default())
            }
            (Some(entry), None) => (entry, None, text),
            (None, _) => {
                let (name, options) = text.split_once(':').unwrap_or((text, ""));
                (self.known(name)?, None, options)
            }
        };
        let mut given = Vec::new();
        for piece in text::pieces(options).into_iter().filter(|piece| !piece.is_empty()) {
            let (word, value) = match piece.split_once('=') {
                Some((word, value)) => (word.trim(), Some(value.trim())),
                None => (piece, None),
            };
            let key = self.key_of(entry, word)?;
            let value = match (value, &key.kind) {
                (Some(value), _) => key.read(value)?,
                (None, ValueKind::Flag) => Value::Bool(true),
                (None, _) => {
                    return Err(format!("{word} has no value, expected {}", key.kind.expected()));
                }
            };
            given.push((key, value));
        }
        self.term(entry, head, given)
    }

    /// A term from a text or a map of a recipe.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_value(&self, value: &Value) -> Result<Term, String> {
        match value {
            Value::String(text) => self.read(text),
            Value::Number(number) if self.head.is_some() => self.read(&number.to_string()),
            other => self.read_map(other),
        }
    }

    fn read_map(&self, value: &Value) -> Result<Term, String> {
        let expected = || match self.unnamed() {
            Some(_) => format!("expected {} or a map of keys", self.expected()),
            None => format!("expected NAME, NAME:key=value or a map with {}", TAGS[0]),
        };
        let map = value.as_object().ok_or_else(expected)?;
        let mut tags = TAGS.into_iter().chain([self.what]);
        let tag = tags.find(|tag| map.get(*tag).is_some_and(Value::is_string));
        let (entry, tag) = match (self.unnamed(), tag) {
            (Some(entry), _) => (entry, None),
            (None, Some(tag)) => (self.known(map[tag].as_str().unwrap_or_default())?, Some(tag)),
            (None, None) => return Err(expected()),
        };
        let (mut head, mut given) = (None, Vec::new());
        for (word, value) in map.iter().filter(|(word, _)| Some(word.as_str()) != tag) {
            match self.head.as_ref().filter(|head| head.name == *word) {
                Some(_) if value.is_null() => {}
                Some(key) => head = Some(key.read_value(value)?),
                None => self.add(entry, word, value, &mut given)?,
            }
        }
        self.term(entry, head, given)
    }

    /// Adds an option of a map, or each of a group.
    fn add<'a>(
        &self,
        entry: &'a Entry,
        word: &str,
        value: &Value,
        given: &mut Vec<(&'a Key, Value)>,
    ) -> Result<(), String> {
        let is_group =
            entry.keys.iter().any(|key| key.path.join(".").starts_with(&format!("{word}.")));
        match value {
            Value::Null => Ok(()),
            Value::Object(group) if is_group && entry.key(word).is_none() => {
                let word_of = |inner: &String| format!("{word}.{inner}");
                group.iter().try_for_each(|(inner, v)| self.add(entry, &word_of(inner), v, given))
            }
            value => {
                let key = self.key_of(entry, word)?;
                given.push((key, key.read_value(value)?));
                Ok(())
            }
        }
    }

    fn known(&self, name: &str) -> Result<&Entry, String> {
        self.entry(name).ok_or_else(|| {
            let names: Vec<&str> = self.entries.iter().map(|entry| entry.name).collect();
            let nearest = nearest_names(&name.replace('-', "_"), &names);
            format!("there is no {} {}; {nearest}", self.what, shown(name))
        })
    }

    fn key_of<'a>(&self, entry: &'a Entry, word: &str) -> Result<&'a Key, String> {
        entry.key(word).ok_or_else(|| {
            let names: Vec<&str> = entry.keys.iter().map(|key| key.name.as_str()).collect();
            let name = if entry.name.is_empty() { self.what } else { entry.name };
            if names.is_empty() {
                return format!("{name} has no options, and {} is given", shown(word));
            }
            let nearest = nearest_names(&word.replace('-', "_"), &names);
            let all = entry.words();
            format!("{name} has no option {}; {nearest}; its options are {all}", shown(word))
        })
    }

    /// The texts of the terms of a list: a piece with `=` and no `:` before it continues a term.
    #[must_use]
    pub fn split(&self, text: &str) -> Vec<String> {
        let mut terms: Vec<String> = Vec::new();
        for piece in text::pieces(text) {
            let is_option = piece.split_once('=').is_some_and(|(word, _)| !word.contains(':'));
            match terms.last_mut().filter(|_| is_option) {
                Some(term) => *term += &format!(",{piece}"),
                None => terms.push(piece.to_owned()),
            }
        }
        terms
    }

    /// All options of a term: the standard ones, and in place of them those that are given.
    #[must_use]
    pub fn options(&self, term: &Term) -> Map<String, Value> {
        let Some(entry) = self.entry(term.name) else { return Map::new() };
        let mut options = entry.standard.clone();
        if let (Some(key), Some(value)) = (&self.head, &term.head) {
            text::set(&mut options, &key.path, value.clone());
        }
        for (word, value) in &term.given {
            if let Some(key) = entry.key(word) {
                text::set(&mut options, &key.path, value.clone());
            }
        }
        options
    }

    /// A term with its options in the order of the catalogue.
    fn term(
        &self,
        entry: &Entry,
        head: Option<Value>,
        given: Vec<(&Key, Value)>,
    ) -> Result<Term, String> {
        if let Some(key) = self.head.as_ref().filter(|_| head.is_none()) {
            return Err(format!("{} is missing, expected {}", key.name, self.expected()));
        }
        let mut ordered = Vec::new();
        for key in &entry.keys {
            let mut values = given.iter().filter(|(other, _)| other.path == key.path);
            if let Some((_, value)) = values.next() {
                ordered.push((key.name.clone(), value.clone()));
            }
            if values.next().is_some() {
                return Err(format!("{} is given twice", key.name));
            }
        }
        Ok(Term { name: entry.name, head, given: ordered })
    }
}

impl Term {
    /// The name alone.
    #[must_use]
    pub fn of(name: &'static str) -> Self {
        Self { name, head: None, given: Vec::new() }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        f.write_str(&self.head.as_ref().map(text::plain_head).unwrap_or_default())?;
        for (index, (key, value)) in self.given.iter().enumerate() {
            let before = match index {
                0 if self.name.is_empty() && self.head.is_none() => "",
                0 => ":",
                _ => ",",
            };
            write!(f, "{before}{key}={}", plain_value(value))?;
        }
        Ok(())
    }
}

/// A kind of terms.
pub trait Terms: Debug + Clone + PartialEq {
    /// Name of its catalogue in schemas.
    const NAME: &'static str;

    /// Its catalogue.
    fn catalogue() -> &'static Catalogue;
}

/// A term of a kind, as options hold it: a text in JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct TermOf<C>(pub Term, PhantomData<C>);

impl<C: Terms> TermOf<C> {
    /// The name alone, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        C::catalogue().entry(name).map(|entry| Self(Term::of(entry.name), PhantomData))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// All of its options.
    #[must_use]
    pub fn options(&self) -> Map<String, Value> {
        C::catalogue().options(&self.0)
    }

    /// Whether an option of this name is given.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.given.iter().any(|(name, _)| name == key)
    }
}

impl<C> From<Term> for TermOf<C> {
    fn from(term: Term) -> Self {
        Self(term, PhantomData)
    }
}

impl<C: Terms> Serialize for TermOf<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, C: Terms> Deserialize<'de> for TermOf<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = C::catalogue().read_value(&value).map_err(serde::de::Error::custom)?;
        Ok(Self(read, PhantomData))
    }
}

impl<C: Terms> JsonSchema for TermOf<C> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        C::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", TERM: C::NAME})
    }
}

#[cfg(test)]
mod tests;
