//! SentencePiece vocabularies: pieces with scores, spaces as U+2581, byte tokens as fallback.
//!
//! SentencePiece merges the adjacent pair whose joined piece scores highest; the tokenizers library
//! merges the pair of lowest rank. Ranking every split of a piece into two known pieces by the
//! score of the piece makes both agree, as long as different pieces have different scores; pieces
//! of equal score are ranked by id, as in transformers, where SentencePiece takes the first pair of
//! the text.

use super::{MERGES, NORMAL, SCORES, Vocabulary, wrong};
use crate::checkpoint::gguf_fault::GgufFault;
use linwright_files::gguf::{MetaValue, Metadata};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The character that stands for a space in pieces.
const SPACE: &str = "\u{2581}";
/// Longest piece in bytes for merges. Known pieces are shorter than 200.
const MAX_CUT_BYTES: usize = 512;
/// Largest size of merges relative to that of pieces: a malicious vocabulary can have pieces that
/// split everywhere, a trained one never does.
const MAX_GROWTH: usize = 64;

/// The tokenizer.
pub(super) fn tokenizer(
    bytes: &[u8],
    metadata: &Metadata,
    vocabulary: &Vocabulary<'_>,
) -> Result<Value, GgufFault> {
    let count = vocabulary.tokens.len();
    let scores: Vec<f64> = match metadata.get(SCORES) {
        Some(MetaValue::Array(array)) if array.len() == count => match array.numbers(bytes) {
            Some(scores) => scores.collect(),
            None => return Err(wrong(format!("{SCORES} is not an array of numbers"))),
        },
        _ if metadata.contains_key(MERGES) => {
            return Err(wrong(format!("it has {MERGES} and no {SCORES}")));
        }
        _ => return Err(wrong(format!("{SCORES} is not an array of {count} numbers"))),
    };
    if scores.len() < count || scores.iter().any(|score| score.is_nan()) {
        return Err(wrong(format!("{SCORES} has an entry that is not a number")));
    }
    let unknown = vocabulary.unknown.map(|id| vocabulary.tokens[id]);
    let prefix = vocabulary.space_prefix.unwrap_or(true);
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let before = json!({"type": "Prepend", "prepend": SPACE});
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let bos = vocabulary.bos.filter(|_| vocabulary.adds_bos.unwrap_or(true));
    let eos = vocabulary.eos.filter(|_| vocabulary.adds_eos.unwrap_or(false));
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": vocabulary.added(),
        "normalizer": if prefix {
            json!({"type": "Sequence", "normalizers": [before, spaces]})
        } else {
            spaces
        },
        "pre_tokenizer": null,
        "post_processor": vocabulary.template(bos, eos),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": vocabulary.map(|_, token| token.to_owned())?,
            "merges": merges(vocabulary, &scores)?,
        },
    }))
}

/// All splits of pieces into two known pieces, in descending order of score.
fn merges(vocabulary: &Vocabulary<'_>, scores: &[f64]) -> Result<Vec<Value>, GgufFault> {
    let tokens = &vocabulary.tokens;
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
    let total: usize = tokens.iter().map(|token| token.len()).sum();
    let mut room = (1 << 20) + MAX_GROWTH * total;
    let mut cuts: Vec<(usize, [usize; 2])> = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        if vocabulary.kinds[id] != NORMAL || token.len() > MAX_CUT_BYTES {
            continue;
        }
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
                let left_room = room.checked_sub(token.len());
                room =
                    left_room.ok_or_else(|| wrong("its pieces can be split in too many ways"))?;
                cuts.push((id, [left, right]));
            }
        }
    }
    cuts.sort_by(|(a, cut_a), (b, cut_b)| {
        scores[*b].total_cmp(&scores[*a]).then_with(|| a.cmp(b)).then_with(|| cut_a.cmp(cut_b))
    });
    Ok(cuts.into_iter().map(|(_, [left, right])| json!([tokens[left], tokens[right]])).collect())
}
