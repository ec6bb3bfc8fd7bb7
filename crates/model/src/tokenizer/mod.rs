//! Text to token ids and back, from a `tokenizer.json`.
//!
//! What a document starts with matters to perplexity, so the beginning-of-sequence token is a
//! policy of its own ([`Bos`]) and never hidden in [`Tokenizer::encode`].

pub mod train;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Largest `tokenizer.json` that is read, in bytes; the largest known one has 33 MB.
pub const MAX_BYTES: usize = 1 << 28;

/// Whether a document starts with the beginning-of-sequence token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bos {
    /// As the tokenizer does by itself: `add_bos_token` of `tokenizer_config.json` where it is
    /// there, otherwise what the post-processor of `tokenizer.json` does.
    #[default]
    Auto,
    /// Always; an error if the tokenizer has no such token.
    Always,
    /// Never.
    Never,
}

impl Bos {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Always, Self::Never];

    /// The word for it in options, recipes and protocol ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

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
    #[error("{}: not a tokenizer: {reason}; expected the tokenizer.json of the tokenizers library", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A field of `tokenizer_config.json` that cannot be read.
    #[error("{}: tokenizer_config.json: {field} is {found}, expected {expected}", path.display())]
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
    #[error("{}: token {token:?} has id {id}, the model knows ids below {vocab}; the tokenizer belongs to another model", path.display())]
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
    #[error("{}: cannot encode a text of {chars} characters: {reason}", path.display())]
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
}

/// A tokenizer, without its truncation and padding.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`. `path` appears in messages; `config` is the content
    /// of `tokenizer_config.json`, if there is one.
    ///
    /// # Errors
    /// [`TokenizerError`].
    pub fn from_bytes(
        path: &Path,
        bytes: &[u8],
        config: Option<&Value>,
    ) -> Result<Self, TokenizerError> {
        if bytes.len() > MAX_BYTES {
            return Err(TokenizerError::TooLarge { path: path.into(), found: bytes.len() as u64 });
        }
        let invalid = |reason: String| TokenizerError::Invalid { path: path.into(), reason };
        let mut inner =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| invalid(e.to_string()))?;
        inner.with_truncation(None).map_err(|e| invalid(e.to_string()))?;
        inner.with_padding(None);
        let mut tokenizer =
            Self { inner, path: path.into(), bos: None, eos: None, adds_bos: false };
        if let Some(config) = config {
            tokenizer.bos = tokenizer.special(config, "bos_token")?;
            tokenizer.eos = tokenizer.special(config, "eos_token")?;
        }
        tokenizer.adds_bos = match config.and_then(|config| config.get("add_bos_token")) {
            None | Some(Value::Null) => tokenizer.post_processor_adds_bos()?,
            Some(Value::Bool(adds)) => *adds,
            Some(other) => {
                return Err(TokenizerError::Config {
                    path: path.into(),
                    field: "add_bos_token",
                    found: other.to_string(),
                    expected: "true or false",
                });
            }
        };
        Ok(tokenizer)
    }

    /// Fills in the ids that `config.json` gives where the tokenizer's own files name no token, and
    /// checks that every token has a place in the model's vocabulary of `vocab` tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Vocabulary`].
    pub fn for_model(
        mut self,
        vocab: usize,
        bos: Option<u32>,
        eos: Option<u32>,
    ) -> Result<Self, TokenizerError> {
        let (id, token) = self.largest();
        if id as usize >= vocab {
            return Err(TokenizerError::Vocabulary { path: self.path, token, id, vocab });
        }
        if self.bos.is_none() {
            self.bos = bos;
            self.adds_bos = self.post_processor_adds_bos()?;
        }
        self.eos = self.eos.or(eos);
        Ok(self)
    }

    /// Ids of a text; with `special` also those that the post-processor adds.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, special).map_err(|e| TokenizerError::Encode {
                path: self.path.clone(),
                chars: text.chars().count(),
                reason: e.to_string(),
            })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Ids of a document: the beginning-of-sequence token by policy, then the text. An
    /// end-of-sequence token is never added.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`], [`TokenizerError::NoBos`].
    pub fn encode_document(&self, text: &str, bos: Bos) -> Result<Vec<u32>, TokenizerError> {
        let mut ids: Vec<u32> = self.first(bos)?.into_iter().collect();
        ids.extend(self.encode(text, false)?);
        Ok(ids)
    }

    /// The token that a document starts with under a policy.
    ///
    /// # Errors
    /// [`TokenizerError::NoBos`].
    pub fn first(&self, bos: Bos) -> Result<Option<u32>, TokenizerError> {
        match bos {
            Bos::Never => Ok(None),
            Bos::Auto if !self.adds_bos => Ok(None),
            Bos::Auto | Bos::Always => match self.bos {
                Some(id) => Ok(Some(id)),
                None => Err(TokenizerError::NoBos { path: self.path.clone() }),
            },
        }
    }

    /// The text of ids; with `skip_special` without special, beginning and end tokens.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that no token has.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let unknown = |id: u32| TokenizerError::UnknownId { path: self.path.clone(), id };
        if let Some(&id) = ids.iter().find(|&&id| self.inner.id_to_token(id).is_none()) {
            return Err(unknown(id));
        }
        let ends = [self.bos, self.eos];
        let kept = ids.iter().copied().filter(|&id| !(skip_special && ends.contains(&Some(id))));
        let kept: Vec<u32> = kept.collect();
        self.inner
            .decode(&kept, skip_special)
            .map_err(|e| TokenizerError::Invalid { path: self.path.clone(), reason: e.to_string() })
    }

    /// One more than the largest id.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.largest().0 as usize + 1
    }

    /// The token that starts a document.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a document.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether documents start with [`Self::bos`] under [`Bos::Auto`].
    #[must_use]
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    fn largest(&self) -> (u32, String) {
        let vocab = self.inner.get_vocab(true);
        vocab.into_iter().map(|(token, id)| (id, token)).max().unwrap_or_default()
    }

    /// Asks the post-processor by letting it work: it puts a token before any text, or it does not.
    fn post_processor_adds_bos(&self) -> Result<bool, TokenizerError> {
        let (plain, full) = (self.encode("a", false)?, self.encode("a", true)?);
        Ok(full.len() > plain.len() && self.bos.is_some() && full.first() == self.bos.as_ref())
    }

    /// The id of a token that `tokenizer_config.json` names, as text or as an object.
    fn special(&self, config: &Value, field: &'static str) -> Result<Option<u32>, TokenizerError> {
        let named = config.get(field).unwrap_or(&Value::Null);
        let content = named.get("content").unwrap_or(named);
        let wrong = |expected| TokenizerError::Config {
            path: self.path.clone(),
            field,
            found: named.to_string(),
            expected,
        };
        match content {
            Value::Null => Ok(None),
            Value::String(token) => match self.inner.token_to_id(token) {
                Some(id) => Ok(Some(id)),
                None => Err(wrong("a token of tokenizer.json")),
            },
            _ => Err(wrong("a token, as text or as an object with its content")),
        }
    }
}

#[cfg(test)]
mod tests;
