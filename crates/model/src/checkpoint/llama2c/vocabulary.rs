//! The tokenizer file of llama2.c, converted to byte-pair merges.
//!
//! llama2.c merges the adjacent pair whose joined piece scores highest, the tokenizers library the
//! pair of lowest rank; ties go to the first pair in both. Ranking every split of a piece into two
//! known pieces by the score of the piece makes both agree, provided that mergeable pieces have
//! different scores, which is checked.

use crate::checkpoint::error::CheckpointError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

/// Id of the unknown token.
const UNK: usize = 0;
/// Id of the beginning-of-sequence token.
pub(super) const BOS: u32 = 1;
/// Id of the end-of-sequence token.
pub(super) const EOS: u32 = 2;
/// Names of the first three tokens. The file has line breaks around them, so that no text merges to
/// them.
const SPECIAL: [&str; 3] = ["<unk>", "<s>", "</s>"];
/// Id of the token of byte 0; the tokens of the other bytes follow.
const FIRST_BYTE: usize = 3;

/// Pieces and scores by id.
#[derive(Debug)]
pub(super) struct Vocabulary {
    pieces: Vec<String>,
    merges: Vec<(String, String)>,
}

impl Vocabulary {
    /// Reads a file: i32 longest piece, then for each token f32 score, i32 length, bytes.
    pub(super) fn parse(path: &Path, bytes: &[u8], vocab: usize) -> Result<Self, CheckpointError> {
        let wrong = |reason: String| CheckpointError::Llama2c { path: path.into(), reason };
        let (pieces, scores) = read_pieces(bytes, vocab).map_err(wrong)?;
        let merges = find_merges(&pieces, &scores).map_err(wrong)?;
        Ok(Self { pieces, merges })
    }

    /// The `tokenizer.json`.
    ///
    /// It differs from Llama's tokenizer in one thing: spaces are not replaced by U+2581, since
    /// llama2.c encodes that character as three bytes. Special tokens are not added tokens, and the
    /// settings switch their detection off, since llama2.c never finds them in a text.
    pub(super) fn tokenizer_json(&self) -> Value {
        let vocab: serde_json::Map<String, Value> =
            self.pieces.iter().enumerate().map(|(id, piece)| (piece.clone(), json!(id))).collect();
        let [unk, bos, _] = SPECIAL;
        let sequence = |id: &str, type_id: u32| json!({"Sequence": {"id": id, "type_id": type_id}});
        let start = |type_id: u32| json!({"SpecialToken": {"id": bos, "type_id": type_id}});
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [],
            "normalizer": {"type": "Prepend", "prepend": " "},
            "pre_tokenizer": null,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [start(0), sequence("A", 0)],
                "pair": [start(0), sequence("A", 0), start(1), sequence("B", 1)],
                "special_tokens": {bos: {"id": bos, "ids": [BOS], "tokens": [bos]}},
            },
            "decoder": {
                "type": "Sequence",
                "decoders": [
                    {"type": "ByteFallback"},
                    {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                ],
            },
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": unk,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": false,
                "byte_fallback": true,
                "ignore_merges": false,
                "vocab": vocab,
                "merges": self.merges,
            },
        })
    }

    /// The `tokenizer_config.json`.
    pub(super) fn tokenizer_config(&self, positions: usize) -> Value {
        let [unk, bos, eos] = SPECIAL;
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": true,
            "unk_token": unk,
            "bos_token": bos,
            "eos_token": eos,
            // llama2.c never finds a special token in a text, so transformers must not either.
            "split_special_tokens": true,
            "clean_up_tokenization_spaces": false,
            "model_max_length": positions,
        })
    }
}

