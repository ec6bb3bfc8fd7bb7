//! Ids, pairs and decodings of every kind of tokenizer against those of transformers.

use crate::checkpoint_common::save_small;
use linwright_model::checkpoint::load;
use linwright_model::tokenizer::chat::{ChatOptions, Date, Message};
use linwright_model::tokenizer::{Tokenizer, TokenizerError};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Texts with more characters, and rows with more ids, are recorded as count and hash.
const LONG: usize = 160;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tokenizers")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn texts() -> Vec<String> {
    let file = read(&folder().join("texts.json"));
    let items = file["texts"].as_array().unwrap().clone();
    let text = |item: Value| match item.as_str() {
        Some(text) => text.to_owned(),
        None => item["repeat"].as_str().unwrap().repeat(item["count"].as_u64().unwrap() as usize),
    };
    items.into_iter().map(text).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

/// A row of numbers as the script records it.
fn digest(numbers: &[u32]) -> Value {
    if numbers.len() <= LONG {
        return numbers.into();
    }
    let step = |hash: u64, &n: &u32| {
        hash.wrapping_mul(1_000_003).wrapping_add(u64::from(n)).wrapping_add(1)
    };
    let hash = numbers.iter().fold(0, step);
    serde_json::json!({"count": numbers.len(), "hash": hash.to_string()})
}

fn short(text: &str) -> Value {
    let letters: Vec<u32> = text.chars().map(u32::from).collect();
    if letters.len() <= LONG { text.into() } else { digest(&letters) }
}

fn stems() -> Vec<String> {
    let mut stems: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    stems.sort();
    stems
}

