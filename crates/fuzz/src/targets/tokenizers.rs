//! Files of tokenizers. A tokenizer that can be made of an input encodes and decodes a text.

use super::{few, outcome};
use crate::repository_root;
use linwright_model::checkpoint::llama2c as llama2c_files;
use linwright_model::tokenizer::chat::Message;
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use std::path::Path;
use std::sync::OnceLock;

/// A text with what tokenizers treat in ways of their own.
const TEXT: &str = " Hello  wörld\r\n\t🙂🏽 漢字 <s>[CLS] 12345 e\u{301}\0 don't";
/// Tokens of the llama2.c tokenizer.
const LLAMA2C_TOKENS: usize = 262;

/// Files of a folder: their names and contents.
type Files = Vec<(String, Vec<u8>)>;

/// A file of `testdata/tokenizers`.
fn known(path: &str) -> Vec<u8> {
    let path = repository_root().join("testdata/tokenizers").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Makes a tokenizer of files, and uses it.
fn of_files(files: &[(&str, &[u8])], model_type: Option<&str>) -> String {
    let files: Files =
        files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    outcome(used(&files, model_type))
}

fn used(files: &Files, model_type: Option<&str>) -> Result<String, TokenizerError> {
    let Some(tokenizer) = Tokenizer::from_files(Path::new("folder"), files, model_type)? else {
        return Ok("no vocabulary".into());
    };
    let ids = tokenizer.encode(TEXT, true)?;
    let text = tokenizer.decode(&ids, false)?;
    let (bos, eos) = (tokenizer.bos().is_some(), tokenizer.eos().is_some());
    let (same, begins) = (text == TEXT, tokenizer.adds_bos());
    Ok(format!("{} tokens, the same {same}, {bos} {eos} {begins}", few(ids.len())))
}

pub(super) fn json(bytes: &[u8]) -> String {
    of_files(&[("tokenizer.json", bytes)], None)
}

pub(super) fn config(bytes: &[u8]) -> String {
    static BESIDE: OnceLock<Vec<u8>> = OnceLock::new();
    let beside = BESIDE.get_or_init(|| known("llama-json/tokenizer.json"));
    of_files(&[("tokenizer.json", beside), ("tokenizer_config.json", bytes)], None)
}

pub(super) fn sentencepiece(bytes: &[u8]) -> String {
    of_files(&[("tokenizer.model", bytes)], Some("llama"))
}

pub(super) fn byte_level_vocab(bytes: &[u8]) -> String {
    of_files(&[("vocab.json", bytes), ("merges.txt", b"#version: 0.2\n")], None)
}

pub(super) fn byte_level_merges(bytes: &[u8]) -> String {
    static BESIDE: OnceLock<Vec<u8>> = OnceLock::new();
    let beside = BESIDE.get_or_init(|| known("gpt2/vocab.json"));
    of_files(&[("vocab.json", beside), ("merges.txt", bytes)], Some("gpt2"))
}

pub(super) fn word_pieces(bytes: &[u8]) -> String {
    of_files(&[("vocab.txt", bytes)], Some("bert"))
}

/// Reads a llama2.c tokenizer.
pub(super) fn llama2c(bytes: &[u8]) -> String {
    let read = llama2c_files::read_tokenizer(Path::new("tokenizer.bin"), bytes, LLAMA2C_TOKENS);
    outcome(read.map(|json| {
        let merges = json["model"]["merges"].as_array().map_or(0, Vec::len);
        format!("{} merges", few(merges))
    }))
}

/// Renders a chat by a template.
pub(super) fn chat_template(bytes: &[u8]) -> String {
    static BESIDE: OnceLock<Vec<u8>> = OnceLock::new();
    let beside = BESIDE.get_or_init(|| known("gpt2/vocab.json"));
    let files: Files = vec![
        ("vocab.json".into(), beside.clone()),
        ("merges.txt".into(), b"#version: 0.2\n".to_vec()),
        ("chat_template.jinja".into(), bytes.to_vec()),
    ];
    let tokenizer = Tokenizer::from_files(Path::new("folder"), &files, Some("gpt2"));
    let chat = tokenizer.and_then(|tokenizer| {
        let messages = [
            Message::new("user", "How old is the <b>moon</b>?"),
            Message::new("assistant", "Old."),
            Message::new("user", ""),
        ];
        tokenizer.map_or(Ok(String::new()), |tokenizer| tokenizer.chat(&messages, true))
    });
    outcome(chat.map(|text| {
        let count = |needle: &str| few(text.matches(needle).count());
        format!("{} {} {}", count("user"), count("\n"), count("moon"))
    }))
}
