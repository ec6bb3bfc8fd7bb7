//! Assembly of a tokenizer from its parts and special tokens, as in transformers 5.

use super::TokenizerError;
use super::files::malformed;
use super::settings::TokenizerSettings;
use crate::families::tokenizers::Class;
use linwright_run::shown;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer as Library};

/// The parts given by a vocabulary and its class.
pub(super) struct Parts {
    pub(super) model: ModelWrapper,
    pub(super) normalizer: Option<NormalizerWrapper>,
    /// In the JSON form of `tokenizer.json`, like the next two.
    pub(super) pre_tokenizer: Value,
    pub(super) decoder: Value,
    pub(super) ends: Ends,
    /// Default tokens of the roles.
    pub(super) defaults: [Option<String>; 7],
    /// Further added tokens, which are matched before pre-tokenization.
    pub(super) added: Vec<AddedToken>,
}

/// Special tokens around one text and around two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// According to `add_bos_token` and `add_eos_token`.
    Flags,
    /// None.
    Nothing,
    /// `cls A sep`, `cls A sep B sep` with type ids.
    Bert,
    /// As [`Self::Bert`], unless one of the flags of [`Self::Flags`] is given.
    Albert,
    /// `cls A sep`, `cls A sep sep B sep`, all of type 0.
    Roberta,
    /// `bos A eos`, `bos A eos eos B eos`, all of type 0.
    XlmRoberta,
    /// `A eos`, `A eos B eos`, all of type 0.
    T5,
}

/// A complete tokenizer of the tokenizers library.
pub(super) struct Assembled {
    pub(super) inner: Library,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    /// Tokens of roles or defaults that are not in the vocabulary.
    pub(super) appended: BTreeSet<u32>,
    /// Tokens by role.
    pub(super) roles: [Option<AddedToken>; 7],
    /// Notes on ignored parts of the files.
    pub(super) notes: Vec<String>,
}

/// Assembles the parts. `path` is the vocabulary file, for messages.
pub(super) fn assemble(
    path: &Path,
    parts: Parts,
    settings: &TokenizerSettings,
) -> Result<Assembled, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { path: path.into(), reason };
    let mut inner = Library::new(parts.model);
    inner.with_normalizer(parts.normalizer).map_err(|e| invalid(e.to_string()))?;
    inner.with_pre_tokenizer(component::<tokenizers::PreTokenizerWrapper>(
        path,
        parts.pre_tokenizer,
    )?);
    inner.with_decoder(component::<tokenizers::DecoderWrapper>(path, parts.decoder)?);

    let roles = settings.roles(&parts.defaults)?;
    let (appended, note) = add_tokens(path, &mut inner, settings, &roles, parts.added)?;
    let id = |role: usize| roles[role].as_ref().and_then(|token| inner.token_to_id(&token.content));
    let (bos, eos) = (id(0), id(1));
    let around = template(path, &inner, settings, &roles, parts.ends)?;
    inner.with_post_processor(component::<tokenizers::PostProcessorWrapper>(path, around)?);
    let notes = settings.notes().iter().cloned().chain(note).collect();
    Ok(Assembled { inner, bos, eos, appended, roles, notes })
}

/// Gives a tokenizer the special tokens of its class around a text, as transformers 5 does: some
/// classes build their own post-processor, others only if the file has none. Returns a note if that
/// of the file is ignored.
pub(super) fn surround(
    path: &Path,
    inner: &mut Library,
    settings: &TokenizerSettings,
    roles: &[Option<AddedToken>; 7],
    class: Option<Class>,
) -> Result<Vec<String>, TokenizerError> {
    let (ends, own) = match class {
        Some(Class::Bert) => (Ends::Bert, true),
        Some(Class::Roberta | Class::Mpnet) => (Ends::Roberta, true),
        Some(Class::NeoX) => (Ends::Nothing, true),
        Some(Class::Albert) => (Ends::Bert, false),
        Some(Class::XlmRoberta) => (Ends::XlmRoberta, false),
        Some(Class::T5) => (Ends::T5, false),
        Some(Class::Prefixed | Class::Plain | Class::Bytes | Class::BytesOfWords) | None => {
            return Ok(Vec::new());
        }
    };
    if inner.get_post_processor().is_some() && !own {
        return Ok(Vec::new());
    }
    let added = |inner: &Library| inner.encode_fast("a", true).map(|all| all.get_ids().to_vec());
    let invalid =
        |e: tokenizers::Error| TokenizerError::Invalid { path: path.into(), reason: e.to_string() };
    let before = inner.get_post_processor().is_some().then(|| added(inner)).transpose();
    let before = before.map_err(invalid)?;
    let around = template(path, inner, settings, roles, ends)?;
    inner.with_post_processor(component::<tokenizers::PostProcessorWrapper>(path, around)?);
    let differs = before.is_some_and(|before| added(inner).is_ok_and(|now| now != before));
    let note = "the special tokens that the post-processor of tokenizer.json puts around a text do \
                not count: transformers 5 builds a post-processor for tokenizers of this class";
    Ok(differs.then(|| note.to_owned()).into_iter().collect())
}

