//! Metadata keys of the tokenizer, from a `tokenizer.json`.

use super::refuse;
use super::values::Keys;
use crate::checkpoint::gguf::tokenizer::{
    BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, cut_name,
};
use crate::checkpoint::gguf_fault::NoGguf;
use serde_json::Value;
use std::collections::BTreeMap;

/// The character for a space in pieces.
const SPACE: char = '\u{2581}';

fn wrong(reason: impl Into<String>) -> NoGguf {
    refuse("tokenizer.json", reason)
}

/// The representation of spaces in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spaces {
    /// As U+2581, as in GGUF.
    Marked,
    /// As spaces, as in llama2.c.
    Plain,
}

impl Spaces {
    /// `Marked` if the normalizer or pre-tokenizer replaces spaces by U+2581.
    fn of(tokenizer: &Value) -> Self {
        let marks = |step: &str| tokenizer[step].to_string().contains(SPACE);
        match marks("normalizer") || marks("pre_tokenizer") {
            true => Self::Marked,
            false => Self::Plain,
        }
    }

    /// The piece with spaces as U+2581.
    fn marked(self, piece: String) -> String {
        match self {
            Self::Marked => piece,
            Self::Plain => piece.replace(' ', "\u{2581}"),
        }
    }
}

/// Whether the tokenizer puts a space before a text: by a `Prepend` normalizer, or by a `Metaspace`
/// pre-tokenizer with a prefix.
fn puts_space_before(tokenizer: &Value) -> bool {
    let steps = &tokenizer["pre_tokenizer"];
    let mut steps = steps["pretokenizers"].as_array().into_iter().flatten().chain([steps]);
    let first = |step: &Value| match step["prepend_scheme"].as_str() {
        Some(scheme) => scheme != "never",
        None => step["add_prefix_space"] != false,
    };
    tokenizer["normalizer"].to_string().contains("\"Prepend\"")
        || steps.any(|step| step["type"] == "Metaspace" && first(step))
}

/// Tokens and their types, by id.
struct Tokens {
    texts: Vec<String>,
    kinds: Vec<u8>,
}

/// Adds the vocabulary of a model with `vocab` tokens to the keys.
pub(super) fn write(
    keys: &mut Keys,
    tokenizer: &Value,
    config: Option<&Value>,
    vocab: usize,
) -> Result<(), NoGguf> {
    let model = &tokenizer["model"];
    let bytes = model["byte_fallback"] == true;
    let mut tokens = Tokens::read(tokenizer, config, vocab, bytes)?;
    let kind = model["type"].as_str().unwrap_or("BPE");
    match kind {
        "BPE" if bytes => {
            let spaces = Spaces::of(tokenizer);
            if spaces == Spaces::Plain {
                tokens.mark_spaces()?;
            }
            keys.text("tokenizer.ggml.model", "llama");
            keys.text("tokenizer.ggml.pre", "default");
            keys.numbers("tokenizer.ggml.scores", &scores(model, &tokens, spaces)?);
            tokens.unmark_user_defined();
            keys.flag("tokenizer.ggml.add_space_prefix", puts_space_before(tokenizer));
        }
        "BPE" => {
            let name = cut_name(tokenizer)
                .ok_or_else(|| wrong("has a pre-tokenizer without a name in GGUF"))?;
            keys.text("tokenizer.ggml.model", "gpt2");
            keys.text("tokenizer.ggml.pre", name);
            let merges = merges(model)?.map(|pair| pair.map(|(a, b)| format!("{a} {b}")));
            keys.texts("tokenizer.ggml.merges", &merges.collect::<Result<Vec<_>, _>>()?);
        }
        "WordPiece" => {
            keys.text("tokenizer.ggml.model", "bert");
            keys.text("tokenizer.ggml.pre", "default");
            tokens.start_words();
        }
        other => {
            return Err(wrong(format!("has a model {other:?}, which GGUF does not support")));
        }
    }
    keys.texts("tokenizer.ggml.tokens", &tokens.texts);
    keys.kinds("tokenizer.ggml.token_type", &tokens.kinds);
    specials(keys, tokenizer, config, &tokens, kind);
    Ok(())
}

