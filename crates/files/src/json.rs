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

/// Words that Python writes for numbers that are not finite, and that JSON does not know.
const WORDS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// The value that JSON of other programs holds. The words of Python for numbers that are not finite
/// are read as text: who needs a number there refuses it, and nobody else does.
///
/// # Errors
/// What is wrong with the JSON.
pub fn from_slice(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| {
        let mut quoted = Vec::with_capacity(bytes.len() + 64);
        let mut from = 0;
        for (at, word) in words(bytes) {
            quoted.extend_from_slice(&bytes[from..at]);
            quoted.extend_from_slice(format!("\"{word}\"").as_bytes());
            from = at + word.len();
        }
        quoted.extend_from_slice(&bytes[from..]);
        let read = if from > 0 { serde_json::from_slice(&quoted) } else { Err(error) };
        read.or_else(|_| serde_json::from_slice(bytes))
    })
}

/// A note on a file that [`from_slice`] reads and others may not.
#[must_use]
pub fn words_note(name: &str, bytes: &[u8]) -> Option<String> {
    let (_, word) = words(bytes).next()?;
    Some(format!("{name} holds {word}, which is no number in JSON: a field with it is not used"))
}

/// Such words outside texts, with their places.
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
        let told = from_slice(b"{\"a\": NaN,\n x}").unwrap_err().to_string();
        assert!(told.contains("line 1"), "of the file as it is: {told}");
    }
}
