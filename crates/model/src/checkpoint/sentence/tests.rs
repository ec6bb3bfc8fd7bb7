use super::*;
use std::fs;

/// A folder of an encoder with files beside its list of modules.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn config() -> TransformerConfig {
    let bert = serde_json::json!({
        "model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": 4, "vocab_size": 8, "max_position_embeddings": 32,
    });
    TransformerConfig::from_json(&bert).unwrap()
}

fn read(files: &[(&str, &str)]) -> Result<Sentence, String> {
    let dir = folder(files);
    Sentence::read(dir.path(), &config(), None, None, None)
}

/// A list of modules, of these classes.
fn list(classes: &[&str]) -> String {
    let module = |(index, class): (usize, &&str)| {
        let name = class.rsplit('.').next().unwrap();
        let path = if index == 0 { String::new() } else { format!("{index}_{name}") };
        serde_json::json!({"idx": index, "name": index.to_string(), "path": path, "type": class})
    };
    serde_json::to_string(&classes.iter().enumerate().map(module).collect::<Vec<_>>()).unwrap()
}

const TRANSFORMER: &str = "sentence_transformers.models.Transformer";
const POOLING: &str = "sentence_transformers.sentence_transformer.modules.pooling.Pooling";

fn pooled(settings: &str) -> Result<Vec<Pooling>, String> {
    let sentence = read(&[
        (modules::MODULES, &list(&[TRANSFORMER, POOLING])),
        ("1_Pooling/config.json", settings),
    ]);
    sentence.map(|sentence| sentence.poolings)
}

