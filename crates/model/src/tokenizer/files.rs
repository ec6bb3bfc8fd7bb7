//! The files of a tokenizer.

use super::{MAX_BYTES, TokenizerError};
use linwright_files::TOKENIZER_FILES;
use linwright_run::input;
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};

/// The complete tokenizer in the format of the tokenizers library.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// Tokenizer settings.
pub(super) const SETTINGS: &str = "tokenizer_config.json";
/// Special tokens by role, of older checkpoints.
pub(super) const SPECIAL: &str = "special_tokens_map.json";
/// Added tokens and their ids, of older checkpoints.
pub(super) const ADDED: &str = "added_tokens.json";
/// SentencePiece vocabularies; the first that exists is used.
pub(super) const SENTENCEPIECE: [&str; 3] =
    ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model"];
/// Vocabularies and merges of byte-level BPE; the first that exists is used.
pub(super) const BYTE_LEVEL: [(&str, &str); 2] =
    [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")];
/// WordPiece vocabulary, one token per line.
pub(super) const WORD_PIECE: &str = "vocab.txt";
/// Chat template in its own file.
pub(super) const CHAT_JINJA: &str = "chat_template.jinja";
/// Chat template inside JSON.
pub(super) const CHAT_JSON: &str = "chat_template.json";

/// Names and contents of the files of one folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'a> {
    dir: &'a Path,
    files: &'a [(String, Vec<u8>)],
}

impl<'a> Files<'a> {
    pub(super) fn new(
        dir: &'a Path,
        files: &'a [(String, Vec<u8>)],
    ) -> Result<Self, TokenizerError> {
        for (name, bytes) in files {
            if bytes.len() > MAX_BYTES && TOKENIZER_FILES.contains(&name.as_str()) {
                return Err(TokenizerError::TooLarge {
                    path: dir.join(name),
                    found: bytes.len() as u64,
                });
            }
        }
        Ok(Self { dir, files })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.files.iter().find(|(other, _)| other == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// A file as text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, TokenizerError> {
        self.get(name).map(|bytes| text(&self.path(name), bytes)).transpose()
    }

    /// A file as a JSON object.
    pub(super) fn object(&self, name: &str) -> Result<Option<Map<String, Value>>, TokenizerError> {
        self.get(name).map(|bytes| object(&self.path(name), bytes)).transpose()
    }
}

/// Reads the tokenizer files of a folder.
pub(super) fn read_folder(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, TokenizerError> {
    let mut files = Vec::new();
    for name in TOKENIZER_FILES.into_iter().chain(["config.json"]) {
        let path = dir.join(name);
        // A dangling link is an I/O error, not an absent file.
        if !path.is_file() && !path.is_symlink() {
            continue;
        }
        let unreadable = |error: io::Error| TokenizerError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
        };
        let bytes = match input::read(&path, MAX_BYTES as u64) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let found = path.metadata().map_err(unreadable)?.len();
                return Err(TokenizerError::TooLarge { path, found });
            }
            read => read.map_err(unreadable)?,
        };
        files.push((name.to_owned(), bytes));
    }
    Ok(files)
}

/// Bytes as text.
pub(super) fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, TokenizerError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        malformed(path, format!("byte {at}"), "bytes that are not UTF-8".into(), "UTF-8 text")
    })?;
    Ok(text)
}

pub(super) fn object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, TokenizerError> {
    let wrong = |found: String| malformed(path, "the file".into(), found, "a JSON object");
    match linwright_files::json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(wrong(kind(&other).into())),
        Err(error) => Err(wrong(format!("invalid JSON ({error})"))),
    }
}

/// An error at one location in a file.
pub(super) fn malformed(
    path: &Path,
    place: String,
    found: String,
    expected: impl Into<String>,
) -> TokenizerError {
    TokenizerError::Malformed { path: path.into(), place, found, expected: expected.into() }
}

/// A JSON value for messages: its type, or the value if it is short.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 { text } else { kind(value).into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a long text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
