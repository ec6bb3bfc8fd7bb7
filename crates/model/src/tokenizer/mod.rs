//! Tokenizers: text to token ids and back.
//!
//! A tokenizer is built from the files of a checkpoint: a `tokenizer.json`, or else a raw
//! vocabulary of SentencePiece, byte-level BPE or WordPiece, from which the same pipeline is built
//! as in transformers 5, with the same ids. The vocabulary of llama2.c is converted to a
//! `tokenizer.json` together with its model.
//!
//! The first token of a document matters for perplexity, so adding the beginning-of-sequence token
//! is an explicit policy ([`Bos`]) and never hidden in [`Tokenizer::encode`].

mod assemble;
mod byte_level;
pub mod chat;
mod error;
mod files;
mod growth;
mod library_limits;
mod longest;
mod sentencepiece;
mod settings;
mod stream;
mod token_text;
pub mod train;
mod word_piece;

pub use error::TokenizerError;
pub use stream::DecodeStream;

use crate::families::tokenizers::Class;
use assemble::Assembled;
use chat::Templates;
use files::Files;
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settings::TokenizerSettings;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokenizers::models::ModelWrapper;
use tokenizers::{
    AddedToken, DecoderWrapper, PostProcessor, PreTokenizerWrapper, TruncationDirection,
};

/// Largest `tokenizer.json` that is read, in bytes; the largest known one has 33 MB.
pub const MAX_BYTES: usize = linwright_files::COMPANION_BYTES as usize;

/// Policy for the beginning-of-sequence token before a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bos {
    /// The tokenizer's default, as in transformers 5: the post-processor of `tokenizer.json`;
    /// `add_bos_token` of `tokenizer_config.json` if the vocabulary is in another file.
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

    /// Name in options, recipes and protocol ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// A tokenizer, without its truncation and padding.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    bos: Option<u32>,
    eos: Option<u32>,
    /// The mask token.
    mask: Option<(u32, String)>,
    adds_bos: bool,
    /// Tokens added only for a role: the model may have no embedding rows for them.
    appended: BTreeSet<u32>,
    templates: Templates,
    /// Notes on ignored parts of the files, for a report.
    notes: Vec<String>,
    /// Whether texts that are too long are truncated at the start.
    cuts_left: bool,
    /// Tokens with a role.
    special: BTreeSet<u32>,
}

/// Encoding of a text or a pair of texts for an encoder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids, with special tokens.
    pub ids: Vec<u32>,
    /// Token type (0 or 1) of each token: which of the texts it belongs to, by the rules of the
    /// family.
    pub type_ids: Vec<u32>,
}

impl Tokenizer {
    /// Builds a tokenizer from the files of a folder; `None` if none of them is a vocabulary.
    ///
    /// `dir` appears in messages; `files` are names and contents, of which
    /// [`linwright_files::TOKENIZER_FILES`] are used; `model_type` is that of `config.json`. The
    /// first of these vocabularies that exists is used: `tokenizer.json`; `tokenizer.model`,
    /// `spiece.model` or `sentencepiece.bpe.model`; `vocab.json` with `merges.txt`, or
    /// `encoder.json` with `vocab.bpe`; `vocab.txt`.
    ///
    /// # Errors
    /// [`TokenizerError`].
    pub fn from_files(
        dir: &Path,
        files: &[(String, Vec<u8>)],
        model_type: Option<&str>,
    ) -> Result<Option<Self>, TokenizerError> {
        let files = Files::new(dir, files)?;
        let settings = TokenizerSettings::read(&files)?;
        if let Some(bytes) = files.get(files::TOKENIZER) {
            return Self::from_json(&files, bytes, &settings, model_type).map(Some);
        }
        let Some((path, parts)) = vocabulary(&files, &settings, model_type)? else {
            return Ok(None);
        };
        let Assembled { inner, bos, eos, appended, roles, notes } =
            assemble::assemble(&path, parts, &settings)?;
        let templates = Templates::read(&files, &settings, settings::by_name(&roles));
        let (mask, adds_bos) = (None, false);
        let (cuts_left, special) = (false, BTreeSet::new());
        let mut tokenizer = Self {
            inner,
            path,
            bos,
            eos,
            mask,
            adds_bos,
            appended,
            templates,
            notes,
            cuts_left,
            special,
        };
        tokenizer.take_roles(&settings, &roles)?;
        tokenizer.adds_bos = tokenizer.adds(true)?;
        Ok(Some(tokenizer))
    }