#[test]
fn poolings_are_read_in_old_and_new_files() {
    use Pooling::{First, Last, Max, Mean, MeanSqrtLength, WeightedMean};
    for (settings, want) in [
        (r#"{"pooling_mode": "cls", "embedding_dimension": 4}"#, vec![First]),
        (r#"{"pooling_mode": ["weightedmean", "lasttoken"]}"#, vec![WeightedMean, Last]),
        (r#"{"pooling_mode": "max", "pooling_mode_mean_tokens": true}"#, vec![Max]),
        (r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}"#, vec![Mean]),
        // Older files join their vectors in the order of the modes, whatever that of the fields.
        (
            r#"{"pooling_mode_mean_sqrt_len_tokens": true, "pooling_mode_cls_token": true}"#,
            vec![First, MeanSqrtLength],
        ),
        ("{}", vec![Mean]),
    ] {
        assert_eq!(pooled(settings), Ok(want), "{settings}");
    }
    for (settings, said) in [
        (r#"{"pooling_mode": "median"}"#, "config.json: pooling_mode is \"median\", expected cls"),
        (r#"{"pooling_mode": ["cls", 3]}"#, "pooling_mode is [\"cls\",3]"),
        (r#"{"pooling_mode": []}"#, "pooling_mode is []"),
        (r#"{"pooling_mode": null}"#, "pooling_mode is null"),
        (r#"{"pooling_mode_cls_token": 1}"#, "pooling_mode_cls_token is 1, expected true or false"),
        (r#"{"include_prompt": "no"}"#, "include_prompt is \"no\""),
        ("[]", "1_Pooling/config.json"),
    ] {
        let error = pooled(settings).unwrap_err();
        assert!(error.contains(said), "{settings}: {error}");
    }
}

#[test]
fn what_is_not_supported_is_named_with_its_file() {
    let normal = list(&[TRANSFORMER, POOLING]);
    let with = |name: &'static str, text: &'static str| {
        read(&[(modules::MODULES, &normal), ("1_Pooling/config.json", "{}"), (name, text)])
    };
    let settings = "sentence_bert_config.json";
    for (result, said) in [
        (read(&[(modules::MODULES, "{}")]), "modules.json: not a list in JSON"),
        (
            read(&[(modules::MODULES, &normal.replace("1_Pooling", "../x"))]),
            "not the name of a folder",
        ),
        (read(&[(modules::MODULES, &list(&[TRANSFORMER]))]), "no pooling"),
        (read(&[(modules::MODULES, &list(&[POOLING]))]), "lists Pooling first"),
        (
            read(&[(modules::MODULES, &list(&["custom_st.Transformer", POOLING]))]),
            "lists custom_st.Transformer, which is not a module of sentence-transformers",
        ),
        (
            read(&[(modules::MODULES, &list(&[TRANSFORMER, "sentence_transformers.models.CNN"]))]),
            "modules.json lists CNN, which is not supported",
        ),
        (
            read(&[
                (modules::MODULES, &normal.replace("\"path\":\"\"", "\"path\":\"0_Transformer\"")),
                ("config.json", "{}"),
            ]),
            "the path of the transformer is \"0_Transformer\"",
        ),
        (with(settings, r#"{"max_seq_length": "long"}"#), "max_seq_length is \"long\""),
        (with(settings, r#"{"do_lower_case": true}"#), "do_lower_case is true"),
        (
            with(settings, r#"{"transformer_task": "fill-mask"}"#),
            "transformer_task is \"fill-mask\"",
        ),
        (with(settings, r#"{"modality_config": {"image": {}}}"#), "modality_config is"),
        (with(settings, r#"{"config_args": {"is_decoder": true}}"#), "config_args is"),
        (with(settings, r#"{"tokenizer_args": {"padding_side": "left"}}"#), "no padding_side"),
        (with(settings, "5"), "sentence_bert_config.json"),
        (
            with(modules::ENCODER, r#"{"default_prompt_name": "q", "prompts": {"p": "x"}}"#),
            "default_prompt_name is \"q\", expected the name of a text in prompts, which has [\"p\"]",
        ),
        (with(modules::ENCODER, r#"{"truncate_dim": 0}"#), "truncate_dim is 0"),
    ] {
        let error = result.unwrap_err();
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn limits_and_prompts_are_part_of_the_name() {
    let list = list(&[TRANSFORMER, POOLING, "sentence_transformers.models.Normalize"]);
    let all = |limit: &str, prompts: &str| {
        let files = [
            (modules::MODULES, list.as_str()),
            ("1_Pooling/config.json", r#"{"pooling_mode": ["cls", "mean"]}"#),
            ("sentence_bert_config.json", limit),
            (modules::ENCODER, prompts),
        ];
        read(&files).unwrap()
    };
    assert_eq!(all("{}", "{}").name(), "first+mean");
    // The model has 32 positions.
    assert_eq!(all(r#"{"max_seq_length": 64}"#, "{}").name(), "first+mean");
    let prompts = r#"{"prompts": {"q": "ask: "}, "default_prompt_name": "q", "truncate_dim": 3}"#;
    let limited = all(r#"{"max_seq_length": 16}"#, prompts);
    assert_eq!(limited.name(), "first+mean_prompt-q_len-16_dim-3");
    let given = r#"{"tokenizer_args": {"model_max_length": 8}, "max_seq_length": 16}"#;
    assert_eq!(all(given, r#"{"default_prompt_name": "query"}"#).name(), "first+mean_len-8");
    let plain = folder(&[]);
    let settings = serde_json::json!({"model_max_length": 9});
    let plain = Sentence::read(plain.path(), &config(), None, Some(&settings), None).unwrap();
    assert_eq!(plain.name(), "mean_len-9");
    let endless = serde_json::json!({"model_max_length": 1e30});
    let plain = folder(&[]);
    let plain = Sentence::read(plain.path(), &config(), None, Some(&endless), None).unwrap();
    assert_eq!(plain.name(), "mean");
}

#[test]
fn files_are_copied_even_where_the_list_is_damaged() {
    let dir = folder(&[
        (modules::MODULES, "{"),
        (modules::ENCODER, "{}"),
        ("1_Pooling/config.json", "{}"),
    ]);
    assert_eq!(files(dir.path()).unwrap(), [modules::ENCODER, modules::MODULES]);
    let dir = folder(&[
        (modules::MODULES, &list(&[TRANSFORMER, POOLING])),
        ("1_Pooling/config.json", "{}"),
        ("sentence_roberta_config.json", "{}"),
    ]);
    let want = ["sentence_roberta_config.json", modules::MODULES, "1_Pooling/config.json"];
    assert_eq!(files(dir.path()).unwrap(), want);
}

#[test]
fn types_of_weights_are_noted_and_the_folder_of_the_transformer_is_found() {
    let with = |arguments: &str| {
        read(&[
            (modules::MODULES, &list(&[TRANSFORMER, POOLING])),
            ("1_Pooling/config.json", r#"{"pooling_mode": "cls"}"#),
            ("sentence_bert_config.json", arguments),
        ])
        .unwrap()
    };
    let noted = with(r#"{"model_args": {"torch_dtype": "bfloat16"}}"#);
    assert!(noted.note().unwrap().contains("model_args is {\"torch_dtype\":\"bfloat16\"}"));
    assert_eq!(with(r#"{"model_kwargs": {"dtype": "float32"}}"#).note(), None);
    let old = list(&[TRANSFORMER, POOLING]).replace("\"path\":\"\"", "\"path\":\"0_Transformer/\"");
    let dir =
        folder(&[(modules::MODULES, &old), ("0_Transformer/sentence_bert_config.json", "{}")]);
    assert_eq!(transformer_folder(dir.path()).as_deref(), Some("0_Transformer"));
    assert_eq!(files(dir.path()).unwrap(), ["sentence_bert_config.json", modules::MODULES]);
    let told = crate::checkpoint::load(dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("0_Transformer/config.json"), "{told}");
    // A list that leads to nothing does not keep a model from loading.
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    assert_eq!(transformer_folder(dir.path()), None);
}
