use super::*;
use serde_json::json;

/// A word-level tokenizer: `<s>` a b c, of which the post-processor puts `<s>` first.
fn word_level() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [
            {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true}
        ],
        "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
        },
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "a": 1, "b": 2, "c": 3}, "unk_token": "c"}
    })
}

fn load(json: &Value, config: Option<Value>) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_bytes(
        Path::new("x/tokenizer.json"),
        json.to_string().as_bytes(),
        config.as_ref(),
    )
}

#[test]
fn policies_decide_about_the_first_token_and_truncation_is_off() {
    let plain = load(&word_level(), Some(json!({"bos_token": "<s>", "eos_token": null}))).unwrap();
    assert_eq!(plain.encode("a b a", false).unwrap(), [1, 2, 1]);
    assert_eq!(plain.encode("a b a", true).unwrap(), [0, 1, 2, 1]);
    assert_eq!(plain.encode_document("a b", Bos::Auto).unwrap(), [0, 1, 2]);
    assert_eq!(plain.encode_document("a b", Bos::Never).unwrap(), [1, 2]);
    assert_eq!(plain.encode_document("", Bos::Always).unwrap(), [0]);
    assert_eq!((plain.vocab(), plain.bos(), plain.eos()), (4, Some(0), None));

    // A text that begins with the token needs no other, as in lm-evaluation-harness.
    assert_eq!(plain.encode_document("<s> a", Bos::Auto).unwrap(), [0, 1]);
    assert_eq!(plain.encode_document("a <s>", Bos::Auto).unwrap(), [0, 1, 0]);
    let mut without = word_level();
    without["post_processor"] = Value::Null;
    let configured = load(&without, Some(json!({"bos_token": {"content": "<s>"}}))).unwrap();
    assert_eq!(configured.encode_document("a", Bos::Auto).unwrap(), [1]);
    assert_eq!(configured.encode_document("a", Bos::Always).unwrap(), [0, 1]);
}

/// A tokenizer of a folder with settings and the type of its model.
fn in_folder(json: &Value, settings: &Value, model_type: &str) -> Tokenizer {
    let (json, settings) = (json.to_string(), settings.to_string());
    let rows = [("tokenizer.json", json.as_str()), ("tokenizer_config.json", settings.as_str())];
    Tokenizer::from_files(Path::new("x"), &files(&rows), Some(model_type)).unwrap().unwrap()
}