/// Takes bytes off the front; the error names the truncated token.
struct Bytes<'a> {
    left: &'a [u8],
    token: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let token = self.token;
        let (head, tail) = self.left.split_at_checked(count).ok_or_else(|| {
            format!("the tokenizer ends inside token {token}; it is truncated or belongs to another model")
        })?;
        self.left = tail;
        Ok(head)
    }

    fn word(&mut self) -> Result<[u8; 4], String> {
        let bytes = self.take(4)?;
        Ok([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

fn read_pieces(bytes: &[u8], vocab: usize) -> Result<(Vec<String>, Vec<f32>), String> {
    let smallest = FIRST_BYTE + 256;
    if vocab < smallest {
        return Err(format!(
            "the model has {vocab} tokens, a tokenizer needs {smallest} for bytes"
        ));
    }
    let mut bytes = Bytes { left: bytes, token: 0 };
    let longest = i32::from_le_bytes(bytes.word()?);
    let (mut pieces, mut scores) = (Vec::new(), Vec::new());
    let mut ids: HashMap<String, usize> = HashMap::new();
    for id in 0..vocab {
        bytes.token = id;
        let score = f32::from_le_bytes(bytes.word()?);
        if !score.is_finite() {
            return Err(format!("token {id} has score {score}, expected a finite number"));
        }
        let length = i32::from_le_bytes(bytes.word()?);
        if !(0..=longest).contains(&length) {
            return Err(format!("token {id} has {length} bytes, expected 0 to {longest}"));
        }
        // Not negative, by the check above.
        let piece = std::str::from_utf8(bytes.take(length.cast_unsigned() as usize)?)
            .map_err(|_| format!("token {id} is not valid UTF-8"))?;
        let piece = check_name(id, piece)?;
        if let Some(other) = ids.insert(piece.clone(), id) {
            return Err(format!("tokens {other} and {id} are both {piece:?}"));
        }
        pieces.push(piece);
        scores.push(score);
    }
    match bytes.left.len() {
        0 => Ok((pieces, scores)),
        left => Err(format!(
            "{left} bytes follow the last of {vocab} tokens; the tokenizer belongs to another model"
        )),
    }
}

/// Checks the tokens with fixed ids; the special ones get their usual names.
fn check_name(id: usize, piece: &str) -> Result<String, String> {
    let expected = match id {
        0..FIRST_BYTE => SPECIAL[id].to_owned(),
        _ if id < FIRST_BYTE + 256 => format!("<0x{:02X}>", id - FIRST_BYTE),
        _ => return Ok(piece.to_owned()),
    };
    if piece.trim() == expected {
        return Ok(expected);
    }
    Err(format!("token {id} is {piece:?}, expected {expected:?}"))
}

/// All splits of pieces into two known pieces, in descending order of score.
fn find_merges(pieces: &[String], scores: &[f32]) -> Result<Vec<(String, String)>, String> {
    let ids: HashMap<&str, usize> =
        pieces.iter().enumerate().map(|(id, p)| (p.as_str(), id)).collect();
    let mut merged: Vec<(usize, Vec<(String, String)>)> = Vec::new();
    for (id, piece) in pieces.iter().enumerate().skip(UNK + SPECIAL.len()) {
        let cuts: Vec<(String, String)> = piece
            .char_indices()
            .skip(1)
            .map(|(at, _)| piece.split_at(at))
            .filter(|(left, right)| ids.contains_key(left) && ids.contains_key(right))
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .collect();
        if !cuts.is_empty() {
            merged.push((id, cuts));
        }
    }
    merged.sort_by(|(a, _), (b, _)| scores[*b].total_cmp(&scores[*a]));
    for pair in merged.windows(2) {
        let [a, b] = [pair[0].0, pair[1].0];
        if scores[a] == scores[b] {
            return Err(format!(
                "pieces {:?} and {:?} have the same score {}; merges of equal rank have no order in \
                 a tokenizer.json",
                pieces[a], pieces[b], scores[a]
            ));
        }
    }
    Ok(merged.into_iter().flat_map(|(_, cuts)| cuts).collect())
}

#[cfg(test)]
mod tests;