    /// Builds a tokenizer from a `tokenizer.json` and the settings in its folder.
    fn from_json(
        files: &Files<'_>,
        bytes: &[u8],
        settings: &TokenizerSettings,
        model_type: Option<&str>,
    ) -> Result<Self, TokenizerError> {
        let path = files.path(files::TOKENIZER);
        let mut tokenizer = Self::from_bytes(&path, bytes, None)?;
        let class = Class::beside_json(settings.class()?, model_type, tokenizer.is_of_bytes()?);
        let defaults = class.map(Class::defaults).unwrap_or_default();
        let roles = settings.roles(&defaults.map(|token| token.map(str::to_owned)))?;
        let unknown = roles[settings::UNKNOWN].as_ref();
        let replaced = match class {
            Some(class @ (Class::Prefixed | Class::Plain)) => {
                tokenizer.take_class_rules(class, settings, unknown)?;
                None
            }
            Some(Class::Bert | Class::Mpnet) => {
                word_piece::take_rules(&path, &mut tokenizer.inner, settings, unknown)?
            }
            Some(class @ (Class::Bytes | Class::Roberta | Class::NeoX | Class::BytesOfWords))
                if tokenizer.is_of_bytes()? =>
            {
                byte_level::take_rules(&path, &mut tokenizer.inner, class, settings)?
            }
            _ => None,
        };
        let (appended, other_ids) =
            assemble::add_tokens(&path, &mut tokenizer.inner, settings, &roles, Vec::new())?;
        tokenizer.notes = assemble::surround(&path, &mut tokenizer.inner, settings, &roles, class)?;
        tokenizer.appended = appended;
        tokenizer.notes.extend(replaced.into_iter().chain(other_ids));
        tokenizer.notes.extend_from_slice(settings.notes());
        let id = |token| Some(tokenizer.role(token)?.0);
        (tokenizer.bos, tokenizer.eos) = (id(&roles[settings::BOS]), id(&roles[settings::EOS]));
        tokenizer.take_roles(settings, &roles)?;
        tokenizer.adds_bos = tokenizer.adds(true)?;
        for (field, starts) in [("add_bos_token", true), ("add_eos_token", false)] {
            let adds = tokenizer.adds(starts)?;
            if settings.get(field).and_then(Value::as_bool).is_some_and(|said| said != adds) {
                let does = if adds { "adds one" } else { "adds none" };
                tokenizer.notes.push(format!(
                    "{} says {field} = {}, but the post-processor of {} {does}, which counts, as \
                     in transformers 5",
                    files::SETTINGS,
                    !adds,
                    files::TOKENIZER
                ));
            }
        }
        tokenizer.templates = Templates::read(files, settings, settings::by_name(&roles));
        Ok(tokenizer)
    }

    /// Builds a tokenizer from the files in a folder, as [`Self::from_files`] does.
    ///
    /// # Errors
    /// [`TokenizerError`], also if the folder has no vocabulary.
    pub fn from_folder(dir: &Path) -> Result<Self, TokenizerError> {
        let contents = files::read_folder(dir)?;
        let config = Files::new(dir, &contents)?.object("config.json")?.unwrap_or_default();
        let model_type = crate::checkpoint::model_type(&config);
        Self::from_files(dir, &contents, model_type)?.ok_or_else(|| {
            let expected = "tokenizer.json, tokenizer.model, vocab.json or vocab.txt";
            files::malformed(dir, "the folder".into(), "no vocabulary".into(), expected)
        })
    }

