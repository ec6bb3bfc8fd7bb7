//! Readers of tokenizer files. A tokenizer that loads must encode and decode a text.

use super::{few, outcome};
use crate::repository_root;
use linwright_model::checkpoint::llama2c as llama2c_files;
use linwright_model::tokenizer::chat::{ChatOptions, Message};
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::OnceLock;

/// A text with special cases of tokenizers.
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

/// Loads a tokenizer and uses it.
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

/// Adds components to a tokenizer with a small vocabulary, and uses it.
pub(super) fn steps(bytes: &[u8]) -> String {
    let Ok(Value::Object(steps)) = serde_json::from_slice(bytes) else { return "no object".into() };
    let vocab = ["<unk>", "<s>", "a", "b", "_", " ", "ab"].into_iter().zip(0..);
    let vocab: Map<String, Value> = vocab.map(|(token, id)| (token.into(), json!(id))).collect();
    let mut file = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]], "unk_token": "<unk>"},
    });
    for (name, step) in steps {
        if name != "model" {
            file[name] = step;
        }
    }
    of_files(&[("tokenizer.json", file.to_string().as_bytes())], None)
}

/// A tokenizer with a chat template.
fn with_template(template: &[u8]) -> Result<Option<Tokenizer>, TokenizerError> {
    static BESIDE: OnceLock<Vec<u8>> = OnceLock::new();
    let beside = BESIDE.get_or_init(|| known("gpt2/vocab.json"));
    let files: Files = vec![
        ("vocab.json".into(), beside.clone()),
        ("merges.txt".into(), b"#version: 0.2\n".to_vec()),
        ("chat_template.jinja".into(), template.to_vec()),
    ];
    Tokenizer::from_files(Path::new("folder"), &files, Some("gpt2"))
}

/// Renders the chat of a client's request with templates with and without tools.
pub(super) fn chat_request(bytes: &[u8]) -> String {
    static TOKENIZERS: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    let tokenizers = TOKENIZERS.get_or_init(|| {
        let template = |name| known(&format!("../fuzz/chat_template/{name}.jinja"));
        let tokenizers =
            ["llama3", "qwen"].map(|name| with_template(&template(name)).ok().flatten());
        tokenizers.into_iter().flatten().collect()
    });
    let Ok(mut request) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
        return "no object".into();
    };
    let messages = request.remove("messages").unwrap_or_default();
    let Ok(messages) = serde_json::from_value::<Vec<Message>>(messages) else {
        return "no messages".into();
    };
    let variables = match request.remove("variables") {
        Some(Value::Object(variables)) => variables,
        _ => Map::new(),
    };
    let options = ChatOptions {
        add_generation_prompt: request.get("add_generation_prompt") == Some(&Value::Bool(true)),
        tools: request.remove("tools"),
        documents: request.remove("documents"),
        variables,
        ..ChatOptions::default()
    };
    let chats = tokenizers.iter().map(|tokenizer| tokenizer.chat_with(&messages, &options));
    let chats: Vec<String> = chats
        .map(|chat| outcome(chat.map(|text| few(text.matches("user").count()).to_string())))
        .collect();
    chats.join(", ")
}

/// Renders a chat by a template.
pub(super) fn chat_template(bytes: &[u8]) -> String {
    let tokenizer = with_template(bytes);
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
