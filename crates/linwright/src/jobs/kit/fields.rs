//! The options of a job, from its schema.

use super::Options;
use super::named::{HELP, OTHER_NAMES};
use super::terms::{Catalogue, TERM};
use super::written::{WRITTEN, Written};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// An option of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its key in recipes, in snake case.
    pub key: String,
    /// One sentence or two.
    pub help: String,
    /// Type of the value, or of each value of a list.
    pub kind: Kind,
    /// Whether it is a list.
    pub is_list: bool,
    /// Whether a comma separates values of a list in one argument.
    pub is_delimited: bool,
    /// Its value where it is not given; none for lists and for options that may be absent.
    pub default: Option<Value>,
    /// Whether several values may follow one flag.
    pub takes_many: bool,
    /// Whether it is an argument without a flag.
    pub is_positional: bool,
    /// Whether it must be given.
    pub is_required: bool,
    /// Letter of its short flag.
    pub short: Option<char>,
    /// Other names of its flag.
    pub aliases: Vec<String>,
    /// Word for its value in help.
    pub value_name: Option<String>,
    /// Whether its text is the path of a file or folder.
    pub is_path: bool,
    /// How its path is written, if it is.
    pub written: Option<Written>,
    /// Whether a value may begin with a hyphen.
    pub takes_hyphens: bool,
    /// What a map is, in place of texts.
    pub pairs: Pairs,
    /// Keys of options that cannot be given with it.
    pub conflicts: Vec<String>,
    /// Keys of options that must be given with it.
    pub requires: Vec<String>,
    /// A value to try it with, where not every value of the type is one.
    pub example: Option<Value>,
}

/// Keys of a schema with options that exclude it, and with options that it needs.
const RELATIONS: [&str; 2] = ["x-conflicts", "x-requires"];

/// What a map is as the value of an option of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Nothing.
    None,
    /// A map with one entry is a text, `{keep: 0.8}` is `keep=0.8`, and commas divide texts.
    Divided,
    /// Each entry is a text, `{a: b.jsonl}` is `a=b.jsonl`, whatever commas it has.
    Whole,
}

/// Type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `true`, or absent.
    Flag,
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A number within bounds, both included.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// Text.
    Text,
    /// One of a list of names.
    Named(Vec<Name>),
    /// A name with options, `NAME:key=value,key=value`.
    Term(&'static Catalogue),
}

/// A name of a closed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Other names that are accepted.
    pub others: Vec<String>,
    /// What it means, where the name does not say it.
    pub help: Option<String>,
}

impl Name {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), others: Vec::new(), help: None }
    }

    /// The names of the list of a schema; none if it has no list.
    pub(super) fn all_of(schema: &Value) -> Vec<Self> {
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        let (names, others, helps) = (list("enum"), list(OTHER_NAMES), list(HELP));
        let name = |(index, name): (usize, &str)| Self {
            name: name.to_owned(),
            others: words(others.and_then(|others| others.get(index))),
            help: helps.and_then(|helps| helps.get(index)?.as_str()).map(str::to_owned),
        };
        // An option that may be absent has null besides its names.
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.enumerate().map(name).collect()
    }

    pub(crate) fn with_others(mut self, others: &[&str]) -> Self {
        self.others = others.iter().map(|&other| other.to_owned()).collect();
        self
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The long flag of a key, without its hyphens.
#[must_use]
pub fn flag_of(key: &str) -> String {
    key.replace('_', "-")
}

impl Field {
    /// The long flag, without its hyphens.
    #[must_use]
    pub fn flag(&self) -> String {
        flag_of(&self.key)
    }

    /// Whether it has this name; a hyphen counts as an underscore.
    pub(crate) fn is_called(&self, key: &str) -> bool {
        let key = key.replace('-', "_");
        self.key == key || self.aliases.iter().any(|alias| alias.replace('-', "_") == key)
    }

    /// Whether it says where a job works, which is no part of what the job computes.
    #[must_use]
    pub fn is_place(&self) -> bool {
        matches!(self.written, Some(Written::Result | Written::State))
    }

    fn of(key: &str, schema: &Map<String, Value>, default: &Value) -> Self {
        let items = schema.get("items").and_then(Value::as_object);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).map(str::to_owned);
        let holds = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let list = |name: &str| words(schema.get(name));
        let holds_pairs = [Some(schema), items]
            .into_iter()
            .flatten()
            .any(|schema| schema.get("x-pairs") == Some(&Value::Bool(true)));
        let has_term = items.unwrap_or(schema).contains_key(TERM);
        let is_required = holds("x-positional") || holds("x-required");
        let is_plain = items.is_none() && !default.is_array() && !default.is_null();
        Self {
            key: key.to_owned(),
            help: text("description").unwrap_or_default().replace('\n', " "),
            kind: Kind::of(key, items.unwrap_or(schema)),
            is_list: items.is_some(),
            is_delimited: items.is_some() && !holds("x-whole") && !has_term && !holds_pairs,
            default: (is_plain && !is_required).then(|| default.clone()),
            takes_many: holds("x-many"),
            is_positional: holds("x-positional"),
            is_required,
            short: text("x-short").and_then(|short| short.chars().next()),
            aliases: list("x-aliases"),
            value_name: text("x-value"),
            is_path: holds("x-path"),
            written: text(WRITTEN).and_then(|name| Written::named(&name)),
            takes_hyphens: holds("x-hyphen"),
            pairs: match (holds_pairs, holds("x-whole")) {
                (false, _) => Pairs::None,
                (true, false) => Pairs::Divided,
                (true, true) => Pairs::Whole,
            },
            conflicts: list(RELATIONS[0]),
            requires: list(RELATIONS[1]),
            example: items
                .unwrap_or(schema)
                .get("examples")
                .or_else(|| schema.get("examples"))
                .and_then(|examples| examples.get(0))
                .cloned(),
        }
    }
}

