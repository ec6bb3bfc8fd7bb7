//! WordPiece, as of BERT: a `vocab.txt`, or the rules of its classes for a `tokenizer.json`.

use super::TokenizerError;
use super::assemble::{Ends, Parts};
use super::files::{SETTINGS, malformed, text};
use super::settings::{Role, TokenizerSettings};
use crate::families::tokenizers::Class;
use serde_json::{Value, json};
use std::path::Path;
use tokenizers::decoders::wordpiece::WordPiece as WordPieceDecoder;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Model, Tokenizer as Library};

/// Reads a vocabulary of one token per line; of two equal ones the later is used, as in
/// transformers.
pub(super) fn parts(
    path: &Path,
    bytes: &[u8],
    class: Class,
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
    let model = model(path, vocab, unk)?;
    let normalizer = normalizer(settings)?;
    Ok(Parts {
        model: model.into(),
        normalizer: Some(NormalizerWrapper::BertNormalizer(normalizer)),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ends: if class == Class::Mpnet { Ends::Roberta } else { Ends::Bert },
        defaults: class.defaults().map(|token| token.map(str::to_owned)),
        added: Vec::new(),
    })
}

/// Replaces the rules of a `tokenizer.json` by those that transformers 5 builds for classes of
/// WordPiece, which are not those of the file: the normaliser is that of the settings. A vocabulary
/// of another kind is unchanged. Returns a note if the rules of the file were different.
pub(super) fn take_rules(
    path: &Path,
    inner: &mut Library,
    settings: &TokenizerSettings,
    unknown: Option<&AddedToken>,
) -> Result<Option<String>, TokenizerError> {
    if !matches!(inner.get_model(), ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_)) {
        return Ok(None);
    }
    let before = rules(inner);
    let unk = unknown.map_or("[UNK]", |token| token.content.as_str());
    let vocab = inner.get_model().get_vocab().into_iter().collect();
    inner.with_model(model(path, vocab, unk.to_owned())?);
    let bert = normalizer(settings)?;
    inner
        .with_normalizer(Some(NormalizerWrapper::BertNormalizer(bert)))
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })?;
    inner.with_pre_tokenizer(Some(BertPreTokenizer));
    inner.with_decoder(Some(WordPieceDecoder::new("##".to_owned(), true)));
    let accents = match bert.strip_accents {
        None => "unsaid".to_owned(),
        Some(strips) => strips.to_string(),
    };
    let note = format!(
        "the rules of tokenizer.json by which a text is cut into words do not count: transformers \
         5 builds those of tokenizers of this class from {SETTINGS} (do_lower_case {}, \
         tokenize_chinese_chars {}, strip_accents {accents})",
        bert.lowercase, bert.handle_chinese_chars
    );
    Ok((before != rules(inner)).then_some(note))
}

/// Settings that determine the words and pieces of a text, for comparison.
fn rules(inner: &Library) -> Value {
    let mut normalizer = json!(inner.get_normalizer());
    if let Some(NormalizerWrapper::BertNormalizer(own)) = inner.get_normalizer() {
        normalizer["strip_accents"] = own.strip_accents.unwrap_or(own.lowercase).into();
    }
    let model = match inner.get_model() {
        ModelWrapper::WordPiece(own) => {
            json!([own.unk_token, own.continuing_subword_prefix, own.max_input_chars_per_word])
        }
        _ => Value::Null,
    };
    json!([normalizer, inner.get_pre_tokenizer(), model])
}

fn model(path: &Path, vocab: Vocab, unk: String) -> Result<WordPiece, TokenizerError> {
    WordPiece::builder()
        .vocab(vocab)
        .unk_token(unk)
        .build()
        .map_err(|e| TokenizerError::Invalid { path: path.into(), reason: e.to_string() })
}

/// The normaliser given by the settings.
fn normalizer(settings: &TokenizerSettings) -> Result<BertNormalizer, TokenizerError> {
    let chinese = settings.flag("tokenize_chinese_chars")?.unwrap_or(true);
    let accents = settings.flag("strip_accents")?;
    let lower = settings.flag("do_lower_case")?.unwrap_or(true);
    Ok(BertNormalizer::new(true, chinese, accents, lower))
}
