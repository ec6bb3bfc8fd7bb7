//! Tokenizer settings, special tokens by role, added tokens and their ids.
//!
//! `tokenizer_config.json` takes precedence. If it has no `added_tokens_decoder`, it predates that
//! field, and `special_tokens_map.json` and `added_tokens.json` are read too, as in transformers.

use super::TokenizerError;
use super::files::{ADDED, Files, SETTINGS, SPECIAL, malformed, shown};
use serde_json::{Map, Value};
use std::path::PathBuf;
use tokenizers::AddedToken;

/// Roles of special tokens, in the order of transformers.
pub(super) const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// Index in [`ROLES`] of the beginning-of-sequence token.
pub(super) const BOS: usize = 0;

/// Index in [`ROLES`] of the end-of-sequence token.
pub(super) const EOS: usize = 1;

/// Index in [`ROLES`] of the unknown token.
pub(super) const UNKNOWN: usize = 2;

/// Index in [`ROLES`] of the mask token.
pub(super) const MASK: usize = 6;

/// Setting for the token of a role.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Role {
    /// Not set: given by the class.
    Unsaid,
    /// Set to no token.
    None,
    /// Set to this token.
    Token(AddedToken),
}

#[derive(Debug)]
pub(super) struct TokenizerSettings {
    path: PathBuf,
    fields: Map<String, Value>,
    /// The id in a file, which need not be valid.
    declared: Vec<(i128, AddedToken)>,
    /// Notes on ignored parts of the files.
    notes: Vec<String>,
}

impl TokenizerSettings {
    pub(super) fn read(files: &Files<'_>) -> Result<Self, TokenizerError> {
        let mut fields = files.object(SETTINGS)?.unwrap_or_default();
        let path = files.path(SETTINGS);
        let mut declared = Vec::new();
        if let Some(decoder) = fields.get("added_tokens_decoder").filter(|field| !field.is_null()) {
            let wrong = |found| {
                malformed(
                    &path,
                    "added_tokens_decoder".into(),
                    found,
                    "an object of tokens by their ids",
                )
            };
            let Value::Object(decoder) = decoder else { return Err(wrong(shown(decoder))) };
            for (id, value) in decoder {
                let id: i128 = id.trim().parse().map_err(|_| wrong(format!("the id {id:?}")))?;
                let token = added_token(value, false).ok_or_else(|| wrong(shown(value)))?;
                declared.push((id, token));
            }
        } else {
            for (role, value) in files.object(SPECIAL)?.unwrap_or_default() {
                fields.insert(role, value);
            }
        }
        let words = [SETTINGS, SPECIAL, ADDED]
            .into_iter()
            .filter_map(|name| linwright_files::json::words_note(name, files.get(name)?));
        let mut settings = Self { path, fields, declared, notes: words.collect() };
        if settings.fields.get("added_tokens_decoder").is_none_or(Value::is_null) {
            settings.read_added(files)?;
        }
        settings.declared.sort_by_key(|(id, _)| *id);
        Ok(settings)
    }

    /// `added_tokens.json`: tokens and ids, special if a role or the list of extra tokens names
    /// them.
    fn read_added(&mut self, files: &Files<'_>) -> Result<(), TokenizerError> {
        let mut special: Vec<String> = self.extra()?.into_iter().map(|t| t.content).collect();
        for role in ROLES {
            if let Role::Token(token) = self.role(role)? {
                special.push(token.content);
            }
        }
        for (token, id) in files.object(ADDED)?.unwrap_or_default() {
            let id = id.as_i64().map(i128::from).ok_or_else(|| {
                malformed(&files.path(ADDED), format!("token {token:?}"), shown(&id), "an id")
            })?;
            let is_special = special.contains(&token);
            self.declared.push((id, AddedToken::from(token, is_special)));
        }
        Ok(())
    }