/// Adds tokens to be matched in texts: declared ones by id, then those of the roles, then the rest,
/// as far as they are missing. `path` is the vocabulary file. Returns the ids of new tokens that
/// were not declared, and a note on declared ids that were not used.
pub(super) fn add_tokens(
    path: &Path,
    inner: &mut Library,
    settings: &TokenizerSettings,
    roles: &[Option<AddedToken>; 7],
    further: Vec<AddedToken>,
) -> Result<(BTreeSet<u32>, Option<String>), TokenizerError> {
    let known: Vec<AddedToken> = inner.get_added_tokens_decoder().into_values().collect();
    let named = |content: &str| roles.iter().flatten().any(|role| role.content == content);
    let mut tokens: Vec<AddedToken> = Vec::new();
    for (_, token) in settings.declared() {
        let special = token.special || named(&token.content);
        tokens.push(AddedToken { special, ..token.clone() });
    }
    tokens.retain(|token| !known.contains(token));
    let declared = tokens.len();
    let taken = |tokens: &[AddedToken], content: &str| {
        tokens.iter().chain(&known).any(|token| token.content == content)
    };
    let extra = settings.extra()?;
    for token in roles.iter().flatten().cloned().chain(further).chain(extra) {
        if !taken(&tokens, &token.content) {
            tokens.push(token);
        }
    }
    let unknown: Vec<String> = tokens[declared..]
        .iter()
        .map(|token| token.content.clone())
        .filter(|content| inner.token_to_id(content).is_none())
        .collect();
    check_added(path, &[known, tokens.clone()].concat())?;
    inner
        .add_tokens(tokens)
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })?;
    let note = other_ids(inner, settings)?;
    inner.set_encode_special_tokens(settings.flag("split_special_tokens")?.unwrap_or(false));
    let appended = unknown.iter().filter_map(|content| inner.token_to_id(content)).collect();
    Ok((appended, note))
}

/// A note on declared tokens that did not get their ids: those of the vocabulary take precedence,
/// as in transformers.
fn other_ids(
    inner: &Library,
    settings: &TokenizerSettings,
) -> Result<Option<String>, TokenizerError> {
    let mut others = Vec::new();
    for (id, token) in settings.declared() {
        let Some(found) = inner.token_to_id(&token.content) else {
            let place = format!("added token {:?}", token.content);
            let found = format!("the id {id}");
            return Err(malformed(settings.path(), place, found, "a token with a text"));
        };
        if i128::from(found) != *id {
            others.push((id, &token.content, found));
        }
    }
    let Some((id, token, found)) = others.first() else { return Ok(None) };
    let more = match others.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more such tokens)"),
    };
    Ok(Some(format!(
        "{}: the added token {:?} is declared with the id {id} and has {found}, which counts, as \
         in transformers 5{more}; do the files belong together?",
        settings.path().display(),
        shown(token)
    )))
}

