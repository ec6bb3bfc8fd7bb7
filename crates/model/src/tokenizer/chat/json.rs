//! JSON in the format of Python's `json.dumps`, which is used in training.

use serde_json::Value;
use std::fmt::Write;

/// The options of `json.dumps`.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    /// Separators after an item, and between key and value.
    pub(super) separators: Option<(String, String)>,
    pub(super) indent: Option<String>,
    /// Whether non-ASCII characters are escaped.
    pub(super) ascii: bool,
    /// Whether keys are sorted.
    pub(super) sorted: bool,
}

/// A value as text.
pub(super) fn write(value: &Value, style: &Style) -> String {
    let mut out = String::new();
    let item = if style.indent.is_some() { "," } else { ", " };
    let (item, key) = match &style.separators {
        Some((item, key)) => (item.as_str(), key.as_str()),
        None => (item, ": "),
    };
    Writer { out: &mut out, style, item, key }.value(value, 0);
    out
}

struct Writer<'a> {
    out: &'a mut String,
    style: &'a Style,
    item: &'a str,
    key: &'a str,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => match (number.is_f64(), number.as_f64()) {
                (true, Some(float)) => self.out.push_str(&float_text(float)),
                _ => self.out.push_str(&number.to_string()),
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.between(index, depth + 1);
                    self.value(item, depth + 1);
                }
                self.close(']', items.is_empty(), depth);
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if self.style.sorted {
                    fields.sort_by_key(|(name, _)| *name);
                }
                self.out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    self.between(index, depth + 1);
                    self.text(name);
                    self.out.push_str(self.key);
                    self.value(value, depth + 1);
                }
                self.close('}', fields.is_empty(), depth);
            }
        }
    }

    fn between(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(self.item);
        }
        self.line(depth);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                letter if letter < ' ' || (self.style.ascii && !(' '..='~').contains(&letter)) => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        // Writing to a String does not fail.
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                letter => self.out.push(letter),
            }
        }
        self.out.push('"');
    }
}

/// A number as Python's `repr`: the shortest round-trip digits, with an exponent below 1e-4 and
/// from 1e16 on.
fn float_text(value: f64) -> String {
    if !value.is_finite() {
        let name = if value.is_nan() { "NaN" } else { "Infinity" };
        return if value < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = value.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_python_writes_them() {
        let value = json!({"b": [1, 2.0, 1e16, 1.5e-7, -0.0], "a": {}, "é\n\u{7f}": [], "x": null});
        assert_eq!(
            write(&value, &Style::default()),
            "{\"b\": [1, 2.0, 1e+16, 1.5e-07, -0.0], \"a\": {}, \"é\\n\u{7f}\": [], \"x\": null}"
        );
        let style =
            Style { indent: Some("  ".into()), sorted: true, ascii: true, ..Style::default() };
        let value = json!({"b": [true], "a": "😀"});
        assert_eq!(
            write(&value, &style),
            "{\n  \"a\": \"\\ud83d\\ude00\",\n  \"b\": [\n    true\n  ]\n}"
        );
        let tight = Style { separators: Some((",".into(), ":".into())), ..Style::default() };
        assert_eq!(write(&json!({"a": [1, 2]}), &tight), "{\"a\":[1,2]}");
    }
}