    /// The class of the tokenizer, without the suffix "Fast" of older versions.
    pub(super) fn class(&self) -> Result<Option<&str>, TokenizerError> {
        match self.fields.get("tokenizer_class") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(class)) => Ok(Some(class.strip_suffix("Fast").unwrap_or(class))),
            Some(other) => Err(self.wrong("tokenizer_class", other, "the name of a class")),
        }
    }

    pub(super) fn flag(&self, field: &'static str) -> Result<Option<bool>, TokenizerError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(field, other, "true or false")),
        }
    }

    /// An integer of at most `limit`.
    pub(super) fn count(
        &self,
        field: &'static str,
        limit: u32,
    ) -> Result<Option<u32>, TokenizerError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let count = value.as_u64().and_then(|n| u32::try_from(n).ok());
                let count = count.filter(|&n| n <= limit).ok_or_else(|| {
                    malformed(&self.path, field.into(), shown(value), format!("0 to {limit}"))
                })?;
                Ok(Some(count))
            }
        }
    }

    pub(super) fn role(&self, role: &'static str) -> Result<Role, TokenizerError> {
        match self.fields.get(role) {
            None => Ok(Role::Unsaid),
            Some(Value::Null) => Ok(Role::None),
            Some(value) => match added_token(value, true) {
                Some(token) if token.content.is_empty() => Ok(Role::None),
                Some(token) => Ok(Role::Token(token)),
                None => Err(self.wrong(
                    role,
                    value,
                    "a token, as text or as an object with its content",
                )),
            },
        }
    }

    /// The tokens of all roles; `defaults` apply where nothing is set.
    pub(super) fn roles(
        &self,
        defaults: &[Option<String>; 7],
    ) -> Result<[Option<AddedToken>; 7], TokenizerError> {
        let mut roles: [Option<AddedToken>; 7] = Default::default();
        for ((role, slot), default) in ROLES.into_iter().zip(&mut roles).zip(defaults) {
            *slot = match self.role(role)? {
                Role::Token(token) => Some(token),
                Role::None => None,
                Role::Unsaid => default.as_ref().map(|name| AddedToken::from(name.as_str(), true)),
            };
        }
        Ok(roles)
    }

    /// Special tokens without a role.
    pub(super) fn extra(&self) -> Result<Vec<AddedToken>, TokenizerError> {
        let mut tokens = Vec::new();
        for field in ["extra_special_tokens", "additional_special_tokens"] {
            let values: Vec<&Value> = match self.fields.get(field) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(values)) => values.iter().collect(),
                Some(Value::Object(values)) => values.values().collect(),
                Some(other) => return Err(self.wrong(field, other, "a list of tokens")),
            };
            for value in values {
                let token = added_token(value, true);
                tokens.push(token.ok_or_else(|| self.wrong(field, value, "a list of tokens"))?);
            }
            if !tokens.is_empty() {
                break;
            }
        }
        Ok(tokens)
    }

    /// Added tokens with declared ids.
    pub(super) fn declared(&self) -> &[(i128, AddedToken)] {
        &self.declared
    }

    /// Notes on ignored parts of the files, for a report.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The file of the settings.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    fn wrong(&self, field: &'static str, found: &Value, expected: &'static str) -> TokenizerError {
        malformed(&self.path, field.into(), shown(found), expected)
    }
}

/// A token as a string, or as an object with its content and matching options.
fn added_token(value: &Value, special: bool) -> Option<AddedToken> {
    let fields = match value {
        Value::String(content) => return Some(AddedToken::from(content.as_str(), special)),
        Value::Object(fields) => fields,
        _ => return None,
    };
    let flag = |name: &str, default: bool| match fields.get(name) {
        None | Some(Value::Null) => Some(default),
        Some(Value::Bool(flag)) => Some(*flag),
        Some(_) => None,
    };
    let special = special || flag("special", false)?;
    Some(
        AddedToken::from(fields.get("content")?.as_str()?, special)
            .single_word(flag("single_word", false)?)
            .lstrip(flag("lstrip", false)?)
            .rstrip(flag("rstrip", false)?)
            .normalized(flag("normalized", !special)?),
    )
}

/// The strings of special tokens by role, for chat templates.
pub(super) fn by_name(roles: &[Option<AddedToken>; 7]) -> Map<String, Value> {
    let texts = roles.iter().map(|token| token.as_ref().map(|token| token.content.clone()));
    let named = ROLES.into_iter().zip(texts);
    named.filter_map(|(role, text)| Some((role.to_owned(), Value::String(text?)))).collect()
}
