//! SentencePiece models as pipelines of the tokenizers library, by the rules of transformers 5.
//!
//! If neither the settings nor the model type name a class, the model's own normalizer decides
//! about the space before a text. transformers ignores it in that case and adds no space, unlike in
//! training.

pub(super) mod charsmap;
mod merges;
mod model;
mod protobuf;
#[cfg(test)]
mod tests;

pub(super) use model::LONGEST_PIECE;

use super::TokenizerError;
use super::assemble::{Ends, Parts};
use super::files::malformed;
use super::settings::TokenizerSettings;
use crate::families::tokenizers::Class;
use model::{Algorithm, Kind, Proto};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{
    Lowercase, NFKD, NormalizerWrapper, Precompiled, Replace, Sequence, StripAccents,
};
use tokenizers::{AddedToken, normalizers};

/// The character that stands for a space in pieces.
const SPACE: &str = "\u{2581}";
/// Sentinel tokens of T5, after the pieces, the last one first.
const SENTINELS: u32 = 100;
/// Largest number of sentinel tokens.
const MAX_SENTINELS: u32 = 1 << 16;

/// Parses a model into its parts.
pub(super) fn parts(
    path: &Path,
    bytes: &[u8],
    class: Option<Class>,
    settings: &TokenizerSettings,
) -> Result<Parts, TokenizerError> {
    let proto = Proto::parse(bytes).map_err(|fault| {
        let expected = format!("{} of a sentencepiece model", fault.expected);
        malformed(path, format!("byte {}", fault.at), fault.found, expected)
    })?;
    check(path, &proto, class)?;
    let mut parts = match proto.algorithm {
        Algorithm::Bpe => bpe(path, &proto, class, settings)?,
        _ => unigram(path, &proto, class, settings)?,
    };
    let special = |piece: &model::Piece| piece.kind == Kind::Control;
    let kept = |piece: &&model::Piece| matches!(piece.kind, Kind::Control | Kind::UserDefined);
    let added = proto.pieces.iter().filter(kept);
    parts.added.splice(
        0..0,
        added.map(|p| AddedToken::from(p.text.as_str(), special(p)).normalized(false)),
    );
    Ok(parts)
}

/// Checks the assumptions of the library.
fn check(path: &Path, proto: &Proto, class: Option<Class>) -> Result<(), TokenizerError> {
    let wrong =
        |place: String, found: String, expected: &str| Err(malformed(path, place, found, expected));
    let fits = match proto.algorithm {
        Algorithm::Bpe => matches!(class, None | Some(Class::Prefixed | Class::Plain)),
        Algorithm::Unigram => {
            matches!(class, None | Some(Class::T5 | Class::XlmRoberta | Class::Albert))
        }
        Algorithm::Word | Algorithm::Char => false,
    };
    if !fits {
        let found = format!("{:?} for a tokenizer of class {class:?}", proto.algorithm);
        return wrong(
            "model_type".into(),
            found,
            "Bpe for Prefixed and Plain, Unigram for T5, XlmRoberta and Albert; \
             save the tokenizer with transformers, which writes a tokenizer.json",
        );
    }
    if !proto.normalizer.escape_whitespaces || proto.whitespace_as_suffix {
        let found = "spaces that are not marked before words".into();
        return wrong("the settings".into(), found, "spaces as U+2581 before words");
    }
    let mut ids: HashMap<&str, usize> = HashMap::new();
    for (id, piece) in proto.pieces.iter().enumerate() {
        if piece.text.is_empty() || piece.text.len() > LONGEST_PIECE {
            let found = format!("{} bytes", piece.text.len());
            return Err(malformed(
                path,
                format!("piece {id}"),
                found,
                format!("1 to {LONGEST_PIECE}"),
            ));
        }
        if let Some(other) = ids.insert(&piece.text, id) {
            let found = format!("{:?}, as piece {other}", piece.text);
            return wrong(format!("piece {id}"), found, "pieces that differ");
        }
    }
    let unknown = usize::try_from(proto.unk_id).ok().and_then(|id| proto.pieces.get(id));
    if unknown.is_none_or(|piece| piece.kind != Kind::Unknown) {
        let found = format!("{} among {} pieces", proto.unk_id, proto.pieces.len());
        return wrong("unk_id".into(), found, "the id of the piece for the unknown");
    }
    if !proto.normalizer.charsmap.is_empty() {
        charsmap::check(&proto.normalizer.charsmap).map_err(|found| {
            malformed(path, "precompiled_charsmap".into(), found, "a table of replacements")
        })?;
    }
    Ok(())
}