#[test]
fn every_kind_gives_the_ids_of_transformers() {
    let texts = texts();
    let mut wrong = Vec::new();
    let stems = stems();
    assert!(stems.len() >= 14, "{stems:?}");
    for stem in stems {
        let dir = folder().join(&stem);
        let expected = read(&dir.join("expected.json"));
        let tokenizer = Tokenizer::from_folder(&dir).unwrap_or_else(|e| panic!("{stem}: {e}"));
        let mut differ = |what: &str, text: &str, found: Value, expected: &Value| {
            if found != *expected {
                let text: String = text.chars().take(40).collect();
                wrong.push(format!("{stem} {what} {text:?}:\n  {found}\n  {expected}"));
            }
        };
        differ("vocab", "", tokenizer.vocab().into(), &expected["vocab"]);
        differ("bos", "", tokenizer.bos().into(), &expected["bos"]);
        differ("eos", "", tokenizer.eos().into(), &expected["eos"]);
        let (before, after) = (ids(&expected["before"]), ids(&expected["after"]));
        let cases = expected["cases"].as_array().unwrap();
        assert_eq!(cases.len(), texts.len());
        for (text, case) in texts.iter().zip(cases) {
            let plain = tokenizer.encode(text, false).unwrap();
            differ("ids", text, digest(&plain), &case["ids"]);
            let full = tokenizer.encode_with_special(text).unwrap();
            assert_eq!(full, [before.as_slice(), &plain, &after].concat(), "{stem} {text:?}");
            let same = short(text);
            let decoded = tokenizer.decode(&plain, false).unwrap();
            differ("decoded", text, short(&decoded), case.get("decoded").unwrap_or(&same));
            let skipped = tokenizer.decode(&full, true).unwrap();
            differ("skipped", text, short(&skipped), case.get("skipped").unwrap_or(&same));
        }
        let pairs = read(&folder().join("texts.json"))["pairs"].clone();
        for (pair, expected) in
            pairs.as_array().unwrap().iter().zip(expected["pairs"].as_array().unwrap())
        {
            let (a, b) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            let found = tokenizer.encode_pair(a, b).unwrap();
            differ("pair", a, found.ids.into(), &expected["ids"]);
            differ("types", a, found.type_ids.into(), &expected["types"]);
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_checkpoint_with_a_raw_vocabulary_has_a_tokenizer_and_a_content_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_small(&model);
    let with_json = load(&model).unwrap().hash;
    fs::remove_file(model.join("tokenizer.json")).unwrap();
    let none = load(&model).unwrap();
    assert!(none.tokenizer.is_none());
    assert!(none.notes.iter().any(|note| note.contains("no tokenizer")), "{:?}", none.notes);
    let vocab = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n##b\nc\nd\ne\nf\n";
    fs::write(model.join("vocab.txt"), vocab).unwrap();
    let raw = load(&model).unwrap();
    let tokenizer = raw.tokenizer.unwrap();
    assert_eq!(tokenizer.encode("ab C x", true).unwrap(), [1, 5, 6, 7, 0, 2]);
    assert!(raw.source.companion("vocab.txt").is_some(), "it travels with the model");
    assert!(raw.hash != with_json && raw.hash != none.hash);
    fs::write(model.join("vocab.txt"), format!("{vocab}g\n")).unwrap();
    let error = load(&model).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("\"g\" has id 11") && error.contains("below 11"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_an_error_and_no_absent_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    save_small(&model);
    for name in ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"] {
        let path = model.join(name);
        let before = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let error = load(&model).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        if name != "generation_config.json" {
            let error = Tokenizer::from_folder(&model).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        fs::remove_file(&path).unwrap();
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
    }
    assert!(load(&model).is_ok());
}

/// Which special tokens a `tokenizer.json` gets besides its own is what transformers makes of class
/// and model type; see `tools/parity/special_tokens.py`.
#[test]
fn text_that_looks_like_special_tokens_gets_the_ids_of_transformers() {
    let golden = read(&folder().join("special.json"));
    let texts = golden["texts"].as_array().unwrap();
    let json = read(&folder().join("llama-json/tokenizer.json"));
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 60);
    let mut wrong = Vec::new();
    for case in cases {
        let mut json = json.clone();
        if case["bare"] == true {
            json["added_tokens"] = Value::Array(Vec::new());
            json["post_processor"] = Value::Null;
        }
        let files = [("tokenizer.json", &json), ("tokenizer_config.json", &case["settings"])]
            .map(|(name, content)| (name.to_owned(), content.to_string().into_bytes()));
        let model_type = case["model_type"].as_str();
        let tokenizer = Tokenizer::from_files(Path::new("x"), &files, model_type).unwrap().unwrap();
        for (text, expected) in texts.iter().zip(case["ids"].as_array().unwrap()) {
            let found = tokenizer.encode_with_special(text.as_str().unwrap()).unwrap();
            if found != ids(expected) {
                let (kind, settings) = (&case["model_type"], &case["settings"]);
                wrong.push(format!("{kind} {settings} {text}:\n  {found:?}\n  {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn openai_names_hold_the_same_vocabulary() {
    let dir = folder().join("gpt2");
    let read = |name: &str| fs::read(dir.join(name)).unwrap();
    let files = [("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt")]
        .map(|(name, source)| (name.to_owned(), read(source)));
    let renamed = Tokenizer::from_files(Path::new("x"), &files, None).unwrap().unwrap();
    let named = Tokenizer::from_folder(&dir).unwrap();
    for text in texts() {
        assert_eq!(renamed.encode(&text, true).unwrap(), named.encode(&text, true).unwrap());
    }
}

#[test]
fn streams_give_what_decoding_gives() {
    let texts = texts();
    for stem in stems() {
        let tokenizer = Tokenizer::from_folder(&folder().join(&stem)).unwrap();
        for (text, skip) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
            let ids = tokenizer.encode(text, true).unwrap();
            let ids = &ids[..ids.len().min(400)];
            let mut stream = tokenizer.decode_stream(skip);
            let mut pieces: Vec<String> = Vec::new();
            for &id in ids {
                pieces.extend(stream.step(id).unwrap());
            }
            pieces.extend(stream.finish().unwrap());
            let whole = tokenizer.decode(ids, skip).unwrap();
            assert_eq!(pieces.concat(), whole, "{stem} {skip} {ids:?}");
            // Words come one by one and not at the end.
            if text.starts_with("the river the") {
                assert!(pieces.len() > ids.len() / 2, "{stem}: {pieces:?}");
            }
        }
    }
}

#[test]
fn characters_of_several_tokens_come_when_they_are_complete() {
    for stem in ["gpt2", "llama"] {
        let tokenizer = Tokenizer::from_folder(&folder().join(stem)).unwrap();
        let ids = tokenizer.encode("a𐍈b", false).unwrap();
        assert_eq!(ids.len(), 6, "{stem}: four bytes between two letters");
        let mut stream = tokenizer.decode_stream(false);
        let steps: Vec<Option<String>> = ids.iter().map(|&id| stream.step(id).unwrap()).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(steps, [some("a"), None, None, None, some("𐍈"), some("b")], "{stem}");
        assert_eq!(stream.finish().unwrap(), None);

        let mut broken = tokenizer.decode_stream(false);
        assert_eq!(broken.step(ids[1]).unwrap(), None);
        assert!(broken.step(1 << 20).is_err());
        assert_eq!(broken.finish().unwrap().as_deref(), Some("\u{fffd}"));
        // Bytes that never become a character are not waited for without end.
        let mut endless = tokenizer.decode_stream(false);
        let given: usize = (0..40).filter(|_| endless.step(ids[1]).unwrap().is_some()).count();
        assert!(given >= 2, "{stem}: {given}");
    }
}

#[test]
fn many_texts_are_encoded_as_one_by_one() {
    let texts = texts();
    let tokenizer = Tokenizer::from_folder(&folder().join("llama")).unwrap();
    let together = tokenizer.encode_all(&texts, true).unwrap();
    let alone: Vec<_> = texts.iter().map(|text| tokenizer.encode(text, true).unwrap()).collect();
    assert_eq!(together, alone);
}

#[test]
fn chats_are_rendered_as_by_transformers() {
    let golden = read(&folder().join("chat.json"));
    let mut wrong = Vec::new();
    let rows = golden["rows"].as_array().unwrap();
    assert!(rows.len() > 70);
    for row in rows {
        let (name, chat) = (row["template"].as_str().unwrap(), row["chat"].as_str().unwrap());
        let settings = serde_json::json!({
            "tokenizer_class": "LlamaTokenizer", "chat_template": golden["templates"][name],
        });
        let model = fs::read(folder().join("llama/tokenizer.model")).unwrap();
        let files = [
            ("tokenizer.model".to_owned(), model),
            ("tokenizer_config.json".to_owned(), settings.to_string().into_bytes()),
        ];
        let tokenizer = Tokenizer::from_files(Path::new("x"), &files, None).unwrap().unwrap();
        let chat = &golden["chats"][chat];
        let messages: Vec<Message> = serde_json::from_value(chat["messages"].clone()).unwrap();
        // The day that templates write themselves where they get none.
        let mut options = ChatOptions { date: Date::new(2024, 7, 26), ..ChatOptions::default() };
        for (option, value) in chat["options"].as_object().unwrap() {
            match option.as_str() {
                "add_generation_prompt" => options.add_generation_prompt = value == true,
                "tools" => options.tools = Some(value.clone()),
                "documents" => options.documents = Some(value.clone()),
                "date" => options.date = Date::new(2025, 3, 4),
                _ => {
                    options.variables.insert(option.clone(), value.clone());
                }
            }
        }
        let found = tokenizer.chat_with(&messages, &options);
        let agrees = match (&found, row["text"].as_str(), row["fails"].as_str()) {
            (Ok(text), Some(expected), None) => text == expected,
            (Err(TokenizerError::Template { reason, .. }), None, Some(expected)) => {
                expected.is_empty() || reason == expected
            }
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{name} {}:\n{found:?}\n{row}", row["chat"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}
