//! Description of a data set, and parsing of its rows.

use linwright_data::{DataError, Row, Table};
use serde_json::{Map, Value};
use std::path::Path;

/// A data set: one file here, and one line of [`super::LASER_TASKS`].
#[derive(Clone, Copy, Debug)]
pub struct LaserSet {
    /// Name of its task.
    pub name: &'static str,
    /// Short description.
    pub summary: &'static str,
    /// Form of its requests.
    pub(super) form: Form,
    /// Position of the blank for a masked language model; none if the set has no cloze form.
    pub(super) mask: Option<Mask>,
    /// Parses the rows of its files into records, in file order.
    pub(super) read: fn(&[Source<'_>]) -> Result<Reading, DataError>,
}

/// Form of the requests of a set and of their scoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The most likely of some words is chosen. With `two` words, the paper's code requires the
    /// correct one to be strictly more likely.
    Choice { two: bool },
    /// The answer must occur in a generated text of `new_tokens` tokens. Answers of more than
    /// `longest` tokens are left out.
    Generated { new_tokens: usize, longest: Option<usize> },
}

/// Cloze form of a record: the prompt, or a sentence after the question, then the blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask {
    /// Sentence up to the blank, which replaces the last one of the prompt; none for the prompt.
    pub(super) sentence: Option<&'static str>,
    /// Text after the blank.
    pub(super) after: &'static str,
    /// Largest number of tokens kept before the sentence, counted from the right.
    pub(super) max_context_tokens: Option<usize>,
    /// Number of masks that are filled with a generated answer.
    pub(super) filled_masks: usize,
}

impl Mask {
    /// The blank after the prompt.
    pub(super) const PROMPT: Self =
        Self { sentence: None, after: "", max_context_tokens: None, filled_masks: 0 };
}

/// A question with its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// Its source, for messages.
    pub(super) place: String,
    /// Text in the data set.
    pub(super) question: String,
    /// Prompt.
    pub(super) prompt: String,
    /// Length in bytes of the part of the prompt that precedes the sentence of a cloze form.
    pub(super) start: usize,
    /// The answer, without a leading space.
    pub(super) answer: String,
    /// The choices, without leading spaces; empty for [`Form::Generated`].
    pub(super) choices: Vec<String>,
    /// Index of the answer in the choices.
    pub(super) gold: usize,
    /// Group with separate scores.
    pub(super) group: Option<&'static str>,
}

/// Records of a set, and numbers of rows left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) records: Vec<Record>,
    /// Reasons for exclusion, with their numbers of rows.
    pub(super) left_out: Vec<(&'static str, usize)>,
}

/// A row with its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    path: &'a Path,
    line: usize,
    fields: &'a Map<String, Value>,
}

impl<'a> Source<'a> {
    /// Rows of a table.
    pub(super) fn all(table: &'a Table) -> impl Iterator<Item = Self> {
        let source = |row: &'a Row| Self { path: &table.path, line: row.line, fields: &row.fields };
        table.rows.iter().map(source)
    }

    /// Path and line, for messages.
    pub(super) fn place(&self) -> String {
        format!("{}, line {}", self.path.display(), self.line)
    }

    /// An error in this row.
    pub(super) fn bad(&self, reason: String) -> DataError {
        DataError::BadRecord { path: self.path.to_owned(), line: self.line, reason }
    }

    /// A field, if present and not null.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// The first of these fields that is present, with its name.
    pub(super) fn one_of<'n>(&self, names: &[&'n str]) -> Result<(&'n str, &'a Value), DataError> {
        let found = names.iter().find_map(|name| Some((*name, self.get(name)?)));
        found.ok_or_else(|| {
            let known: Vec<&str> = self.fields.keys().map(String::as_str).take(12).collect();
            let wanted = names.join("` or `");
            self.bad(format!("field `{wanted}` is missing; the fields are {known:?}"))
        })
    }

    /// The first of these fields that is present, a non-blank text; trimmed.
    pub(super) fn text(&self, names: &[&str]) -> Result<&'a str, DataError> {
        let (name, value) = self.one_of(names)?;
        self.text_in(name, value)
    }

    /// A value as a non-blank text.
    pub(super) fn text_in(&self, name: &str, value: &'a Value) -> Result<&'a str, DataError> {
        let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
        text.ok_or_else(|| self.expected(name, value, "a text that is not empty"))
    }

    /// A value as a list of non-blank texts.
    pub(super) fn texts_in(&self, name: &str, value: &'a Value) -> Result<Vec<&'a str>, DataError> {
        let items =
            value.as_array().ok_or_else(|| self.expected(name, value, "a list of texts"))?;
        items.iter().map(|item| self.text_in(name, item)).collect()
    }

    /// The error for a field with an unexpected value.
    pub(super) fn expected(&self, name: &str, value: &Value, what: &str) -> DataError {
        let mut shown: String = value.to_string().chars().take(60).collect();
        if shown.len() < value.to_string().len() {
            shown.push_str("...");
        }
        self.bad(format!("field `{name}` is {shown}, expected {what}"))
    }

    /// A number 0 or 1, a boolean, or either as text.
    pub(super) fn bit_in(&self, name: &str, value: &Value) -> Result<bool, DataError> {
        match value {
            Value::Bool(bit) => Ok(*bit),
            Value::Number(number) if number.as_f64() == Some(0.0) => Ok(false),
            Value::Number(number) if number.as_f64() == Some(1.0) => Ok(true),
            Value::String(text) if text.trim() == "0" => Ok(false),
            Value::String(text) if text.trim() == "1" => Ok(true),
            _ => Err(self.expected(name, value, "0 or 1")),
        }
    }
}

/// The text, with `end` appended unless it ends in one of `ends`.
pub(super) fn ended(text: &str, ends: &[char], end: char) -> String {
    let text = text.trim();
    if text.ends_with(ends) { text.to_owned() } else { format!("{text}{end}") }
}

/// Endings after which no full stop is added.
pub(super) const ENDS: [char; 2] = ['.', '?'];

/// Two words as choices.
pub(super) fn pair(words: [&str; 2]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