impl Tokens {
    fn read(
        tokenizer: &Value,
        config: Option<&Value>,
        vocab: usize,
        bytes: bool,
    ) -> Result<Self, NoGguf> {
        let map = tokenizer["model"]["vocab"].as_object();
        let map = map.ok_or_else(|| wrong("has no vocabulary of tokens with ids"))?;
        let mut by_id: BTreeMap<u64, (&str, u8)> = BTreeMap::new();
        for (text, id) in map {
            let id = id.as_u64().ok_or_else(|| wrong(format!("has no id for {text:?}")))?;
            let byte = bytes && text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
            by_id.insert(id, (text, if byte { BYTE } else { NORMAL }));
        }
        let unknown = tokenizer["model"]["unk_token"].as_str();
        if bytes {
            // A token with a role is special even if no list of added tokens has it.
            let ends = ["bos_token", "eos_token", "pad_token"].map(|role| named(config, role));
            for (text, kind) in by_id.values_mut() {
                if unknown == Some(*text) {
                    *kind = UNKNOWN;
                } else if ends.contains(&Some(*text)) {
                    *kind = CONTROL;
                }
            }
        }
        for token in tokenizer["added_tokens"].as_array().into_iter().flatten() {
            let (Some(text), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) else {
                return Err(wrong("has an added token without id or content"));
            };
            let kind = match token["special"] == true {
                true if Some(text) == unknown && bytes => UNKNOWN,
                true => CONTROL,
                false => USER_DEFINED,
            };
            by_id.insert(id, (text, kind));
        }
        let most = by_id.keys().next_back().copied().unwrap_or(0);
        if most >= vocab as u64 {
            return Err(wrong(format!("has a token {most}, the model has {vocab}")));
        }
        let mut tokens = Self { texts: Vec::new(), kinds: Vec::new() };
        for id in 0..vocab as u64 {
            // The embedding may have more rows than there are tokens; readers expect a token per
            // row.
            let (text, kind) = match by_id.get(&id) {
                Some((text, kind)) => ((*text).to_owned(), *kind),
                None => (format!("[PAD{id}]"), UNUSED),
            };
            tokens.texts.push(text);
            tokens.kinds.push(kind);
        }
        Ok(tokens)
    }

    /// Replaces spaces in pieces by U+2581. A text with U+2581 itself is then tokenized
    /// differently: as a space instead of three bytes.
    fn mark_spaces(&mut self) -> Result<(), NoGguf> {
        for (text, kind) in self.texts.iter_mut().zip(&self.kinds) {
            if *kind != NORMAL {
                continue;
            }
            if text.contains(SPACE) {
                return Err(wrong(format!(
                    "has a token {text:?}, whose U+2581 means a space in GGUF"
                )));
            }
            *text = Spaces::Plain.marked(std::mem::take(text));
        }
        Ok(())
    }

    /// Replaces U+2581 by spaces in user-defined pieces, which are matched in the raw text.
    fn unmark_user_defined(&mut self) {
        for (text, kind) in self.texts.iter_mut().zip(&self.kinds) {
            if *kind == USER_DEFINED && text.contains(SPACE) {
                *text = text.replace(SPACE, " ");
            }
        }
    }

    /// Converts the `##` of continuations to U+2581 at the start of words.
    fn start_words(&mut self) {
        for (text, kind) in self.texts.iter_mut().zip(&self.kinds) {
            let special = text.starts_with('[') && text.ends_with(']') && text.len() > 2;
            if *kind != NORMAL || special {
                continue;
            }
            *text = match text.strip_prefix("##") {
                Some(inside) if !inside.is_empty() => inside.to_owned(),
                _ => format!("{SPACE}{text}"),
            };
        }
    }
}

type Pair<'a> = Result<(&'a str, &'a str), NoGguf>;

