//! `vocab.txt`: WordPiece, as of BERT.

use super::TokenizerError;
use super::assemble::{Ends, Parts};
use super::files::{malformed, text};
use super::settings::{Role, TokenizerSettings};
use crate::families::tokenizers::Class;
use serde_json::json;
use std::path::Path;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};

/// Reads a vocabulary of one token per line; of two equal ones the later counts, as in
/// transformers.
pub(super) fn parts(
    path: &Path,
    bytes: &[u8],
    settings: &TokenizerSettings,
) -> Result<Parts, TokenizerError> {
    let mut vocab = Vocab::default();
    for (id, line) in (0_u32..).zip(text(path, bytes)?.lines()) {
        vocab.insert(line.trim_end().to_owned(), id);
    }
    let unk = match settings.role("unk_token")? {
        Role::Token(token) => token.content,
        Role::None | Role::Unsaid => "[UNK]".to_owned(),
    };
    if !vocab.contains_key(&unk) {
        let found = format!("{} tokens without it", vocab.len());
        return Err(malformed(path, format!("the unknown token {unk:?}"), found, "a line with it"));
    }
    let model = WordPiece::builder()
        .vocab(vocab)
        .unk_token(unk)
        .build()
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })?;
    let chinese = settings.flag("tokenize_chinese_chars")?.unwrap_or(true);
    let accents = settings.flag("strip_accents")?;
    let lower = settings.flag("do_lower_case")?.unwrap_or(true);
    let normalizer = BertNormalizer::new(true, chinese, accents, lower);
    Ok(Parts {
        model: model.into(),
        normalizer: Some(NormalizerWrapper::BertNormalizer(normalizer)),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ends: Ends::Bert,
        defaults: Class::Bert.defaults().map(|token| token.map(str::to_owned)),
        added: Vec::new(),
    })
}