/// Llama, Gemma and models without a class.
fn bpe(
    path: &Path,
    proto: &Proto,
    class: Option<Class>,
    settings: &TokenizerSettings,
) -> Result<Parts, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { path: path.into(), reason };
    let scored: Vec<(&str, f32)> =
        proto.pieces.iter().map(|piece| (piece.text.as_str(), piece.score)).collect();
    let merges = merges::merges(&scored)
        .map_err(|found| malformed(path, "the pieces".into(), found, "pieces of a few letters"))?;
    let vocab: Vocab =
        proto.pieces.iter().zip(0_u32..).map(|(piece, id)| (piece.text.clone(), id)).collect();
    let with_prefix =
        class == Some(Class::Prefixed) || (class.is_none() && proto.normalizer.add_dummy_prefix);
    let mut builder = BPE::builder().vocab_and_merges(vocab, merges).fuse_unk(true);
    // The named classes always fall back to bytes; Llama has no unknown token.
    builder = builder.byte_fallback(class.is_some() || proto.byte_fallback);
    if class != Some(Class::Prefixed) {
        builder = builder.unk_token(proto.unk_piece.clone());
    }
    let model = builder.build().map_err(|e| invalid(e.to_string()))?;
    let (normalizer, pre_tokenizer, decoder) = if with_prefix {
        let (pre_tokenizer, decoder) = prefixed(settings)?;
        (with_charsmap(proto, class, None).map_err(invalid)?, pre_tokenizer, decoder)
    } else {
        let (spaces, (split, decoder)) = unprefixed().map_err(invalid)?;
        let split = if class.is_some() { split } else { Value::Null };
        let normalizer = with_charsmap(proto, class, Some(spaces)).map_err(invalid)?;
        (normalizer, split, decoder)
    };
    Ok(Parts {
        model: model.into(),
        normalizer,
        pre_tokenizer,
        decoder,
        ends: Ends::Flags,
        defaults: defaults(proto, class),
        added: Vec::new(),
    })
}

/// The charsmap, which is used only for models without a class, and its successors.
fn with_charsmap(
    proto: &Proto,
    class: Option<Class>,
    then: Option<NormalizerWrapper>,
) -> Result<Option<NormalizerWrapper>, String> {
    let mut steps = Vec::new();
    if class.is_none() && !proto.normalizer.charsmap.is_empty() {
        let map = Precompiled::from(&proto.normalizer.charsmap).map_err(|e| e.to_string())?;
        steps.push(NormalizerWrapper::Precompiled(map));
    }
    steps.extend(then);
    Ok(sequence(steps))
}

fn sequence(mut steps: Vec<NormalizerWrapper>) -> Option<NormalizerWrapper> {
    match steps.len() {
        0 | 1 => steps.pop(),
        _ => Some(NormalizerWrapper::Sequence(Sequence::new(steps))),
    }
}

/// Normalizer, pre-tokenizer and decoder of Gemma.
pub(super) fn unprefixed() -> Result<(NormalizerWrapper, (Value, Value)), String> {
    let spaces = Replace::new(" ", SPACE).map_err(|e| e.to_string())?;
    let split = json!({
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
        "invert": false,
    });
    Ok((spaces.into(), (split, spaces_and_bytes(false))))
}

/// Pre-tokenizer and decoder of Llama. With `legacy` a space is added before every part of a text
/// between special tokens, otherwise only before the text.
pub(super) fn prefixed(settings: &TokenizerSettings) -> Result<(Value, Value), TokenizerError> {
    let prefix = settings.flag("add_prefix_space")?.unwrap_or(true);
    let legacy = settings.flag("legacy")?.unwrap_or(false);
    let scheme = match (prefix, legacy) {
        (false, _) => "never",
        (true, true) => "always",
        (true, false) => "first",
    };
    let pre_tokenizer = json!({
        "type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": false,
    });
    Ok((pre_tokenizer, spaces_and_bytes(prefix)))
}

