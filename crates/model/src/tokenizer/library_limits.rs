//! Checks of a `tokenizer.json` for input on which the tokenizers library (0.23) panics.
//!
//! Each check states the failure that it prevents, and a test demonstrates it.

use super::TokenizerError;
use super::assemble::check_added;
use super::byte_level::check_merge;
use super::files::{malformed, shown};
use super::growth;
use super::sentencepiece::{LONGEST_PIECE, charsmap};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::path::Path;
use tokenizers::AddedToken;
use tokenizers::models::bpe::Vocab;

/// As in the library: padding may be missing, but stray bits at the end are an error.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Largest token id: more than any vocabulary has.
const LARGEST_ID: u32 = 1 << 24;

/// The checked parts of a file.
#[derive(serde::Deserialize)]
struct Parts {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: Model,
}

#[derive(serde::Deserialize)]
struct Model {
    #[serde(default)]
    vocab: Tokens,
    #[serde(default)]
    merges: Vec<Merge>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
}

/// Ids by token, or the longest piece of a list of pieces and scores.
#[derive(Default)]
struct Tokens {
    ids: Vocab,
    longest: usize,
}

/// A pair of tokens, or a text with both.
struct Merge(String, String);

/// Parses and checks a file. A file that is not JSON or not a tokenizer is left to the library,
/// except for a few errors that are found here first.
pub(super) fn check(path: &Path, bytes: &[u8]) -> Result<(), TokenizerError> {
    // Broken JSON in a decoder panics: `expect("Helper")`.
    let parts: Parts = serde_json::from_slice(bytes)
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })?;
    check_added(path, &parts.added_tokens)?;
    check_model(path, &parts.model)?;
    for (place, component) in [
        ("normalizer", &parts.normalizer),
        ("pre_tokenizer", &parts.pre_tokenizer),
        ("post_processor", &parts.post_processor),
        ("decoder", &parts.decoder),
    ] {
        check_component(path, place, component)?;
        growth::check(path, place, component)?;
    }
    Ok(())
}

fn check_model(path: &Path, model: &Model) -> Result<(), TokenizerError> {
    if model.dropout.is_some_and(|share| share != 0.0) {
        let found = format!("{:?}", model.dropout);
        return Err(malformed(path, "model.dropout".into(), found, "null: ids would be random"));
    }
    // The id after the largest one overflows.
    if let Some((token, id)) = model.vocab.ids.iter().find(|(_, id)| **id > LARGEST_ID) {
        let expected = format!("an id of at most {LARGEST_ID}");
        return Err(malformed(path, format!("model.vocab {token:?}"), id.to_string(), expected));
    }
    // Deep tries overflow the stack when they are dropped.
    if model.vocab.longest > LONGEST_PIECE {
        let found = format!("a piece of {} bytes", model.vocab.longest);
        let expected = format!("at most {LONGEST_PIECE}");
        return Err(malformed(path, "model.vocab".into(), found, expected));
    }
    // A merge whose result is longer than any token panics: slice index out of range.
    let prefix = model.continuing_subword_prefix.as_ref().map_or(0, String::len);
    for (index, Merge(left, right)) in model.merges.iter().enumerate() {
        check_merge(&model.vocab.ids, left, right, prefix).map_err(|token| {
            malformed(path, format!("model.merges[{index}]"), token, "tokens of model.vocab")
        })?;
    }
    Ok(())
}

/// Checks a component and its nested ones; their depth is limited by that of the JSON.
fn check_component(path: &Path, place: &str, component: &Value) -> Result<(), TokenizerError> {
    let wrong = |found: String, expected: &str| {
        Err(malformed(path, place.to_owned(), found, expected.to_owned()))
    };
    match component {
        Value::Array(parts) => {
            for part in parts {
                check_component(path, place, part)?;
            }
        }
        Value::Object(fields) => {
            let number = |name: &str| fields.get(name).and_then(Value::as_u64);
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
            // The library takes any object of this shape for one, with or without a type.
            let table = fields.get("precompiled_charsmap");
            if table.is_some() || kind == "Precompiled" {
                let checked = match table.and_then(Value::as_str).map(|table| BASE64.decode(table))
                {
                    Some(Ok(bytes)) => charsmap::check(&bytes),
                    _ => Err("invalid base64".into()),
                };
                if let Err(found) = checked {
                    return wrong(found, "a table of replacements in precompiled_charsmap");
                }
            }
            // An empty token underflows.
            if place == "decoder" && fields.contains_key("stop") && number("stop") != Some(0) {
                return wrong(
                    shown(&fields["stop"]),
                    "stop = 0: stripping on the right fails on an empty token",
                );
            }
            if kind == "FixedLength" && number("length") == Some(0) {
                return wrong("length 0".into(), "at least 1");
            }
            if fields.contains_key("single")
                && fields.contains_key("special_tokens")
                && let Err(found) = check_template(component)
            {
                return wrong(
                    found,
                    "a template of known special tokens, and of A alone for one text",
                );
            }
            for part in fields.values() {
                check_component(path, place, part)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A template with undefined tokens panics when it is applied.
fn check_template(template: &Value) -> Result<(), String> {
    let special = &template["special_tokens"];
    let pieces = |name: &str| template[name].as_array().cloned().unwrap_or_default();
    let single = pieces("single");
    if single.iter().any(|piece| piece["Sequence"]["id"] == "B") {
        return Err("B in the template of one text".into());
    }
    for piece in single.iter().chain(&pieces("pair")) {
        let Some(id) = piece["SpecialToken"]["id"].as_str() else { continue };
        let token = &special[id];
        let length = |name: &str| token[name].as_array().map(Vec::len);
        if length("ids").is_none() || length("ids") != length("tokens") {
            return Err(format!("the special token {id:?} without as many ids as tokens"));
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Tokens;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("ids by token, or a list of pieces and scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tokens, A::Error> {
                let mut ids = Vocab::default();
                while let Some((token, id)) = map.next_entry::<String, u32>()? {
                    ids.insert(token, id);
                }
                Ok(Tokens { ids, longest: 0 })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tokens, A::Error> {
                let mut longest = 0;
                while let Some((piece, _)) = seq.next_element::<(String, f64)>()? {
                    longest = longest.max(piece.len());
                }
                Ok(Tokens { ids: Vocab::default(), longest })
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                let mut words = text.split(' ');
                match (words.next(), words.next(), words.next()) {
                    (Some(left), Some(right), None) => Ok(Merge(left.into(), right.into())),
                    _ => Err(E::custom(format!("the merge {text:?} is not of two tokens"))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
                let missing = || A::Error::custom("a merge of fewer than two tokens");
                let left = seq.next_element()?.ok_or_else(missing)?;
                let right = seq.next_element()?.ok_or_else(missing)?;
                match seq.next_element::<String>()? {
                    None => Ok(Merge(left, right)),
                    Some(_) => Err(A::Error::custom("a merge of more than two tokens")),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