/// An error for tokens on which the library would panic: one that strips all spaces to its right,
/// and one that begins with a space and strips those to its left.
pub(super) fn check_added(path: &Path, tokens: &[AddedToken]) -> Result<(), TokenizerError> {
    let right = tokens.iter().find(|token| token.rstrip);
    let left =
        tokens.iter().find(|token| token.lstrip && token.content.starts_with(char::is_whitespace));
    match (right, left) {
        (Some(right), Some(left)) => Err(malformed(
            path,
            format!("added tokens {:?} and {:?}", right.content, left.content),
            "the former takes the spaces on its right, the latter begins with one and takes those on its left".into(),
            "tokens that do not claim the same spaces",
        )),
        _ => Ok(()),
    }
}

/// A component from its JSON in `tokenizer.json`.
pub(super) fn component<T: DeserializeOwned>(
    path: &Path,
    json: Value,
) -> Result<Option<T>, TokenizerError> {
    serde_json::from_value(json)
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })
}

/// The post-processor.
fn template(
    path: &Path,
    inner: &Library,
    settings: &TokenizerSettings,
    roles: &[Option<AddedToken>; 7],
    ends: Ends,
) -> Result<Value, TokenizerError> {
    let [bos, eos, _, sep, _, cls, _] = roles;
    let flags = match ends {
        Ends::Flags | Ends::Albert => {
            (settings.flag("add_bos_token")?, settings.flag("add_eos_token")?)
        }
        _ => (None, None),
    };
    // A list of pieces: the role and type of a token, or a text and its type.
    let piece = |token: &Option<AddedToken>, role: &str, type_id: u32| match token {
        Some(token) => Ok(json!({"SpecialToken": {"id": token.content, "type_id": type_id}})),
        None => Err(malformed(
            settings.path(),
            role.to_owned(),
            "no token".into(),
            "one: it is put around every text",
        )),
    };
    let a = || Ok(json!({"Sequence": {"id": "A", "type_id": 0}}));
    let b = |type_id: u32| Ok(json!({"Sequence": {"id": "B", "type_id": type_id}}));
    let cls_ = |t| piece(cls, "cls_token", t);
    let sep_ = |t| piece(sep, "sep_token", t);
    let bos_ = |t| piece(bos, "bos_token", t);
    let eos_ = |t| piece(eos, "eos_token", t);
    let collect = |pieces: Vec<Result<Value, TokenizerError>>| {
        pieces.into_iter().collect::<Result<Vec<Value>, _>>()
    };
    let ends = if ends == Ends::Albert && flags != (None, None) { Ends::Flags } else { ends };
    let (single, pair) = match ends {
        Ends::Nothing => (vec![a()?], vec![a()?, b(1)?]),
        Ends::Flags => {
            let starts = flags.0 == Some(true) && bos.is_some();
            let stops = flags.1 == Some(true) && eos.is_some();
            let around = |text: Value, type_id: u32| {
                let start = starts.then(|| bos_(type_id));
                let stop = stops.then(|| eos_(type_id));
                start.into_iter().chain([Ok(text)]).chain(stop).collect::<Result<Vec<_>, _>>()
            };
            let single = around(a()?, 0)?;
            (single.clone(), [single, around(b(1)?, 1)?].concat())
        }
        Ends::Bert | Ends::Albert => (
            collect(vec![cls_(0), a(), sep_(0)])?,
            collect(vec![cls_(0), a(), sep_(0), b(1), sep_(1)])?,
        ),
        Ends::Roberta => (
            collect(vec![cls_(0), a(), sep_(0)])?,
            collect(vec![cls_(0), a(), sep_(0), sep_(0), b(0), sep_(0)])?,
        ),
        Ends::XlmRoberta => (
            collect(vec![bos_(0), a(), eos_(0)])?,
            collect(vec![bos_(0), a(), eos_(0), eos_(0), b(0), eos_(0)])?,
        ),
        Ends::T5 => (collect(vec![a(), eos_(0)])?, collect(vec![a(), eos_(0), b(0), eos_(0)])?),
    };
    let mut special = serde_json::Map::new();
    for token in [bos, eos, sep, cls].into_iter().flatten() {
        let name = &token.content;
        let id = inner.token_to_id(name).ok_or_else(|| TokenizerError::Invalid {
            path: path.into(),
            reason: format!("the special token {name:?} has no id"),
        })?;
        special.insert(name.clone(), json!({"id": name, "ids": [id], "tokens": [name]}));
    }
    Ok(json!({
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special,
    }))
}
