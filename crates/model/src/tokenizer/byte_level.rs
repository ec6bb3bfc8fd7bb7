//! `vocab.json` and `merges.txt`: byte-level BPE, as of GPT-2, RoBERTa and Qwen2.

use super::TokenizerError;
use super::assemble::{Ends, Parts, component};
use super::files::{SETTINGS, malformed, object, shown, text};
use super::settings::TokenizerSettings;
use crate::families::tokenizers::Class;
use serde_json::{Value, json};
use std::path::Path;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{NFC, NormalizerWrapper};
use tokenizers::{DecoderWrapper, PreTokenizerWrapper, Tokenizer as Library};

/// Pre-tokenizer pattern of the Qwen models.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// One of the two files.
pub(super) struct ReadFile<'a> {
    /// Its path, for errors.
    pub(super) path: &'a Path,
    pub(super) bytes: &'a [u8],
}

/// Reads the two files.
pub(super) fn parts(
    vocab: ReadFile<'_>,
    merges: ReadFile<'_>,
    class: Class,
    settings: &TokenizerSettings,
) -> Result<Parts, TokenizerError> {
    let known = read_vocab(vocab.path, vocab.bytes)?;
    let merges = read_merges(merges.path, text(merges.path, merges.bytes)?, &known)?;
    let model = BPE::builder()
        .vocab_and_merges(known, merges)
        .continuing_subword_prefix(String::new())
        .end_of_word_suffix(String::new())
        .fuse_unk(false)
        .build()
        .map_err(|e| TokenizerError::Invalid { path: vocab.path.into(), reason: e.to_string() })?;
    Ok(Parts {
        model: model.into(),
        normalizer: normalizer(class),
        pre_tokenizer: cuts(class, settings)?,
        decoder: decoder(),
        ends: if class == Class::Roberta { Ends::Roberta } else { Ends::Flags },
        defaults: class.defaults().map(|token| token.map(str::to_owned)),
        added: Vec::new(),
    })
}

/// The pre-tokenizer of a class.
fn cuts(class: Class, settings: &TokenizerSettings) -> Result<Value, TokenizerError> {
    let prefix = settings.flag("add_prefix_space")?.unwrap_or(false);
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true,
        "use_regex": class != Class::BytesOfWords,
    });
    if class != Class::BytesOfWords {
        return Ok(bytes);
    }
    let words = json!({
        "type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": false,
    });
    Ok(json!({"type": "Sequence", "pretokenizers": [words, bytes]}))
}

fn normalizer(class: Class) -> Option<NormalizerWrapper> {
    matches!(class, Class::BytesOfWords | Class::NeoX).then_some(NormalizerWrapper::NFC(NFC))
}

fn decoder() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})
}

/// Replaces the rules of a `tokenizer.json` by those that transformers 5 builds for classes of
/// byte-level BPE, which are not those of the file: whether a space precedes a text depends on
/// the settings alone. A vocabulary of another kind is left alone. Returns a note if the rules of
/// the file were others.
pub(super) fn take_rules(
    path: &Path,
    inner: &mut Library,
    class: Class,
    settings: &TokenizerSettings,
) -> Result<Option<String>, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { path: path.into(), reason };
    let ModelWrapper::BPE(model) = inner.get_model() else { return Ok(None) };
    let mut model = model.clone();
    let before = json!([inner.get_normalizer(), words_of(&json!(inner.get_pre_tokenizer()))]);
    (model.unk_token, model.fuse_unk, model.byte_fallback) = (None, false, false);
    (model.ignore_merges, model.dropout) = (false, None);
    let cuts = cuts(class, settings)?;
    let after = json!([normalizer(class), words_of(&cuts)]);
    inner.with_model(model);
    inner.with_normalizer(normalizer(class)).map_err(|e| invalid(e.to_string()))?;
    inner.with_pre_tokenizer(component::<PreTokenizerWrapper>(path, cuts)?);
    inner.with_decoder(component::<DecoderWrapper>(path, decoder())?);
    let prefix = settings.flag("add_prefix_space")?.unwrap_or(false);
    let note = format!(
        "the rules of tokenizer.json by which a text is cut into words do not count: transformers \
         5 builds those of tokenizers of this class from {SETTINGS} (add_prefix_space {prefix})"
    );
    Ok((before != after).then_some(note))
}

/// A pre-tokenizer without what decides about offsets alone.
fn words_of(cuts: &Value) -> Value {
    match cuts {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "trim_offsets");
            Value::Object(kept.map(|(name, value)| (name.clone(), words_of(value))).collect())
        }
        Value::Array(all) => all.iter().map(words_of).collect(),
        other => other.clone(),
    }
}

fn read_vocab(path: &Path, bytes: &[u8]) -> Result<Vocab, TokenizerError> {
    let mut vocab = Vocab::default();
    for (token, id) in object(path, bytes)? {
        let Some(number) = id.as_u64().and_then(|id| u32::try_from(id).ok()) else {
            return Err(malformed(path, format!("token {token:?}"), shown(&id), "an id"));
        };
        vocab.insert(token, number);
    }
    // Ids index embedding rows, so a gap of a million ids is an error.
    let largest = vocab.values().max().copied().unwrap_or_default() as usize;
    if vocab.is_empty() || largest > 16 * vocab.len() + 4096 {
        let found = format!("{} tokens, the largest id {largest}", vocab.len());
        return Err(malformed(path, "the file".into(), found, "ids that follow each other"));
    }
    Ok(vocab)
}

/// Lines of two tokens; a first line with a version is not a merge.
fn read_merges(path: &Path, text: &str, vocab: &Vocab) -> Result<Merges, TokenizerError> {
    let mut merges = Merges::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("#version") {
            continue;
        }
        let place = || format!("line {}", index + 1);
        let mut words = line.split(' ');
        let (Some(left), Some(right), None) = (words.next(), words.next(), words.next()) else {
            let found = shown(&Value::String(line.into()));
            return Err(malformed(path, place(), found, "two tokens with a space between"));
        };
        check_merge(vocab, left, right, 0)
            .map_err(|token| malformed(path, place(), token, "tokens of the vocabulary"))?;
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// The first part or result of a merge that is not a token, if any. The right part is stripped of
/// `prefix` bytes. The library panics on such merges.
pub(super) fn check_merge(
    vocab: &Vocab,
    left: &str,
    right: &str,
    prefix: usize,
) -> Result<(), String> {
    let unknown = |token: &str| format!("the token {token:?}, which is not in the vocabulary");
    for part in [left, right] {
        if !vocab.contains_key(part) {
            return Err(unknown(part));
        }
    }
    let joined = match right.get(prefix..) {
        Some(rest) => format!("{left}{rest}"),
        None => return Err(format!("the token {right:?}, which is shorter than the prefix")),
    };
    if vocab.contains_key(&joined) { Ok(()) } else { Err(unknown(&joined)) }
}