impl Kind {
    /// The kind of an option, whose number is unbounded only by mistake.
    fn of(key: &str, schema: &Map<String, Value>) -> Self {
        if let Some(catalogue) = schema.get(TERM).and_then(Value::as_str).and_then(catalogue) {
            return Self::Term(catalogue);
        }
        if schema.contains_key("enum") {
            return Self::Named(Name::all_of(&Value::Object(schema.clone())));
        }
        let types = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().find_map(Value::as_str),
            other => other.and_then(Value::as_str),
        };
        let bound = |name: &str| {
            schema.get(name).unwrap_or_else(|| unreachable!("the option {key} has no {name}"))
        };
        match types {
            Some("boolean") => Self::Flag,
            Some("integer") => {
                let whole = |name: &str| bound(name).as_u64().unwrap_or_default();
                Self::Integer { min: whole("minimum"), max: whole("maximum") }
            }
            Some("number") => {
                let number = |name: &str| bound(name).as_f64().unwrap_or_default();
                Self::Number { min: number("minimum"), max: number("maximum") }
            }
            Some("string") => Self::Text,
            other => unreachable!("an option of type {other:?}"),
        }
    }

    /// What a value should be, for messages.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } => {
                format!("a number from {} to {}", bound_text(*min), bound_text(*max))
            }
            Self::Text => "text".to_owned(),
            Self::Term(catalogue) => catalogue.expected(),
            Self::Named(names) => {
                let names: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
                format!("one of {}", names.join(", "))
            }
        }
    }
}

/// The catalogue with a name.
fn catalogue(name: &str) -> Option<&'static Catalogue> {
    let known = crate::jobs::CATALOGUES.iter().find(|(own, _)| *own == name);
    known.map(|(_, catalogue)| catalogue())
}

/// A bound without rows of zeros.
pub(crate) fn bound_text(bound: f64) -> String {
    if bound.abs() < 1e9 { bound.to_string() } else { format!("{bound:e}") }
}

fn words(list: Option<&Value>) -> Vec<String> {
    let words = list.and_then(Value::as_array).into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The JSON schema of a job.
#[must_use]
pub fn schema<J: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<J>()
}

/// The options of a job, or of a group of options, in order.
///
/// # Panics
/// If an option has a type that no flag can have.
#[must_use]
pub fn fields<J: Options>() -> Vec<Field> {
    fields_that::<J>(&|_| true)
}

/// The options that exclude others or need them. A group may have options of other kinds, too,
/// which only its catalogue reads.
pub(super) fn related_fields<J: Options>() -> Vec<Field> {
    fields_that::<J>(&|schema| RELATIONS.iter().any(|key| schema.contains_key(*key)))
}

fn fields_that<J: Options>(is_it: &dyn Fn(&Map<String, Value>) -> bool) -> Vec<Field> {
    let schema = schema::<J>();
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.expect("options have properties");
    let defaults = serde_json::to_value(J::default()).expect("options are plain data");
    let schemas = properties.iter().map(|(key, schema)| {
        (key, schema.as_object().expect("the schema of an option is an object"))
    });
    let wanted = schemas.filter(|(_, schema)| is_it(schema));
    wanted.map(|(key, schema)| Field::of(key, schema, &defaults[key])).collect()
}