/// Merges, stored as pairs or as two tokens separated by a space.
fn merges(model: &Value) -> Result<impl Iterator<Item = Pair<'_>>, NoGguf> {
    let merges = model["merges"].as_array().ok_or_else(|| wrong("has no merges"))?;
    Ok(merges.iter().enumerate().map(|(index, merge)| {
        let pair = match merge {
            Value::String(text) => text.split_once(' '),
            Value::Array(pair) => match &pair[..] {
                [Value::String(a), Value::String(b)] => Some((a.as_str(), b.as_str())),
                _ => None,
            },
            _ => None,
        };
        pair.ok_or_else(|| wrong(format!("has a merge {index} that is not two tokens")))
    }))
}

/// Scores that reproduce the order of merges: minus the rank of the first merge that produces a
/// piece. GGUF readers know pieces, not merges. A piece produced by two merges with a merge of
/// another piece between them has no such score, and is an error.
fn scores(model: &Value, tokens: &Tokens, spaces: Spaces) -> Result<Vec<f32>, NoGguf> {
    let ids: BTreeMap<&str, usize> =
        tokens.texts.iter().enumerate().map(|(id, text)| (text.as_str(), id)).collect();
    let mut scores = vec![0.0f32; tokens.texts.len()];
    let mut done = vec![false; tokens.texts.len()];
    let mut last = None;
    let mut rank = 0u32;
    for pair in merges(model)? {
        let (a, b) = pair?;
        let id = ids.get(spaces.marked(format!("{a}{b}")).as_str()).copied();
        let id = id.ok_or_else(|| {
            wrong(format!("has a merge of {a:?} and {b:?}, whose result is not a token"))
        })?;
        if last != Some(id) {
            if done[id] {
                let text = &tokens.texts[id];
                return Err(wrong(format!(
                    "has merges of different rank with the result {text:?}"
                )));
            }
            rank += 1;
        }
        (done[id], last) = (true, Some(id));
        scores[id] = -(rank as f32);
    }
    // Pieces not produced by merges come last.
    for (id, score) in scores.iter_mut().enumerate() {
        if tokens.kinds[id] == NORMAL && !done[id] {
            *score = -(rank as f32) - 1.0;
        }
    }
    Ok(scores)
}

/// The token of a role in `tokenizer_config.json`: a string, or an object with `content`.
fn named<'a>(config: Option<&'a Value>, role: &str) -> Option<&'a str> {
    let token = &config?[role];
    token.as_str().or(token["content"].as_str())
}

/// Adds the ids of special tokens.
fn specials(
    keys: &mut Keys,
    tokenizer: &Value,
    config: Option<&Value>,
    tokens: &Tokens,
    kind: &str,
) {
    let named = |field: &str| named(config, field);
    let word = |name| (kind == "WordPiece").then_some(name);
    let template = tokenizer["post_processor"].to_string();
    let mut first = None;
    for (key, text) in [
        ("bos", named("bos_token").or(word("[CLS]"))),
        ("eos", named("eos_token")),
        ("unknown", named("unk_token").or(tokenizer["model"]["unk_token"].as_str())),
        ("padding", named("pad_token")),
        ("seperator", named("sep_token").or(word("[SEP]"))),
        ("cls", named("cls_token").or(word("[CLS]"))),
        ("mask", named("mask_token").or(word("[MASK]"))),
    ] {
        let id = text.and_then(|text| tokens.texts.iter().position(|token| token == text));
        if let Some(id) = id {
            keys.size(&format!("tokenizer.ggml.{key}_token_id"), id as u32);
        }
        if key == "bos" {
            first = text.filter(|_| id.is_some());
        }
    }
    let puts = |text: &str| template.contains(&Value::String(text.into()).to_string());
    let said = |field: &str| config.and_then(|config| config[field].as_bool());
    let adds = said("add_bos_token").unwrap_or(first.is_some_and(puts));
    keys.flag("tokenizer.ggml.add_bos_token", adds);
    keys.flag("tokenizer.ggml.add_eos_token", said("add_eos_token").unwrap_or(false));
    if let Some(template) = config.and_then(|config| config["chat_template"].as_str()) {
        keys.text("tokenizer.chat_template", template);
    }
}
