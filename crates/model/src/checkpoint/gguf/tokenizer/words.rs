//! `WordPiece` vocabularies: pieces that start a word are stored with U+2581 before them,
//! continuations without the `##` of `tokenizer.json`.

use super::{CONTROL, Vocabulary, wrong};
use crate::checkpoint::gguf_fault::GgufFault;
use serde_json::{Value, json};

/// Prefix of pieces that start a word.
const START: char = '\u{2581}';

/// The tokenizer. Files do not record lower-casing; models of this kind lower-case.
pub(super) fn tokenizer(vocabulary: &Vocabulary<'_>) -> Result<Value, GgufFault> {
    let special = |id: Option<usize>, name: &str| {
        let found = id.or_else(|| vocabulary.tokens.iter().position(|token| *token == name));
        found.ok_or_else(|| wrong(format!("it has no token {name}")))
    };
    let unknown = special(vocabulary.unknown, "[UNK]")?;
    let first = special(vocabulary.bos, "[CLS]")?;
    let last = special(vocabulary.separator.or(vocabulary.eos), "[SEP]")?;
    let own = |id: usize, token: &str| match token.strip_prefix(START) {
        Some(word) => word.to_owned(),
        None if vocabulary.kinds[id] == CONTROL || [unknown, first, last].contains(&id) => {
            token.to_owned()
        }
        None if token.starts_with('[') && token.ends_with(']') && token.len() > 2 => {
            token.to_owned()
        }
        None => format!("##{token}"),
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": null,
            "lowercase": true,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": vocabulary.template(Some(first), Some(last)),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece",
            "unk_token": vocabulary.tokens[unknown],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary.map(own)?,
        },
    }))
}
