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
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("the file holds JSON, but not an object".into())),
        Err(error) => Err(wrong(format!("not valid JSON ({error})"))),
    }
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// [`FileError::Read`].
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    input::read(path, limit).map_err(FileError::read(path))
}
