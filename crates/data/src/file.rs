//! Reads a whole file within a size limit, decodes it and splits it into JSON records.

use super::DataError;
use super::inflate::{GZIP_MAGIC, gunzip};
use linwright_run::spelling::distance;
use linwright_run::{input, shown, shown_reason};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// Size limit of a file, in bytes: text is evaluated from memory, so a larger file should be split.
pub const MAX_FILE_BYTES: u64 = 4 << 30;

/// Longest line of a JSONL file, in bytes.
pub const MAX_LINE_BYTES: usize = 256 << 20;

/// Largest number of fields listed in a message.
const SHOWN_NAMES: usize = 12;

/// Bytes of a regular file of at most [`MAX_FILE_BYTES`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::IsADirectory => DataError::IsDirectory { path: path.to_owned() },
        io::ErrorKind::FileTooLarge => {
            DataError::FileTooLong { path: path.to_owned(), limit_bytes: MAX_FILE_BYTES }
        }
        _ => DataError::Read { path: path.to_owned(), source },
    };
    input::read(path, MAX_FILE_BYTES).map_err(failed)
}

/// Magic bytes of compressed files other than gzip.
const PACKED: [(&[u8], &str); 4] = [
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "a zip archive"),
];

/// The content of a file with these bytes, decompressed if it is gzip.
pub(super) fn content<'a>(path: &Path, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, DataError> {
    if bytes.starts_with(&GZIP_MAGIC) {
        let content = gunzip(bytes);
        return content
            .map(Cow::Owned)
            .map_err(|source| DataError::Gzip { path: path.to_owned(), source });
    }
    match PACKED.into_iter().find(|(magic, _)| bytes.starts_with(magic)) {
        // Plain text may begin with these letters.
        Some((_, how)) if std::str::from_utf8(bytes).is_err() => {
            Err(DataError::Packed { path: path.to_owned(), how })
        }
        _ => Ok(Cow::Borrowed(bytes)),
    }
}

/// Text of a file, without a byte order mark.
pub(super) fn decode<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, DataError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let byte = error.valid_up_to();
        DataError::NotUtf8 {
            path: path.to_owned(),
            line: 1 + bytes[..byte].iter().filter(|&&b| b == b'\n').count(),
            byte,
        }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// One JSON object of a JSONL file, with its position for messages.
pub(super) struct Record<'a> {
    path: &'a Path,
    pub(super) line: usize,
    fields: Map<String, Value>,
}

/// The objects of a JSONL file; blank lines are skipped.
pub(super) fn records<'a>(
    path: &'a Path,
    text: &'a str,
) -> impl Iterator<Item = Result<Record<'a>, DataError>> {
    text.lines()
        .enumerate()
        .filter(|(_, content)| !content.trim().is_empty())
        .map(move |(index, content)| Record::parse(path, index + 1, content))
}

impl<'a> Record<'a> {
    fn parse(path: &'a Path, line: usize, content: &str) -> Result<Self, DataError> {
        if content.len() > MAX_LINE_BYTES {
            return Err(DataError::LineTooLong {
                path: path.to_owned(),
                line,
                found_bytes: content.len(),
                limit_bytes: MAX_LINE_BYTES,
            });
        }
        match serde_json::from_str(content) {
            Ok(Value::Object(fields)) => Ok(Self { path, line, fields }),
            Ok(other) => Err(DataError::BadRecord {
                path: path.to_owned(),
                line,
                reason: format!("expected an object {{...}}, found {}", kind(&other)),
            }),
            Err(error) => Err(DataError::BrokenJson {
                path: path.to_owned(),
                line,
                // The parser counts lines from the start of this one, which would be misleading.
                reason: format!("{} (column {})", error_text(&error), error.column()),
            }),
        }
    }

    /// The record of a table row.
    pub(super) fn of_row(path: &'a Path, line: usize, fields: Map<String, Value>) -> Self {
        Self { path, line, fields }
    }

    /// All fields.
    pub(super) fn fields(self) -> Map<String, Value> {
        self.fields
    }

    /// An error at this record.
    pub(super) fn bad(&self, reason: String) -> DataError {
        DataError::BadRecord { path: self.path.to_owned(), line: self.line, reason }
    }

    /// The error for a record whose id occurred before.
    pub(super) fn duplicate_id(&self, id: &Value, first: usize) -> DataError {
        DataError::DuplicateId {
            path: self.path.to_owned(),
            line: self.line,
            first,
            id: id.to_string(),
        }
    }

    /// A field, or an error that lists the fields of the record.
    pub(super) fn field(&self, name: &str) -> Result<&Value, DataError> {
        self.fields.get(name).ok_or_else(|| {
            let present = self.names();
            self.bad(format!("field `{}` is missing; the fields are {present:?}", shown(name)))
        })
    }

    /// Names of the first fields, shortened for a message.
    fn names(&self) -> Vec<String> {
        self.fields.keys().map(|key| shown(key)).take(SHOWN_NAMES).collect()
    }

    /// Text of a record, from the field with this name.
    pub(super) fn text_of(&self, field: &str) -> Result<&str, DataError> {
        if self.fields.contains_key(field) {
            return self.string(field);
        }
        let texts = self.fields.iter().filter_map(|(name, value)| Some((name, value.as_str()?)));
        let near = |(name, _): &(&String, &str)| distance(field, name) <= 1 + field.len() / 3;
        let likely = texts.clone().filter(near).min_by_key(|(name, _)| distance(field, name));
        let likely = likely.or_else(|| texts.max_by_key(|(_, text)| text.len()));
        Err(DataError::NoText {
            path: self.path.to_owned(),
            line: self.line,
            field: field.to_owned(),
            fields: self.names(),
            likely: likely.map(|(name, _)| name.clone()),
        })
    }

    /// An optional field; null counts as absent.
    pub(super) fn optional(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// A string field.
    pub(super) fn string(&self, name: &str) -> Result<&str, DataError> {
        let value = self.field(name)?;
        value.as_str().ok_or_else(|| {
            self.bad(format!("field `{name}` is {}, expected a string", kind(value)))
        })
    }
}

/// Description of the type of a JSON value.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    shown_reason(&text[..end])
}
