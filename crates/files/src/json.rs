//! Files that hold a JSON object.

use crate::FileError;
use linwright_run::input;
use serde_json::{Map, Value};
use std::path::Path;

/// Largest configuration file in bytes.
pub const JSON_BYTES: u64 = 1 << 28;

/// Reads a JSON object.
///
/// # Errors
/// [`FileError::Read`] or [`FileError::Json`].
pub fn read_object(path: &Path) -> Result<Map<String, Value>, FileError> {
    parse_object(path, &read_bounded(path, JSON_BYTES)?)
}

/// The object that `bytes` of `path` hold.
///
/// # Errors
/// [`FileError::Json`].
pub fn parse_object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, FileError> {
    let wrong = |reason| FileError::Json { path: path.into(), reason, expected: "a JSON object" };
    match from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("the file holds JSON, but not an object".into())),
        Err(error) => Err(wrong(format!("not valid JSON ({error})"))),
    }
}

/// Python's words for non-finite numbers, which are not valid JSON.
const WORDS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// A JSON value written by another program. Python's words for non-finite numbers are read as text,
/// which is an error only where a number is needed.
///
/// # Errors
/// What is wrong with the JSON.
pub fn from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let read = if words(bytes).next().is_some() {
            serde_json::from_slice(&quoted(bytes, ""))
        } else {
            Err(error)
        };
        read.or_else(|_| serde_json::from_slice(bytes))
    })
}

/// The bytes with each such word as text, after a mark.
fn quoted(bytes: &[u8], mark: &str) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(bytes.len() + 64);
    let mut from = 0;
    for (at, word) in words(bytes) {
        quoted.extend_from_slice(&bytes[from..at]);
        quoted.extend_from_slice(format!("\"{mark}{word}\"").as_bytes());
        from = at + word.len();
    }
    quoted.extend_from_slice(&bytes[from..]);
    quoted
}

/// Where a file has the words of Python for numbers that are not finite, to write them again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<(String, &'static str)>);

/// Marks such a word, so that it differs from a text with its letters.
const MARK: &str = "\u{e000}";

impl Words {
    /// The words of a file that [`from_slice`] reads.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut found = Vec::new();
        if words(bytes).next().is_some()
            && let (Ok(plain), Ok(marked)) =
                (from_slice(bytes), serde_json::from_slice(&quoted(bytes, MARK)))
        {
            visit(&plain, &marked, &mut String::new(), &mut found);
        }
        Self(found)
    }

    /// JSON with a line for each field, and these words where the value still has them.
    #[must_use]
    pub fn pretty(&self, value: &Value) -> String {
        if self.0.is_empty() {
            return format!("{value:#}\n");
        }
        let mut mark = MARK.to_owned();
        while value.to_string().contains(&mark) {
            mark.push_str(MARK);
        }
        let mut value = value.clone();
        for (place, word) in &self.0 {
            if let Some(found) = value.pointer_mut(place)
                && found.as_str() == Some(word)
            {
                *found = format!("{mark}{word}").into();
            }
        }
        let text = format!("{value:#}\n");
        WORDS.iter().fold(text, |text, word| text.replace(&format!("\"{mark}{word}\""), word))
    }
}

/// Collects where two values differ by the mark.
fn visit(
    plain: &Value,
    marked: &Value,
    place: &mut String,
    found: &mut Vec<(String, &'static str)>,
) {
    let length = place.len();
    match (plain, marked) {
        (Value::String(plain), Value::String(marked)) if plain != marked => {
            let word = WORDS.into_iter().find(|word| word == plain);
            found.extend(word.map(|word| (place.clone(), word)));
        }
        (Value::Array(plain), Value::Array(marked)) => {
            for (index, (plain, marked)) in plain.iter().zip(marked).enumerate() {
                place.push_str(&format!("/{index}"));
                visit(plain, marked, place, found);
                place.truncate(length);
            }
        }
        (Value::Object(plain), Value::Object(marked)) => {
            for (name, plain) in plain {
                place.push_str(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
                visit(plain, marked.get(name).unwrap_or(&Value::Null), place, found);
                place.truncate(length);
            }
        }
        _ => {}
    }
}

/// A note on a file that [`from_slice`] reads and others may not.
#[must_use]
pub fn words_note(name: &str, bytes: &[u8]) -> Option<String> {
    let (_, word) = words(bytes).next()?;
    Some(format!(
        "{name} holds {word}, which is not a number in JSON: a field with it is not used, and saved as it is"
    ))
}

/// Such words outside strings, with their positions.
fn words(bytes: &[u8]) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    let (mut at, mut is_text) = (0, false);
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let here = at;
            at += 1;
            match bytes[here] {
                b'"' => is_text = !is_text,
                b'\\' if is_text => at += 1,
                b'N' | b'I' | b'-' if !is_text => {
                    let is_here = |word: &&str| bytes[here..].starts_with(word.as_bytes());
                    if let Some(word) = WORDS.into_iter().find(is_here) {
                        at = here + word.len();
                        return Some((here, word));
                    }
                }
                _ => {}
            }
        }
        None
    })
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// [`FileError::Read`].
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    input::read(path, limit).map_err(FileError::read(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_python_are_read_as_text_and_nothing_else_is() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity, 1], "c": "NaN \" NaN", "N": -1}"#;
        let want =
            json!({"a": "NaN", "b": ["-Infinity", "Infinity", 1], "c": "NaN \" NaN", "N": -1});
        assert_eq!(from_slice(text).unwrap(), want);
        assert!(words_note("f", text).unwrap().starts_with("f holds NaN"));
        assert_eq!(words_note("f", br#"{"c": "NaN \\\" Infinity"}"#), None);
        for bad in [
            "{\"a\": NaNs}",
            "{\"a\": nan}",
            "{\"a\": +Infinity}",
            "{\"a\": NaN",
            "{\"a\": --Infinity}",
            "{",
            "",
        ] {
            assert!(from_slice(bad.as_bytes()).is_err(), "{bad}");
        }
        let words = Words::of(text);
        let mut value = from_slice(text).unwrap();
        let written = words.pretty(&value);
        assert_eq!(from_slice(written.as_bytes()).unwrap(), value);
        assert_eq!(Words::of(written.as_bytes()), words);
        assert!(written.contains("\"a\": NaN,") && written.contains("    -Infinity,"), "{written}");
        assert!(written.contains(r#""c": "NaN \" NaN""#), "{written}");
        // Another value is written as it is, and a text that looks like the mark stays one.
        value["a"] = "\u{e000}NaN".into();
        value["b"] = json!(["-Infinity", "NaN"]);
        let written = words.pretty(&value);
        assert!(
            written.contains("\"a\": \"\u{e000}NaN\"") && written.contains("\"NaN\""),
            "{written}"
        );
        let nested = br#"{"a/b": {"~": NaN}, "c": "NaN"}"#;
        let written = Words::of(nested).pretty(&from_slice(nested).unwrap());
        assert!(written.contains("\"~\": NaN") && written.contains("\"c\": \"NaN\""), "{written}");
        assert_eq!(Words::of(b"{}"), Words::default());
        let told = from_slice(b"{\"a\": NaN,\n x}").unwrap_err().to_string();
        assert!(told.contains("line 1"), "of the file as it is: {told}");
    }
}