#[test]
fn the_post_processor_counts_and_not_what_the_settings_say() {
    // By transformers 5.24, for every class and type of model that is known here.
    let mut with = word_level();
    let end = json!({"id": 1, "content": "</s>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    with["added_tokens"].as_array_mut().unwrap().push(end);
    with["model"]["vocab"] = json!({"<s>": 0, "</s>": 1, "a": 2});
    let mut without = with.clone();
    without["post_processor"] = Value::Null;
    for flags in [
        json!({}),
        json!({"add_bos_token": true}),
        json!({"add_bos_token": false}),
        json!({"add_eos_token": true}),
        json!({"add_bos_token": false, "add_eos_token": true}),
    ] {
        let mut settings = json!({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "a"});
        settings.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        for model_type in ["llama", "mistral", "qwen2", "phi", "opt"] {
            for (json, adds) in [(&with, true), (&without, false)] {
                let tokenizer = in_folder(json, &settings, model_type);
                let ids = if adds { vec![0, 2] } else { vec![2] };
                assert_eq!(tokenizer.encode("a", true).unwrap(), ids, "{model_type} {flags}");
                assert_eq!(tokenizer.adds_bos(), adds, "{model_type} {flags}");
                let disagrees = flags.get("add_bos_token").is_some_and(|said| *said != adds)
                    || flags.get("add_eos_token").is_some();
                assert_eq!(!tokenizer.notes().is_empty(), disagrees, "{model_type} {flags}");
            }
        }
        // This class builds a post-processor that adds nothing.
        let rebuilt = in_folder(&with, &settings, "gpt_neox");
        assert_eq!(rebuilt.encode("a", true).unwrap(), [2], "{flags}");
        assert!(!rebuilt.adds_bos());
        let note = "the special tokens that the post-processor of tokenizer.json puts around";
        assert!(rebuilt.notes()[0].starts_with(note), "{:?}", rebuilt.notes());
    }
    // These add their own, whatever the file has.
    let mut bert = without.clone();
    bert["model"]["vocab"] = json!({"<s>": 0, "</s>": 1, "a": 2, "[CLS]": 3, "[SEP]": 4});
    let settings = json!({"unk_token": "a"});
    assert_eq!(in_folder(&bert, &settings, "bert").encode("a", true).unwrap(), [3, 2, 4]);
    bert["post_processor"] = with["post_processor"].clone();
    assert_eq!(in_folder(&bert, &settings, "bert").encode("a", true).unwrap(), [3, 2, 4]);
    assert_eq!(in_folder(&bert, &settings, "roberta").encode("a", true).unwrap(), [0, 2, 1]);
    let odd = json!({"bos_token": "<s>", "unk_token": "a", "add_bos_token": "yes"});
    assert!(in_folder(&with, &odd, "llama").adds_bos(), "a flag that does not count is not judged");
}

#[test]
fn added_tokens_beyond_the_model_are_noted_and_its_vocabulary_is_not() {
    let mut more = word_level();
    let pad = json!({"id": 9, "content": "<pad>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    more["added_tokens"].as_array_mut().unwrap().push(pad);
    let settings = json!({"bos_token": "<none>", "pad_token": "<pad>"});
    let tokenizer = in_folder(&more, &settings, "mistral").for_model(4, Some(2), None).unwrap();
    assert_eq!(tokenizer.bos(), Some(2), "a token without a row is none");
    let note = "the added token \"<pad>\" has id 4, the model knows ids below 4";
    assert!(tokenizer.notes().iter().any(|said| said.contains(note)), "{:?}", tokenizer.notes());
    let large = in_folder(&more, &settings, "mistral").for_model(3, None, None).unwrap_err();
    assert!(matches!(large, TokenizerError::Vocabulary { id: 3, vocab: 3, .. }), "{large}");
}

#[test]
fn long_texts_are_cut_as_in_transformers() {
    let settings = json!({"unk_token": "c"});
    let right = in_folder(&word_level(), &settings, "mistral");
    assert_eq!(right.encode_cut("a b a b", 3).unwrap(), (vec![0, 1, 2], 2));
    assert_eq!(right.encode_cut("a b", 3).unwrap(), (vec![0, 1, 2], 0));
    assert_eq!(right.encode_cut("a b", 1).unwrap(), (vec![0], 2));
    assert_eq!(right.encode_cut("", 3).unwrap(), (vec![0], 0));
    let settings = json!({"unk_token": "c", "truncation_side": "left"});
    let left = in_folder(&word_level(), &settings, "mistral");
    assert_eq!(left.encode_cut("a b a b", 3).unwrap(), (vec![0, 1, 2], 2));
    assert_eq!(left.encode_cut("a a b", 2).unwrap(), (vec![0, 2], 2));
}

#[test]
fn the_configuration_of_the_model_fills_in_ids() {
    let bare = load(&word_level(), None).unwrap();
    assert!(!bare.adds_bos());
    let error = bare.encode_document("a", Bos::Always).unwrap_err();
    assert!(matches!(error, TokenizerError::NoBos { .. }), "{error}");
    let with = bare.for_model(4, Some(0), Some(3)).unwrap();
    assert!(with.adds_bos());
    assert_eq!(with.encode_document("a", Bos::Auto).unwrap(), [0, 1]);
    assert_eq!(with.decode(&[0, 1, 2, 3], true).unwrap(), "a b");
    assert_eq!(with.decode(&[0, 1], false).unwrap(), "<s> a");
}

#[test]
fn what_is_wrong_is_said_with_file_and_reason() {
    let path = Path::new("x/tokenizer.json");
    let broken = Tokenizer::from_bytes(path, b"{\"model\": ", None).unwrap_err();
    let unknown = load(&word_level(), Some(json!({"bos_token": "<none>"}))).unwrap_err();
    let good = load(&word_level(), None).unwrap();
    let id = good.decode(&[9], true).unwrap_err();
    let vocab = good.for_model(3, None, None).unwrap_err();
    assert!(matches!(broken, TokenizerError::Invalid { .. }));
    assert!(matches!(unknown, TokenizerError::Config { field: "bos_token", .. }));
    assert!(matches!(id, TokenizerError::UnknownId { id: 9, .. }));
    assert!(matches!(vocab, TokenizerError::Vocabulary { id: 3, vocab: 3, .. }));
    for error in [broken, unknown, id, vocab] {
        assert!(error.to_string().contains("x/tokenizer.json: "), "{error}");
    }
}

/// Names and contents of files.
fn files(rows: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    rows.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

fn from_files(rows: &[(&str, &str)]) -> Result<Option<Tokenizer>, TokenizerError> {
    Tokenizer::from_files(Path::new("x"), &files(rows), None)
}

const VOCAB: &str = r#"{"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4, "Ġa": 5}"#;
const MERGES: &str = "#version: 0.2\na b\nĠ a\n";

#[test]
fn raw_vocabularies_say_what_is_wrong_with_them() {
    assert!(from_files(&[("vocab.json", VOCAB)]).unwrap().is_none(), "merges are missing");
    let good = from_files(&[("vocab.json", VOCAB), ("merges.txt", MERGES)]).unwrap().unwrap();
    assert_eq!(good.encode("ab a<|endoftext|>", false).unwrap(), [3, 5, 0]);
    let byte_level = |vocab, merges| from_files(&[("vocab.json", vocab), ("merges.txt", merges)]);
    for (result, said) in [
        (byte_level("[1]", MERGES), "x/vocab.json: the file: found a list, expected a JSON object"),
        (byte_level(r#"{"a": -1}"#, ""), "x/vocab.json: token \"a\": found -1"),
        (byte_level(r#"{"a": "1"}"#, ""), "x/vocab.json: token \"a\""),
        (byte_level(r#"{"a": 4294967296}"#, ""), "x/vocab.json: token \"a\""),
        (byte_level(r#"{"a": 4000000000}"#, ""), "the largest id 4000000000"),
        (byte_level("{}", ""), "0 tokens"),
        (byte_level(VOCAB, "a b\n\nĠ a"), "x/merges.txt: line 2"),
        (byte_level(VOCAB, "a b c"), "x/merges.txt: line 1: found \"a b c\""),
        (byte_level(VOCAB, "a c"), "the token \"c\""),
        (byte_level(VOCAB, "ab ab"), "the token \"abab\""),
        (from_files(&[("vocab.txt", "a\nb\n")]), "the unknown token \"[UNK]\""),
        (
            from_files(&[("vocab.txt", "[UNK]\n"), ("special_tokens_map.json", "[]")]),
            "x/special_tokens_map.json",
        ),
        (
            from_files(&[
                ("vocab.txt", "[UNK]\n"),
                ("tokenizer_config.json", r#"{"cls_token": 5}"#),
            ]),
            "cls_token: found 5",
        ),
        (
            from_files(&[
                ("vocab.txt", "[UNK]\n"),
                ("tokenizer_config.json", r#"{"cls_token": null}"#),
            ]),
            "cls_token: found no token",
        ),
        (
            from_files(&[
                ("vocab.txt", "[UNK]\n"),
                ("tokenizer_config.json", r#"{"do_lower_case": 1}"#),
            ]),
            "do_lower_case: found 1",
        ),
        (
            from_files(&[
                ("vocab.txt", "[UNK]\n"),
                ("tokenizer_config.json", r#"{"tokenizer_class": "T5Tokenizer"}"#),
            ]),
            "class T5",
        ),
        (
            from_files(&[
                ("vocab.txt", "[UNK]\n"),
                ("tokenizer_config.json", r#"{"added_tokens_decoder": {"x": "y"}}"#),
            ]),
            "the id \"x\"",
        ),
    ] {
        let error = result.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    let latin = [("vocab.txt".to_owned(), b"[UNK]\n\xe9\n".to_vec())];
    let error = Tokenizer::from_files(Path::new("x"), &latin, None).unwrap_err();
    assert!(error.to_string().contains("x/vocab.txt: byte 6"), "{error}");
}

#[test]
fn added_tokens_get_the_ids_of_the_vocabulary_whatever_they_are_declared_with() {
    let legacy = [("vocab.txt", "[UNK]\n"), ("added_tokens.json", r#"{"x": 7}"#)];
    let declared = r#"{"added_tokens_decoder": {"99999": {"content": "x"}, "-1": {"content": "[UNK]"}}, "model_max_length": Infinity}"#;
    let newer = [("vocab.txt", "[UNK]\n"), ("tokenizer_config.json", declared)];
    for (rows, said) in [
        (legacy, "\"x\" is declared with the id 7 and has 1"),
        (
            newer,
            "\"[UNK]\" is declared with the id -1 and has 0, which counts, as in transformers 5 (and 1 more",
        ),
    ] {
        let tokenizer = from_files(&rows).unwrap().unwrap();
        assert_eq!(tokenizer.encode("x", false).unwrap(), [1]);
        assert!(
            tokenizer.notes().iter().any(|note| note.contains(said)),
            "{:?}",
            tokenizer.notes()
        );
    }
    let newer = from_files(&newer).unwrap().unwrap();
    assert!(newer.notes()[0].starts_with("tokenizer_config.json holds Infinity"));
}

#[test]
fn tokens_that_only_a_role_asks_for_need_no_row_in_the_model() {
    let vocab = VOCAB.replace("<|endoftext|>", "z");
    let tokenizer = from_files(&[("vocab.json", &vocab), ("merges.txt", MERGES)]).unwrap().unwrap();
    assert_eq!(tokenizer.encode("a<|endoftext|>", false).unwrap(), [1, 6]);
    assert_eq!((tokenizer.eos(), tokenizer.vocab()), (Some(6), 7));
    let fitted = tokenizer.for_model(6, None, Some(3)).unwrap();
    assert_eq!((fitted.bos(), fitted.eos()), (None, Some(3)));
    let declared = r#"{"added_tokens_decoder": {"6": {"content": "<x>"}}}"#;
    let rows = [("vocab.json", VOCAB), ("merges.txt", MERGES), ("tokenizer_config.json", declared)];
    let fitted = from_files(&rows).unwrap().unwrap().for_model(6, None, None).unwrap();
    assert!(fitted.notes()[0].contains("\"<x>\" has id 6"), "{:?}", fitted.notes());
}

#[test]
fn pairs_have_types_and_encoders_their_ends() {
    let vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n";
    let bert = from_files(&[("vocab.txt", vocab)]).unwrap().unwrap();
    assert_eq!(bert.encode_with_special("A abb [MASK]").unwrap(), [2, 5, 5, 7, 7, 4, 3]);
    let pair = bert.encode_pair("a", "b").unwrap();
    assert_eq!((pair.ids, pair.type_ids), (vec![2, 5, 3, 6, 3], vec![0, 0, 0, 1, 1]));
}

/// The tokenizer above with changes by JSON pointer.
fn changed(changes: &[(&str, Value)]) -> Value {
    let mut json = word_level();
    for (pointer, value) in changes {
        *json.pointer_mut(pointer).unwrap() = value.clone();
    }
    json
}

/// What the library does with bytes that [`library_limits`] refuses: panics, on loading or after.
fn library_panics(json: &Value) -> bool {
    let bytes = json.to_string();
    std::panic::catch_unwind(move || {
        let Ok(tokenizer) = tokenizers::Tokenizer::from_bytes(bytes) else { return };
        for text in ["", "a  b", "R  L"] {
            let ids = tokenizer.encode_fast(text, true).unwrap().get_ids().to_vec();
            tokenizer.decode(&ids, false).unwrap();
        }
    })
    .is_err()
}

fn token(content: &str, lstrip: bool, rstrip: bool, id: u32) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": rstrip,
           "normalized": false, "special": true})
}

#[test]
fn what_the_library_panics_on_is_refused() {
    let bpe = |merges: Value| json!({"type": "BPE", "vocab": {"a": 0, "ab": 1, "b": 2, "<s>": 3}, "merges": merges});
    let cut = json!({"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAA=="});
    let spaces = json!([token("R", false, true, 4), token(" ", true, false, 5)]);
    let single = json!([{"Sequence": {"id": "B", "type_id": 0}}]);
    let special = json!({"<s>": {"id": "<s>", "ids": [], "tokens": ["<s>"]}});
    let strip = json!({"type": "Strip", "content": " ", "start": 0, "stop": 1});
    let sequence = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": ""}, strip]});
    // The library computes the next id; it overflows, or wraps round where nothing checks it.
    let mut plain = token("x", false, false, 1);
    plain["special"] = false.into();
    let last = json!({"type": "WordLevel", "vocab": {"a": 0, "<s>": u32::MAX}, "unk_token": "<s>"});
    for (changes, said, panics) in [
        (vec![("/model", bpe(json!([["ab", "ab"]])))], "model.merges[0]", true),
        (vec![("/model", bpe(json!(["a b", "ab ab"])))], "model.merges[1]", true),
        (vec![("/model", bpe(json!([["a", "x"]])))], "the token \"x\"", false),
        (vec![("/normalizer", cut)], "normalizer: found a trie of 8 bytes", true),
        (vec![("/normalizer", json!({"type": "Precompiled"}))], "invalid base64", true),
        (vec![("/decoder", sequence)], "stop = 0", true),
        (vec![("/pre_tokenizer", json!({"type": "FixedLength", "length": 0}))], "length 0", true),
        (vec![("/post_processor/single", single)], "B in the template", true),
        (vec![("/post_processor/special_tokens", json!({}))], "special token \"<s>\"", true),
        (vec![("/post_processor/special_tokens", special)], "as many ids as tokens", false),
        (
            vec![
                ("/model", last),
                ("/added_tokens", json!([token("<s>", false, false, 0), plain])),
            ],
            "4294967295",
            false,
        ),
        (vec![("/added_tokens", spaces)], "added tokens \"R\" and \" \"", true),
    ] {
        let json = changed(&changes);
        let error = load(&json, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
        assert_eq!(library_panics(&json), panics, "{said}");
    }
    // A decoder that is cut off.
    let text = word_level().to_string().replace("\"decoder\":null", "\"decoder\":{\"type\":");
    assert!(load(&json!(null), None).is_err());
    let error = Tokenizer::from_bytes(Path::new("x"), text.as_bytes(), None).unwrap_err();
    assert!(matches!(error, TokenizerError::Invalid { .. }), "{error}");
    let random = json!({"type": "BPE", "vocab": {"a": 0, "<s>": 1}, "merges": [], "dropout": 0.1});
    let error = load(&changed(&[("/model", random)]), None).unwrap_err();
    assert!(error.to_string().contains("random"), "{error}");
    let deep =
        json!({"type": "Unigram", "unk_id": 0, "vocab": [["<s>", 0.0], ["x".repeat(5000), 1.0]]});
    let error = load(&changed(&[("/model", deep)]), None).unwrap_err();
    assert!(error.to_string().contains("a piece of 5000 bytes"), "{error}");
}

#[test]
fn long_pieces_that_are_taken_do_not_overflow_a_small_stack() {
    let vocab = json!([["<s>", 0.0], ["x".repeat(1024), 1.0]]);
    let json = changed(&[("/model", json!({"type": "Unigram", "unk_id": 0, "vocab": vocab}))]);
    let work = move || {
        let tokenizer = load(&json, None).unwrap();
        tokenizer.clone().encode(&"x".repeat(9000), false).unwrap().len()
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap();
    assert!(thread.join().unwrap() > 1);
}

/// Numbers without any claim to be random, but the same ones every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Changes the value at a place, counted from the root through the first parts of everything.
fn change(value: &mut Value, place: &mut usize, draw: &mut Draw) -> bool {
    if *place == 0 {
        let texts = ["", " ", "a", "(?=", "\\s*", "Strip", "Precompiled", "Split", "CTC", "always"];
        *value = match draw.below(6) {
            0 => Value::Null,
            1 => json!(draw.below(4)),
            2 | 3 => json!(texts[draw.below(texts.len())]),
            4 => json!(draw.below(2) == 0),
            _ => json!([]),
        };
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(parts) => parts.iter_mut().take(6).any(|part| change(part, place, draw)),
        Value::Object(parts) => parts.values_mut().take(10).any(|part| change(part, place, draw)),
        _ => false,
    }
}

#[test]
fn changed_files_are_refused_or_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tokenizers");
    let mut taken = 0;
    for stem in ["llama", "albert", "roberta", "bert-cased", "gemma"] {
        let whole = Tokenizer::from_folder(&root.join(stem)).unwrap().inner.to_string(false);
        let whole: Value = serde_json::from_str(&whole.unwrap()).unwrap();
        let mut draw = Draw(7);
        for _ in 0..120 {
            let mut json = whole.clone();
            let parts =
                ["normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"];
            let part = &mut json[parts[draw.below(parts.len())]];
            change(part, &mut draw.below(12), &mut draw);
            let Ok(tokenizer) = load(&json, None) else { continue };
            taken += 1;
            for text in ["", "Hello  <mask> é😀\n", " <s>12  x"] {
                if let Ok(ids) = tokenizer.encode(text, true) {
                    let _ = tokenizer.decode(&ids, true);
                }
                let _ = tokenizer.encode_pair(text, "b");
            }
        }
    }
    assert!(taken > 100, "{taken}: most changes should leave a tokenizer");
}

/// The bytes that texts of tokens stand for.
fn bytes_of(texts: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        match text.strip_prefix("bytes:") {
            Some(hex) => {
                let each = hex.split("\\x").skip(1);
                bytes.extend(each.map(|hex| u8::from_str_radix(hex, 16).unwrap()));
            }
            None => bytes.extend(text.as_bytes()),
        }
    }
    bytes
}

#[test]
fn texts_of_tokens_joined_are_the_text_down_to_its_bytes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tokenizers");
    for stem in ["llama", "roberta", "gemma"] {
        let tokenizer = Tokenizer::from_folder(&root.join(stem)).unwrap();
        let text = "the cat 12 \u{1f600}\u{4e8c} end";
        let ids = tokenizer.encode(text, false).unwrap();
        let texts: Vec<String> = ids.iter().map(|&id| tokenizer.token_text(id).unwrap()).collect();
        let joined = String::from_utf8(bytes_of(&texts)).unwrap();
        assert_eq!(joined.trim_start(), text, "{stem}: {texts:?}");
        assert!(texts.iter().any(|text| text.starts_with("bytes:\\x")), "{stem}: {texts:?}");
        assert_eq!(tokenizer.token_text(4_000_000).unwrap(), "<4000000>");
        let end = tokenizer.eos().unwrap();
        let name = tokenizer.inner.id_to_token(end).unwrap();
        assert_eq!(tokenizer.token_text(end).unwrap(), name, "{stem}");
    }
}

#[test]
fn classes_of_word_piece_cut_words_by_the_settings_and_not_by_the_file() {
    let tokens = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<pad>", "<mask>", "a", "A",
        "é", "e", "É", "##b", "中", "文", "中文", ".", "b",
    ];
    let vocab: serde_json::Map<String, Value> =
        tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), Value::from(id))).collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": false, "lowercase": false},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab}
    });
    let plain = json!({});
    let cased = json!({"do_lower_case": false});
    let accents = json!({"do_lower_case": true, "strip_accents": false});
    let words =
        json!({"do_lower_case": false, "tokenize_chinese_chars": false, "strip_accents": true});
    // By transformers 5.24.
    let of_file: &[u32] = &[10, 9, 14, 13, 11, 15, 16, 9, 18, 19];
    let rows: [(&Value, &[u32]); 4] = [
        (&plain, &[9, 9, 14, 12, 12, 15, 16, 9, 18, 19]),
        (&cased, of_file),
        (&accents, &[9, 9, 14, 11, 11, 15, 16, 9, 18, 19]),
        (&words, &[10, 9, 14, 1, 12, 17, 9, 18, 19]),
    ];
    let known = [
        "",
        "BertTokenizer",
        "BertTokenizerFast",
        "DistilBertTokenizer",
        "MobileBertTokenizer",
        "LayoutLMTokenizer",
        "MPNetTokenizer",
        "MPNetTokenizerFast",
        "PreTrainedTokenizerFast",
        "FooTokenizer",
    ];
    for class in known {
        for (settings, by_class) in rows {
            let mut settings = settings.clone();
            if !class.is_empty() {
                settings["tokenizer_class"] = class.into();
            }
            let tokenizer = in_folder(&file, &settings, "bert");
            let (want, ends) = match class {
                "PreTrainedTokenizerFast" | "FooTokenizer" => (of_file, None),
                "MPNetTokenizer" | "MPNetTokenizerFast" => (by_class, Some([5, 6])),
                _ => (by_class, Some([2, 3])),
            };
            let [first, last] = ends.map_or([vec![], vec![]], |ends| ends.map(|id| vec![id]));
            let found = tokenizer.encode_with_special("A ab É é 中文 a.b").unwrap();
            assert_eq!(found, [&first[..], want, &last].concat(), "{settings}");
            let notes = tokenizer.notes();
            assert_eq!(!notes.is_empty(), want != of_file, "{settings}: {notes:?}");
        }
    }
    let mpnet = in_folder(&file, &json!({}), "mpnet");
    assert_eq!(mpnet.encode_with_special("a<mask>").unwrap(), [5, 9, 8, 6]);
    let pair = mpnet.encode_pair("a", "b").unwrap();
    assert_eq!((pair.ids, pair.type_ids), (vec![5, 9, 6, 6, 19, 6], vec![0; 6]));
    let text = tokens.join("\n");
    let raw = [("vocab.txt", text.as_str())];
    let raw = Tokenizer::from_files(Path::new("x"), &files(&raw), Some("mpnet")).unwrap().unwrap();
    assert_eq!(raw.encode_with_special("A<mask>").unwrap(), [5, 9, 8, 6]);
}

/// Byte-level BPE of all bytes, with a few merges; `space` and `digits`: how the file cuts texts.
fn bytes_with(space: bool, digits: bool) -> Value {
    // As GPT-2: visible characters stand for themselves, others follow from 256 on.
    let is_shown = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let hidden = (0..256).filter(|byte| !is_shown(*byte)).count() as u32;
    let letters = (0..256).filter(|byte| is_shown(*byte)).chain(256..256 + hidden);
    let letters = letters.map(|letter| char::from_u32(letter).unwrap().to_string());
    let more = ["\u{120}h", "hi", "12", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>"];
    let tokens = letters.chain(more.map(str::to_owned));
    let vocab: serde_json::Map<String, Value> =
        tokens.enumerate().map(|(id, token)| (token, json!(id))).collect();
    let own = json!({
        "type": "ByteLevel", "add_prefix_space": space, "trim_offsets": true, "use_regex": true,
    });
    let split = json!({"type": "Digits", "individual_digits": true});
    let cuts = match digits {
        true => json!({"type": "Sequence", "pretokenizers": [split, own]}),
        false => own,
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": cuts, "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocab, "merges": ["\u{120} h", "h i", "1 2"],
        },
    })
}

#[test]
fn classes_of_bytes_put_a_space_before_a_text_where_the_settings_say_so() {
    let plain = ["hi", "\u{120}", "12"];
    let spaced = ["\u{120}h", "i", "\u{120}", "12"];
    let single = ["hi", "\u{120}", "1", "2"];
    let words = ["\u{120}h", "i", "\u{120}", "\u{120}", "1", "\u{120}", "2"];
    // Class, type of model, setting; space and digits in the file: by transformers 5.23.
    for (class, model, said, space, digits, want) in [
        ("GPT2Tokenizer", "gpt2", None, true, false, &plain[..]),
        ("GPT2Tokenizer", "gpt2", None, false, false, &plain),
        ("GPT2Tokenizer", "gpt2", Some(true), false, false, &spaced),
        ("GPT2Tokenizer", "gpt2", Some(true), true, false, &spaced),
        ("GPT2Tokenizer", "gpt2", Some(false), true, false, &plain),
        ("GPT2TokenizerFast", "llama", Some(true), false, false, &spaced),
        ("GPT2Tokenizer", "starcoder2", None, false, true, &plain),
        ("CodeGenTokenizer", "phi", None, true, false, &plain),
        ("CodeGenTokenizer", "phi", Some(true), false, false, &spaced),
        ("RobertaTokenizer", "roberta", None, true, false, &plain),
        ("RobertaTokenizer", "roberta", Some(true), false, false, &spaced),
        ("BartTokenizer", "bart", Some(true), false, false, &spaced),
        ("GPTNeoXTokenizer", "gpt_neox", None, true, false, &plain),
        ("GPTNeoXTokenizer", "gpt_neox", Some(true), false, false, &spaced),
        ("Qwen2Tokenizer", "qwen2", None, true, false, &single),
        ("Qwen2Tokenizer", "qwen2", Some(true), false, false, &words),
        // The file is complete.
        ("PreTrainedTokenizerFast", "gpt2", Some(true), false, false, &plain),
        ("PreTrainedTokenizerFast", "llama", None, true, false, &spaced),
        ("LlamaTokenizer", "llama", Some(false), true, false, &spaced),
        ("GPT2Tokenizer", "mistral", Some(false), true, false, &spaced),
        ("GPT2Tokenizer", "mistral", None, false, true, &single),
    ] {
        let mut settings = json!({"tokenizer_class": class});
        if let Some(said) = said {
            settings["add_prefix_space"] = said.into();
        }
        let read = in_folder(&bytes_with(space, digits), &settings, model);
        let ids = read.encode("hi 12", false).unwrap();
        let found: Vec<String> =
            ids.iter().map(|id| read.inner.id_to_token(*id).unwrap()).collect();
        assert_eq!(found, want, "{class} {model} {said:?} {space} {digits}");
        let own_rules = want == read_by_the_file_alone(space, digits);
        let noted = read.notes().iter().any(|note| note.contains("cut into words do not count"));
        assert!(own_rules || noted, "{class} {model} {said:?} {space}: {:?}", read.notes());
    }
    let settings = json!({"tokenizer_class": "GPT2Tokenizer"});
    let same = in_folder(&bytes_with(false, false), &settings, "gpt2");
    assert!(same.notes().is_empty(), "{:?}", same.notes());
}

/// The tokens of the text by the rules of the file.
fn read_by_the_file_alone(space: bool, digits: bool) -> Vec<String> {
    let read = load(&bytes_with(space, digits), None).unwrap();
    let ids = read.encode("hi 12", false).unwrap();
    ids.iter().map(|id| read.inner.id_to_token(*id).unwrap()).collect()
}