    /// Parses a `tokenizer.json`. `path` appears in messages; `config` names the special tokens, as
    /// `tokenizer_config.json` does.
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
        library_limits::check(path, bytes)?;
        let mut inner =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| invalid(e.to_string()))?;
        inner.with_truncation(None).map_err(|e| invalid(e.to_string()))?;
        inner.with_padding(None);
        let mut tokenizer = Self {
            inner,
            path: path.into(),
            bos: None,
            eos: None,
            mask: None,
            adds_bos: false,
            appended: BTreeSet::new(),
            templates: Templates::default(),
            notes: Vec::new(),
            cuts_left: false,
            special: BTreeSet::new(),
        };
        if let Some(config) = config {
            tokenizer.bos = tokenizer.special(config, "bos_token")?;
            tokenizer.eos = tokenizer.special(config, "eos_token")?;
            let mask = tokenizer.special(config, "mask_token")?;
            tokenizer.mask = mask.and_then(|id| Some((id, tokenizer.inner.id_to_token(id)?)));
        }
        tokenizer.adds_bos = tokenizer.adds(true)?;
        Ok(tokenizer)
    }

    /// Fills in special token ids of `config.json` that are missing in the tokenizer's files, and
    /// checks that its vocabulary fits in the model's, of `vocab` tokens. Added tokens may be
    /// beyond it: the model was not trained on text with them.
    ///
    /// # Errors
    /// [`TokenizerError::Vocabulary`].
    pub fn for_model(
        mut self,
        vocab: usize,
        bos: Option<u32>,
        eos: Option<u32>,
    ) -> Result<Self, TokenizerError> {
        let added = self.inner.get_added_tokens_decoder();
        let (id, token) = self.largest(|id| !added.contains_key(&id));
        if id as usize >= vocab {
            return Err(TokenizerError::Vocabulary { path: self.path, token, id, vocab });
        }
        let beyond = |id: &u32| *id as usize >= vocab && !self.appended.contains(id);
        if let Some(id) = added.keys().copied().filter(beyond).min() {
            self.notes.push(format!(
                "{}: the added token {:?} has id {id}, the model knows ids below {vocab}: texts \
                 with it cannot be computed",
                self.path.display(),
                added[&id].content
            ));
        }
        // A special token is dropped if the model has no row for it.
        for end in [&mut self.bos, &mut self.eos] {
            *end = end.filter(|&id| (id as usize) < vocab);
        }
        if self.bos.is_none() {
            self.bos = bos;
            self.adds_bos = self.adds(true)?;
        }
        self.eos = self.eos.or(eos);
        Ok(self)
    }

    /// Notes on ignored parts of the files, for a report.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Ids of a text; with `special` also the special tokens of the post-processor.
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

    /// Ids of a text with the special tokens of the post-processor.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_with_special(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text, true)
    }

    /// Ids of a text with the special tokens of the post-processor, at most `limit`, and the number
    /// of truncated tokens: at the end of the text, or at its start according to the settings.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_cut(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<(Vec<u32>, usize), TokenizerError> {
        let failed = |e: tokenizers::Error| TokenizerError::Encode {
            path: self.path.clone(),
            chars: text.chars().count(),
            reason: e.to_string(),
        };
        let mut encoding = self.inner.encode_fast(text, false).map_err(failed)?;
        let around = self.inner.get_post_processor().map_or(0, |around| around.added_tokens(false));
        let kept = limit.saturating_sub(around);
        let cut = encoding.len().saturating_sub(kept);
        if cut > 0 {
            let side =
                if self.cuts_left { TruncationDirection::Left } else { TruncationDirection::Right };
            encoding.truncate(kept, 0, side);
        }
        let encoding = self.inner.post_process(encoding, None, true).map_err(failed)?;
        Ok((encoding.get_ids().to_vec(), cut))
    }

    /// Whether a token has a role, such as that of the end of a text.
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    /// Ids of several texts, each as in [`Self::encode`], in parallel.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`] of the first text that cannot be encoded.
    pub fn encode_all<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        special: bool,
    ) -> Result<Vec<Vec<u32>>, TokenizerError> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        parallel::map(texts, |_, text| self.encode(text, special)).into_iter().collect()
    }

    /// Ids and token types of a pair of texts as one input, with special tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`].
    pub fn encode_pair(&self, a: &str, b: &str) -> Result<Encoded, TokenizerError> {
        let encoding =
            self.inner.encode_fast((a, b), true).map_err(|e| TokenizerError::Encode {
                path: self.path.clone(),
                chars: a.chars().count() + b.chars().count(),
                reason: e.to_string(),
            })?;
        Ok(Encoded { ids: encoding.get_ids().to_vec(), type_ids: encoding.get_type_ids().to_vec() })
    }

    /// Ids of a document: the beginning-of-sequence token by policy, unless the text begins with
    /// it, then the text. An end-of-sequence token is never added.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`], [`TokenizerError::NoBos`].
    pub fn encode_document(&self, text: &str, bos: Bos) -> Result<Vec<u32>, TokenizerError> {
        Ok(beginning(self.first(bos)?, self.encode(text, false)?))
    }

    /// The token before a document under a policy.
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

    /// The text of ids; with `skip_special` without special, beginning- and end-of-sequence tokens.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an unknown id.
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

    /// Size of the vocabulary: the largest id plus one.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.largest(|_| true).0 as usize + 1
    }

    /// The beginning-of-sequence token.
    #[must_use]
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token.
    #[must_use]
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The whole pipeline as a `tokenizer.json`, regardless of its source files, without added
    /// tokens for which a model of `vocab` tokens has no row.
    #[cfg(feature = "gguf")]
    pub(crate) fn to_json(&self, vocab: usize) -> Result<Value, TokenizerError> {
        let invalid = |reason| TokenizerError::Invalid { path: self.path.clone(), reason };
        let text = self.inner.to_string(false).map_err(|e| invalid(e.to_string()))?;
        let mut json: Value = serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?;
        if let Some(added) = json["added_tokens"].as_array_mut() {
            let lacking = |id: u32| id as usize >= vocab;
            let id = |token: &Value| token["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            added.retain(|token| !id(token).is_some_and(lacking));
        }
        Ok(json)
    }

    /// The token with an id.
    #[cfg(feature = "gguf")]
    pub(crate) fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The mask token and its text.
    #[must_use]
    pub fn mask(&self) -> Option<(u32, &str)> {
        self.mask.as_ref().map(|(id, text)| (*id, text.as_str()))
    }

    /// Whether [`Self::bos`] is added before documents under [`Bos::Auto`].
    #[must_use]
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Whether the post-processor ends a text with [`Self::eos`].
    #[cfg(feature = "gguf")]
    pub(crate) fn adds_eos(&self) -> Result<bool, TokenizerError> {
        self.adds(false)
    }

    /// The largest relevant id, and its token.
    fn largest(&self, counts: impl Fn(u32) -> bool) -> (u32, String) {
        let vocab = self.inner.get_vocab(true).into_iter();
        vocab.map(|(token, id)| (id, token)).filter(|(id, _)| counts(*id)).max().unwrap_or_default()
    }

    /// Replaces the rules of a `tokenizer.json` with SentencePiece pieces by those of Llama or
    /// Gemma, as transformers 5 does for these classes: older files differ at the start of a text
    /// and after special tokens.
    fn take_class_rules(
        &mut self,
        class: Class,
        settings: &TokenizerSettings,
        unknown: Option<&AddedToken>,
    ) -> Result<(), TokenizerError> {
        let invalid = |reason| TokenizerError::Invalid { path: self.path.clone(), reason };
        let json = |e: serde_json::Error| invalid(e.to_string());
        let ModelWrapper::BPE(model) = self.inner.get_model() else { return Ok(()) };
        let mut model = model.clone();
        (model.unk_token, model.fuse_unk, model.byte_fallback) = (None, true, true);
        model.ignore_merges = false;
        let (normalizer, (pre_tokenizer, decoder)) = if class == Class::Prefixed {
            (None, sentencepiece::prefixed(settings)?)
        } else {
            model.unk_token = unknown.map(|token| token.content.clone());
            let (spaces, cuts) = sentencepiece::unprefixed().map_err(invalid)?;
            (Some(spaces), cuts)
        };
        let pre_tokenizer: PreTokenizerWrapper =
            serde_json::from_value(pre_tokenizer).map_err(json)?;
        let decoder: DecoderWrapper = serde_json::from_value(decoder).map_err(json)?;
        self.inner.with_model(model);
        self.inner.with_pre_tokenizer(Some(pre_tokenizer));
        self.inner.with_decoder(Some(decoder));
        self.inner.with_normalizer(normalizer).map_err(|e| TokenizerError::Invalid {
            path: self.path.clone(),
            reason: e.to_string(),
        })?;
        Ok(())
    }

    /// Whether the vocabulary is byte-level, as GPT-2's.
    fn is_of_bytes(&self) -> Result<bool, TokenizerError> {
        let cuts = serde_json::to_string(&self.inner.get_pre_tokenizer()).map_err(|e| {
            TokenizerError::Invalid { path: self.path.clone(), reason: e.to_string() }
        })?;
        Ok(cuts.contains("\"ByteLevel\""))
    }

    /// Determines by running the post-processor whether it adds the beginning-of-sequence token,
    /// or the end-of-sequence token.
    fn adds(&self, starts: bool) -> Result<bool, TokenizerError> {
        let (plain, full) = (self.encode("a", false)?, self.encode("a", true)?);
        let (token, end) = if starts { (self.bos, full.first()) } else { (self.eos, full.last()) };
        Ok(full.len() > plain.len() && token.is_some() && end == token.as_ref())
    }

    /// Reads the tokens of roles, and the side on which long texts are truncated.
    fn take_roles(
        &mut self,
        settings: &TokenizerSettings,
        roles: &[Option<AddedToken>; 7],
    ) -> Result<(), TokenizerError> {
        self.mask = self.role(&roles[settings::MASK]);
        let extra = settings.extra()?;
        let named = roles.iter().flatten().chain(&extra);
        self.special = named.filter_map(|token| self.inner.token_to_id(&token.content)).collect();
        self.cuts_left = settings.get("truncation_side").and_then(Value::as_str) == Some("left");
        Ok(())
    }

    /// Id and text of the token of a role.
    fn role(&self, token: &Option<AddedToken>) -> Option<(u32, String)> {
        let token = token.as_ref()?;
        Some((self.inner.token_to_id(&token.content)?, token.content.clone()))
    }

    /// Id of a token in `tokenizer_config.json`, given as a string or an object.
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

/// A text with the beginning-of-sequence token before it, unless the text begins with it already.
#[must_use]
pub fn beginning(bos: Option<u32>, mut text: Vec<u32>) -> Vec<u32> {
    if let Some(bos) = bos.filter(|bos| text.first() != Some(bos)) {
        text.insert(0, bos);
    }
    text
}

/// The raw vocabulary of a folder and the parts built from it.
fn vocabulary(
    files: &Files<'_>,
    settings: &TokenizerSettings,
    model_type: Option<&str>,
) -> Result<Option<(PathBuf, assemble::Parts)>, TokenizerError> {
    for name in files::SENTENCEPIECE {
        if let Some(bytes) = files.get(name) {
            let path = files.path(name);
            let class = class_of(settings, model_type, &path)?;
            let parts = sentencepiece::parts(&path, bytes, class, settings)?;
            return Ok(Some((path, parts)));
        }
    }
    for (vocab, merges) in files::BYTE_LEVEL {
        if let (Some(vocab_bytes), Some(merges_bytes)) = (files.get(vocab), files.get(merges)) {
            let (path, merges) = (files.path(vocab), files.path(merges));
            let known = [Class::Bytes, Class::Roberta, Class::BytesOfWords];
            let class = class_among(&known, settings, model_type, &path)?;
            let vocab = byte_level::ReadFile { path: &path, bytes: vocab_bytes };
            let merges = byte_level::ReadFile { path: &merges, bytes: merges_bytes };
            let parts = byte_level::parts(vocab, merges, class, settings)?;
            return Ok(Some((path, parts)));
        }
    }
    if let Some(bytes) = files.get(files::WORD_PIECE) {
        let path = files.path(files::WORD_PIECE);
        let class = class_among(&[Class::Bert, Class::Mpnet], settings, model_type, &path)?;
        let parts = word_piece::parts(&path, bytes, class, settings)?;
        return Ok(Some((path, parts)));
    }
    Ok(None)
}

/// The class of a tokenizer with this vocabulary; `None` if neither settings nor model type name
/// one.
fn class_of(
    settings: &TokenizerSettings,
    model_type: Option<&str>,
    path: &Path,
) -> Result<Option<Class>, TokenizerError> {
    let unknown =
        |class: &str| TokenizerError::Unsupported { path: path.into(), class: class.to_owned() };
    Class::of(settings.class()?, model_type).map_err(unknown)
}

/// The class named by the settings if it reads such a file, or the first one if they name none.
fn class_among(
    known: &[Class],
    settings: &TokenizerSettings,
    model_type: Option<&str>,
    path: &Path,
) -> Result<Class, TokenizerError> {
    match class_of(settings, model_type, path)? {
        None => Ok(known[0]),
        Some(class) if known.contains(&class) => Ok(class),
        Some(class) => {
            Err(TokenizerError::Unsupported { path: path.into(), class: format!("{class:?}") })
        }
    }
}

#[cfg(test)]
mod tests;
