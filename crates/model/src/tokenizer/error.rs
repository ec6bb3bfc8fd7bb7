//! Errors of tokenizers.

use super::MAX_BYTES;
use linwright_run::{shown, shown_reason};
use std::path::PathBuf;

/// An invalid tokenizer, or an error of using one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// A file above the size limit.
    #[error("{}: {found} bytes, a tokenizer has at most {MAX_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
    },
    /// A file that is not a tokenizer.
    #[error("{}: not a tokenizer: {reason}; expected the tokenizer.json of the tokenizers library", path.display(), reason = shown_reason(reason))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
    /// An invalid field of `tokenizer_config.json`.
    #[error("{}: tokenizer_config.json: {field} is {found}, expected {expected}", path.display(), found = shown(found))]
    Config {
        /// The file.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// The value.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// A tokenizer with more tokens than the model's vocabulary.
    #[error("{}: token {token:?} has id {id}, the model knows ids below {vocab}; the tokenizer belongs to another model", path.display(), token = shown(token))]
    Vocabulary {
        /// The tokenizer.
        path: PathBuf,
        /// The token with the largest id.
        token: String,
        /// Its id.
        id: u32,
        /// Size of the model's vocabulary.
        vocab: usize,
    },
    /// A text that cannot be encoded.
    #[error("{}: cannot encode a text of {chars} characters: {reason}", path.display(), reason = shown_reason(reason))]
    Encode {
        /// The tokenizer.
        path: PathBuf,
        /// Length of the text.
        chars: usize,
        /// The library's error.
        reason: String,
    },
    /// An unknown id.
    #[error("{}: no token has id {id}", path.display())]
    UnknownId {
        /// The tokenizer.
        path: PathBuf,
        /// The id.
        id: u32,
    },
    /// A missing beginning-of-sequence token.
    #[error("{}: the tokenizer has no beginning-of-sequence token; use --bos never", path.display())]
    NoBos {
        /// The tokenizer.
        path: PathBuf,
    },
    /// A file of a vocabulary, of tokens or of settings with invalid content.
    #[error("{}: {place}: found {found}, expected {expected}", path.display(), place = shown(place), found = shown(found))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Location in the file.
        place: String,
        /// What was found.
        found: String,
        /// What was expected, and what to do if known.
        expected: String,
    },
    /// A tokenizer class without known rules.
    #[error("{}: tokenizers of class {class} are not built from this file; save the tokenizer with transformers, which writes a tokenizer.json", path.display(), class = shown(class))]
    Unsupported {
        /// The file with the vocabulary.
        path: PathBuf,
        /// The class named by `tokenizer_config.json` or `config.json`.
        class: String,
    },
    /// An unreadable file.
    #[error("{}: cannot be read: {reason}", path.display(), reason = shown_reason(reason))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// A missing chat template.
    #[error("{}: no chat template \"{name}\"; there are: {known}", path.display(), name = shown(name))]
    NoTemplate {
        /// The tokenizer.
        path: PathBuf,
        /// Name of the template.
        name: String,
        /// Names of the existing ones.
        known: String,
    },
    /// An error of a chat template.
    #[error("{}: chat template \"{name}\", line {line}: {reason}", path.display(), reason = shown_reason(reason), name = shown(name))]
    Template {
        /// The file of the template.
        path: PathBuf,
        /// Name of the template.
        name: String,
        /// Line of the template from 1; 0 if unknown.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}
