//! What can be wrong with a tokenizer.

use super::MAX_BYTES;
use linwright_run::{shown, shown_reason};
use std::path::PathBuf;

/// A tokenizer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file is too large to be one.
    #[error("{}: {found} bytes, a tokenizer has at most {MAX_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
    },
    /// The file is not a tokenizer.
    #[error("{}: not a tokenizer: {reason}; expected the tokenizer.json of the tokenizers library", path.display(), reason = shown_reason(reason))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A field of `tokenizer_config.json` that cannot be read.
    #[error("{}: tokenizer_config.json: {field} is {found}, expected {expected}", path.display(), found = shown(found))]
    Config {
        /// The tokenizer that it belongs to.
        path: PathBuf,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// The model has fewer tokens than the tokenizer.
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
    /// A text that the tokenizer cannot encode.
    #[error("{}: cannot encode a text of {chars} characters: {reason}", path.display(), reason = shown_reason(reason))]
    Encode {
        /// The tokenizer.
        path: PathBuf,
        /// Length of the text.
        chars: usize,
        /// What the library said.
        reason: String,
    },
    /// An id that no token has.
    #[error("{}: no token has id {id}", path.display())]
    UnknownId {
        /// The tokenizer.
        path: PathBuf,
        /// The id.
        id: u32,
    },
    /// A beginning-of-sequence token was asked for.
    #[error("{}: the tokenizer has no beginning-of-sequence token; use --bos never", path.display())]
    NoBos {
        /// The tokenizer.
        path: PathBuf,
    },
    /// A file of a vocabulary, of tokens or of settings that does not hold what it should.
    #[error("{}: {place}: found {found}, expected {expected}", path.display(), place = shown(place), found = shown(found))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is there.
        found: String,
        /// What should be there, and what to do where that is known.
        expected: String,
    },
    /// A kind of tokenizer whose rules are not known here.
    #[error("{}: tokenizers of class {class} are not built from this file; save the tokenizer with transformers, which writes a tokenizer.json", path.display(), class = shown(class))]
    Unsupported {
        /// The file with the vocabulary.
        path: PathBuf,
        /// The class that `tokenizer_config.json` or `config.json` names.
        class: String,
    },
    /// A file that cannot be read.
    #[error("{}: cannot be read: {reason}", path.display(), reason = shown_reason(reason))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A chat was asked for, and the tokenizer has no such template.
    #[error("{}: no chat template \"{name}\"; there are: {known}", path.display(), name = shown(name))]
    NoTemplate {
        /// The tokenizer.
        path: PathBuf,
        /// The template.
        name: String,
        /// The names of those that are there.
        known: String,
    },
    /// A chat template that fails.
    #[error("{}: chat template \"{name}\", line {line}: {reason}", path.display(), reason = shown_reason(reason), name = shown(name))]
    Template {
        /// The file of the template.
        path: PathBuf,
        /// Its name.
        name: String,
        /// Line of the template, from 1; 0 where none is known.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}
