//! The second line of a frame: pairs of keys and values.

use super::{Line, number};
use crate::error::MoleculeError;
use serde_json::Value;

/// A pair of the line. A key without a value has the value `T`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: String,
    /// Byte of the line at which the key starts.
    pub(super) at: usize,
}

/// A boolean word.
pub(super) fn truth(word: &str) -> Option<bool> {
    match word {
        "T" | "True" | "true" | "TRUE" | "1" => Some(true),
        "F" | "False" | "false" | "FALSE" | "0" => Some(false),
        _ => None,
    }
}

/// All pairs of a line.
pub(super) fn entries(line: &Line<'_>) -> Result<Vec<Entry>, MoleculeError> {
    let mut words = Words { line, rest: line.text };
    let mut entries: Vec<Entry> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    while let Some(at) = words.next_start() {
        let key = words.word()?;
        let value = if words.equals() { words.word()? } else { "T".to_owned() };
        if key.is_empty() {
            return Err(line.wrong(at, &line.text[at..], "a key before ="));
        }
        if !known.insert(key.clone()) {
            return Err(line.wrong(at, &key, "each key once"));
        }
        entries.push(Entry { key, value, at });
    }
    Ok(entries)
}

/// The rest of a line, word by word.
struct Words<'a> {
    line: &'a Line<'a>,
    rest: &'a str,
}

impl Words<'_> {
    fn at(&self) -> usize {
        self.line.text.len() - self.rest.len()
    }

    /// Byte at which the next word starts, if any.
    fn next_start(&mut self) -> Option<usize> {
        self.rest = self.rest.trim_start();
        (!self.rest.is_empty()).then(|| self.at())
    }

    fn equals(&mut self) -> bool {
        let rest = self.rest.strip_prefix('=');
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A word up to white space or `=`, or within quotes or brackets.
    fn word(&mut self) -> Result<String, MoleculeError> {
        match self.rest.chars().next() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some('[') => self.bracketed(['[', ']']),
            Some('{') => self.bracketed(['{', '}']),
            _ => {
                let end = |c: char| c.is_whitespace() || c == '=';
                let end = self.rest.find(end).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(word.to_owned())
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, MoleculeError> {
        let mut word = String::new();
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    // Only quotes and backslashes are escaped; other backslashes are kept.
                    if c != quote && c != '\\' {
                        word.push('\\');
                    }
                    word.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(word);
                }
                c => word.push(c),
            }
        }
        Err(self.line.wrong(self.at(), self.rest, format!("a value that ends with {quote}")))
    }

    /// Text with its brackets, which may nest.
    fn bracketed(&mut self, [open, close]: [char; 2]) -> Result<String, MoleculeError> {
        let mut depth = 0usize;
        for (at, c) in self.rest.char_indices() {
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
            }
            if depth == 0 {
                let (word, rest) = self.rest.split_at(at + c.len_utf8());
                self.rest = rest;
                return Ok(word.to_owned());
            }
        }
        Err(self.line.wrong(self.at(), self.rest, format!("a value that ends with {close}")))
    }
}

impl Entry {
    /// The number of the value.
    pub(super) fn number(&self, line: &Line<'_>) -> Result<f64, MoleculeError> {
        match ListOfNumbers::of(&self.value, 2).map(|list| list.numbers).as_deref() {
            Some(&[number]) => Ok(number),
            _ => Err(self.wrong(line, "a finite number")),
        }
    }

    /// A matrix: nine numbers by rows or columns, or six if it is symmetric; nested lists, which
    /// ASE writes as JSON, are by rows.
    pub(super) fn matrix(
        &self,
        line: &Line<'_>,
        by: Order,
    ) -> Result<[[f64; 3]; 3], MoleculeError> {
        // One more than a matrix has is enough to detect an error.
        let list = ListOfNumbers::of(&self.value, 10).unwrap_or_default();
        let by = if list.is_nested { Order::Rows } else { by };
        match (&list.numbers[..], by) {
            (&[a, b, c, d, e, f, g, h, i], Order::Rows) => Ok([[a, b, c], [d, e, f], [g, h, i]]),
            (&[a, b, c, d, e, f, g, h, i], Order::Columns) => Ok([[a, d, g], [b, e, h], [c, f, i]]),
            (&[xx, yy, zz, yz, xz, xy], Order::Columns) => {
                Ok([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            }
            (_, Order::Rows) => Err(self.wrong(line, "nine finite numbers")),
            (_, Order::Columns) => Err(self.wrong(line, "nine or six finite numbers")),
        }
    }

    /// Which lattice vectors repeat.
    pub(super) fn flags(&self, line: &Line<'_>) -> Result<[bool; 3], MoleculeError> {
        let text = self.value.strip_prefix(JSON).unwrap_or(&self.value);
        let words = text.split(is_between).filter(|word| !word.is_empty());
        let flags: Option<Vec<bool>> = words.take(4).map(truth).collect();
        match flags.as_deref() {
            Some(&[a, b, c]) => Ok([a, b, c]),
            Some(&[all]) => Ok([all; 3]),
            _ => Err(self.wrong(line, "three of T and F")),
        }
    }

    /// An error about the value.
    pub(super) fn wrong(&self, line: &Line<'_>, expected: &str) -> MoleculeError {
        line.wrong(
            self.at,
            &self.value,
            format!("{expected} as {}", linwright_run::shown(&self.key)),
        )
    }
}

/// Prefix of ASE for values other than numbers, strings and plain lists.
const JSON: &str = "_JSON ";

/// The finite numbers of a value.
#[derive(Default)]
pub(super) struct ListOfNumbers {
    pub(super) numbers: Vec<f64>,
    /// Whether it is a list of lists, which is by rows.
    is_nested: bool,
}

impl ListOfNumbers {
    /// Up to `most` numbers of a value; none if it has anything else.
    pub(super) fn of(text: &str, most: usize) -> Option<Self> {
        let mut found = Self::default();
        match text.strip_prefix(JSON) {
            Some(json) => found.add(&serde_json::from_str(json).ok()?, 0)?,
            None => {
                let words = text.split(is_between).filter(|word| !word.is_empty());
                found.numbers = words.take(most).map(number).collect::<Option<_>>()?;
            }
        }
        found.numbers.truncate(most);
        found.numbers.iter().all(|number| number.is_finite()).then_some(found)
    }

    fn add(&mut self, value: &Value, depth: usize) -> Option<()> {
        match value {
            Value::Number(number) => self.numbers.push(number.as_f64()?),
            Value::Array(items) => {
                self.is_nested |= depth > 0;
                items.iter().try_for_each(|item| self.add(item, depth + 1))?;
            }
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => return None,
        }
        Some(())
    }
}

/// Whether a character separates the items of a list.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}')
}

/// Order of the nine numbers of a matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The first three are the first row.
    Rows,
    /// The first three are the first column; six numbers are accepted as well.
    Columns,
}
