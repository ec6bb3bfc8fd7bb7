//! Byte-level BPE vocabularies, whose bytes are stored as printable characters.
//!
//! A GGUF file names its pre-tokenizer without the pattern. The patterns are those of the models'
//! own `tokenizer.json`.

use super::{MERGES, Vocabulary, wrong};
use crate::checkpoint::gguf_fault::GgufFault;
use linwright_files::gguf::{MetaValue, Metadata};
use serde_json::{Value, json};

/// Key of the pre-tokenizer's name.
const PRE: &str = "tokenizer.ggml.pre";

/// Split digits in groups of three.
const THREES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Split off every digit.
const ONES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A pre-tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The pattern of the byte-level pre-tokenizer itself.
    Plain,
    /// Single digits, then the byte-level pattern.
    Digits,
    /// A separate pattern.
    Pattern(&'static str),
}

/// Settings of a named pre-tokenizer.
struct Pre {
    cut: Cut,
    /// Whether a piece of text that is a token skips merging.
    whole_tokens: bool,
    /// Whether accents are composed with their letters (NFC).
    composes: bool,
    /// Default for adding a beginning-of-sequence token.
    adds_bos: bool,
}

const USUAL: Pre = Pre { cut: Cut::Plain, whole_tokens: false, composes: false, adds_bos: false };

fn pre(name: &str) -> Option<Pre> {
    Some(match name {
        "gpt-2" | "phi-2" | "mpt" | "olmo" | "jina-es" | "jina-de" | "jina-v2-es"
        | "jina-v2-de" | "jina-v2-code" | "roberta-bpe" => USUAL,
        "gpt-neox" | "pythia" => Pre { composes: true, ..USUAL },
        "starcoder" | "refact" | "command-r" | "smollm" => Pre { cut: Cut::Digits, ..USUAL },
        "llama3" | "llama-v3" | "llama-bpe" => {
            Pre { cut: Cut::Pattern(THREES), whole_tokens: true, adds_bos: true, ..USUAL }
        }
        "dbrx" | "smaug-bpe" => Pre { cut: Cut::Pattern(THREES), ..USUAL },
        "qwen2" => Pre { cut: Cut::Pattern(ONES), composes: true, ..USUAL },
        "stablelm2" => Pre { cut: Cut::Pattern(ONES), composes: true, ..USUAL },
        _ => return None,
    })
}

/// GGUF name of the pre-tokenizer of a `tokenizer.json`, if there is one.
pub(in crate::checkpoint::gguf) fn cut_name(tokenizer: &Value) -> Option<&'static str> {
    const NAMES: [&str; 6] = ["gpt-2", "gpt-neox", "smollm", "llama-bpe", "dbrx", "qwen2"];
    let prefix = tokenizer["pre_tokenizer"].to_string().contains("\"add_prefix_space\":true");
    let composes = tokenizer["normalizer"]["type"] == "NFC";
    let whole_tokens = tokenizer["model"]["ignore_merges"] == true;
    let fits = |name: &&str| {
        let known = pre(name)?;
        let same = (known.composes, known.whole_tokens) == (composes, whole_tokens);
        (same && cuts_alike(&known.pre_tokenizer(prefix), &tokenizer["pre_tokenizer"]))
            .then_some(())
    };
    NAMES.into_iter().find(|name| fits(name).is_some())
}

/// Whether two pre-tokenizers split alike: offset trimming and fields at their defaults do not
/// matter.
fn cuts_alike(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().filter(|(field, _)| *field != "trim_offsets").all(|(field, ours)| {
                b.get(field).map_or(ours == &json!(true), |b| cuts_alike(ours, b))
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| cuts_alike(a, b))
        }
        _ => ours == theirs,
    }
}

fn byte_level(prefix: bool, pattern: bool) -> Value {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": true,
        "use_regex": pattern,
    })
}

impl Pre {
    fn pre_tokenizer(&self, prefix: bool) -> Value {
        match self.cut {
            Cut::Plain => byte_level(prefix, true),
            Cut::Digits => json!({"type": "Sequence", "pretokenizers": [
                {"type": "Digits", "individual_digits": true},
                byte_level(prefix, true),
            ]}),
            Cut::Pattern(pattern) => json!({"type": "Sequence", "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": pattern},
                    "behavior": "Isolated",
                    "invert": false,
                },
                byte_level(prefix, false),
            ]}),
        }
    }
}

/// The tokenizer as a `tokenizer.json`.
pub(super) fn tokenizer(
    bytes: &[u8],
    metadata: &Metadata,
    vocabulary: &Vocabulary<'_>,
) -> Result<Value, GgufFault> {
    let name = match metadata.get(PRE) {
        Some(MetaValue::Text(name)) => name.as_str(),
        _ => return Err(wrong(format!("the file has no text {PRE}; convert the model again"))),
    };
    let known =
        pre(name).ok_or_else(|| wrong(format!("{PRE} is {name:?}, which is not supported")))?;
    let merges = read_merges(bytes, metadata, vocabulary)?;
    let prefix = vocabulary.space_prefix.unwrap_or(false);
    let bos = vocabulary.bos.filter(|_| vocabulary.adds_bos.unwrap_or(known.adds_bos));
    let eos = vocabulary.eos.filter(|_| vocabulary.adds_eos.unwrap_or(false));
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": known.composes.then(|| json!({"type": "NFC"})),
        "pre_tokenizer": known.pre_tokenizer(prefix),
        "post_processor": vocabulary.template(bos, eos).unwrap_or_else(|| byte_level(prefix, true)),
        "decoder": byte_level(prefix, true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": known.whole_tokens,
            "vocab": vocabulary.map(|_, token| token.to_owned())?,
            "merges": merges,
        },
    }))
}

/// Merges are stored as two tokens with a space between.
fn read_merges(
    bytes: &[u8],
    metadata: &Metadata,
    vocabulary: &Vocabulary<'_>,
) -> Result<Vec<Value>, GgufFault> {
    let Some(MetaValue::Array(array)) = metadata.get(MERGES) else {
        return Err(wrong(format!("the file has no array {MERGES}")));
    };
    let texts = array.texts(bytes);
    let texts = texts.ok_or_else(|| wrong(format!("{MERGES} is not an array of texts")))?;
    let known: std::collections::HashSet<&str> = vocabulary.tokens.iter().copied().collect();
    let mut merges = Vec::new();
    for (index, text) in texts.enumerate() {
        // A token may itself contain a space: the separator is the space with a token on either
        // side.
        let mut cuts = text.match_indices(' ').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let cut = if text.len() > 2 * super::MAX_TOKEN_BYTES {
            None
        } else {
            cuts.find(|(a, b)| known.contains(a) && known.contains(b))
        };
        let (a, b) = cut.ok_or_else(|| {
            wrong(format!("merge {index} of {MERGES} is not two tokens with a space between"))
        })?;
        if !known.contains(format!("{a}{b}").as_str()) {
            return Err(wrong(format!("merge {index} makes {a}{b}, which is not a token")));
        }
        merges.push(json!([a, b]));
    }
    Ok(merges)
}