fn spaces_and_bytes(strips: bool) -> Value {
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if strips {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": decoders})
}

/// T5, XLM-RoBERTa, ALBERT and models without a class.
fn unigram(
    path: &Path,
    proto: &Proto,
    class: Option<Class>,
    settings: &TokenizerSettings,
) -> Result<Parts, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { path: path.into(), reason };
    let mut pieces: Vec<(String, f64)> =
        proto.pieces.iter().map(|piece| (piece.text.clone(), f64::from(piece.score))).collect();
    let mut added = Vec::new();
    let mut unk = usize::try_from(proto.unk_id).unwrap_or_default();
    let mut prefix = true;
    match class {
        Some(Class::T5) => {
            let count = settings.count("extra_ids", MAX_SENTINELS)?.unwrap_or(SENTINELS);
            let names = (0..count).rev().map(|index| format!("<extra_id_{index}>"));
            pieces.extend(names.clone().map(|name| (name, 0.0)));
            added.extend(names.map(|name| AddedToken::from(name, true)));
            unk = fixed_unknown(path, proto, 2)?;
        }
        Some(Class::XlmRoberta) => {
            // The ids of fairseq: its own four first, without the three of SentencePiece.
            let role = |role: usize| Class::XlmRoberta.defaults()[role].unwrap_or_default();
            let first = [role(0), role(4), role(1), role(2)].map(|token| (token.to_owned(), 0.0));
            pieces.splice(0..pieces.len().min(3), first);
            pieces.push((role(6).to_owned(), 0.0));
            unk = 3;
            prefix = settings.flag("add_prefix_space")?.unwrap_or(true);
        }
        Some(Class::Albert) => {
            unk = fixed_unknown(path, proto, 1)?;
            prefix = settings.flag("add_prefix_space")?.unwrap_or(true);
        }
        _ => prefix = proto.normalizer.add_dummy_prefix,
    }
    let fallback = class.is_none() && proto.byte_fallback;
    let model = Unigram::from(pieces, Some(unk), fallback).map_err(|e| invalid(e.to_string()))?;
    let scheme = if prefix { "always" } else { "never" };
    let spaces =
        json!({"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": true});
    let words = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, spaces]});
    let collapses = class.is_some() || proto.normalizer.remove_extra_whitespaces;
    let ends = match class {
        Some(Class::T5) => Ends::T5,
        Some(Class::XlmRoberta) => Ends::XlmRoberta,
        Some(Class::Albert) => Ends::Albert,
        _ => Ends::Flags,
    };
    Ok(Parts {
        model: ModelWrapper::Unigram(model),
        normalizer: unigram_normalizer(proto, class, settings, &invalid)?,
        pre_tokenizer: if collapses { words } else { spaces.clone() },
        decoder: if fallback { spaces_and_bytes(prefix) } else { spaces },
        ends,
        defaults: defaults(proto, class),
        added,
    })
}

/// Id of the unknown piece, which the class fixes.
fn fixed_unknown(path: &Path, proto: &Proto, id: usize) -> Result<usize, TokenizerError> {
    if proto.unk_id == id as i64 {
        return Ok(id);
    }
    let found = proto.unk_id.to_string();
    Err(malformed(path, "unk_id".into(), found, format!("{id}, as every model of its class")))
}

fn unigram_normalizer(
    proto: &Proto,
    class: Option<Class>,
    settings: &TokenizerSettings,
    invalid: &dyn Fn(String) -> TokenizerError,
) -> Result<Option<NormalizerWrapper>, TokenizerError> {
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if class == Some(Class::Albert) {
        for quotes in ["``", "''"] {
            steps.push(Replace::new(quotes, "\"").map_err(|e| invalid(e.to_string()))?.into());
        }
        if !settings.flag("keep_accents")?.unwrap_or(false) {
            steps.push(NormalizerWrapper::NFKD(NFKD));
            steps.push(NormalizerWrapper::StripAccents(StripAccents));
        }
        if settings.flag("do_lower_case")?.unwrap_or(true) {
            steps.push(NormalizerWrapper::Lowercase(Lowercase));
        }
    }
    if !proto.normalizer.charsmap.is_empty() {
        let map =
            Precompiled::from(&proto.normalizer.charsmap).map_err(|e| invalid(e.to_string()))?;
        steps.push(normalizers::NormalizerWrapper::Precompiled(map));
    }
    Ok(sequence(steps))
}

/// Tokens of the roles: those of the class, or else those named by the model.
fn defaults(proto: &Proto, class: Option<Class>) -> [Option<String>; 7] {
    if let Some(class) = class {
        return class.defaults().map(|token| token.map(str::to_owned));
    }
    let named = |id: i64, piece: &String| (id >= 0).then(|| piece.clone());
    [
        named(proto.bos_id, &proto.bos_piece),
        named(proto.eos_id, &proto.eos_piece),
        named(proto.unk_id, &proto.unk_piece),
        None,
        None,
        None,
        None,
    ]
}
