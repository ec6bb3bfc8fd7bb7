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

    let config = json!({"bos_token": {"content": "<s>"}, "add_bos_token": false});
    let told = load(&word_level(), Some(config)).unwrap();
    assert_eq!(told.encode_document("a", Bos::Auto).unwrap(), [1]);
    assert_eq!(told.encode_document("a", Bos::Always).unwrap(), [0, 1]);
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
    let flag = load(&word_level(), Some(json!({"add_bos_token": "yes"}))).unwrap_err();
    let good = load(&word_level(), None).unwrap();
    let id = good.decode(&[9], true).unwrap_err();
    let vocab = good.for_model(3, None, None).unwrap_err();
    assert!(matches!(broken, TokenizerError::Invalid { .. }));
    assert!(matches!(unknown, TokenizerError::Config { field: "bos_token", .. }));
    assert!(matches!(flag, TokenizerError::Config { field: "add_bos_token", .. }));
    assert!(matches!(id, TokenizerError::UnknownId { id: 9, .. }));
    assert!(matches!(vocab, TokenizerError::Vocabulary { id: 3, vocab: 3, .. }));
    for error in [broken, unknown, flag, id, vocab] {
        assert!(error.to_string().contains("x/tokenizer.json: "), "{error}");
    }
}
