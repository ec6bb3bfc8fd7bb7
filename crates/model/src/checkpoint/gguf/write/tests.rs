use super::*;
use crate::checkpoint::gguf::{Contents, Gguf};
use linwright_files::gguf::{Header, MetaValue};
use serde_json::json;
use std::path::{Path, PathBuf};

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/gguf/models");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    paths.sort();
    assert!(paths.len() >= 17);
    paths
}

/// The file of a model that was read from another one.
fn again(gguf: &Gguf, dtype: DType) -> Result<Vec<u8>, NoGguf> {
    let contents = gguf.contents();
    let files = contents.tokenizer.as_ref().ok();
    let model = Model {
        config: &contents.config,
        tokenizer: files.map(|files| &files.tokenizer),
        tokenizer_config: files.map(|files| &files.config),
        name: "again",
        pooling: None,
    };
    // Rows that are vectors of their own have no form that is written.
    let tensors: Vec<(String, Vec<usize>)> =
        contents.tensors.iter().map(|(name, t)| (name.clone(), t.shape.clone())).collect();
    let mut writer = GgufWriter::new(model, &tensors, dtype)?;
    let mut out = writer.header();
    for (name, shape) in &tensors {
        let (numbers, _) = gguf.read(name, shape).unwrap();
        assert!(writer.tensor(&mut out, &numbers).is_ok());
    }
    Ok(out)
}

#[test]
fn what_is_written_is_read_as_the_same_model() {
    for path in models() {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let gguf = Gguf::open(&path).unwrap();
        let written = match again(&gguf, DType::F32) {
            Ok(written) => written,
            // Norms of single heads are parts of one stored matrix.
            Err(reason) if stem == "stablelm-parallel" => {
                assert!(reason.to_string().contains("_layernorm.norms.0"), "{reason}");
                continue;
            }
            Err(reason) => panic!("{stem}: {reason}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("again.gguf");
        std::fs::write(&copy, &written).unwrap();
        let copied = Gguf::open(&copy).unwrap_or_else(|e| panic!("{stem}: {e}"));
        for (field, value) in &gguf.contents().config {
            let mut found = copied.contents().config[field].clone();
            if let (Some(scaling), None) = (found.as_object_mut(), value.get("attention_factor")) {
                // Always written, since readers take 1 without it.
                scaling.remove("attention_factor");
            }
            // What the file did not say before, and ids of a tokenizer that is not there.
            let known = field.ends_with("_token_id") && value.is_null();
            assert!(known || found == *value, "{stem}: {field} is {found}, expected {value}");
        }
        assert_eq!(copied.contents().tensors.len(), gguf.contents().tensors.len());
        for (name, tensor) in &gguf.contents().tensors {
            let [a, b] = [&gguf, &copied].map(|g| g.read(name, &tensor.shape).unwrap().0);
            assert!(a == b, "{stem}: {name}");
        }
        if let Ok(files) = &gguf.contents().tokenizer {
            let other = copied.contents().tokenizer.as_ref().unwrap();
            assert_eq!(files.tokenizer, other.tokenizer, "{stem}");
            assert_eq!(files.config, other.config, "{stem}");
        }
    }
}

#[test]
fn smaller_types_hold_rounded_matrices_and_exact_vectors() {
    for dtype in [DType::F16, DType::Bf16] {
        let gguf = Gguf::open(&models()[0]).unwrap();
        let contents = Contents::parse(&again(&gguf, dtype).unwrap()).unwrap();
        for tensor in contents.tensors.values() {
            // llama.cpp adds tables in f32 alone.
            let table = ["position_embd.weight", "token_types.weight"];
            let rounded = tensor.shape.len() == 2 && !table.contains(&tensor.stored.as_str());
            let expected = if rounded { dtype } else { DType::F32 };
            assert_eq!(tensor.dtype, GgufType::plain(expected));
        }
    }
}

/// The fields of a model with changes; null removes a field.
fn config(change: Value) -> Map<String, Value> {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 6, "vocab_size": 4,
        "intermediate_size": 8, "num_attention_heads": 2, "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "layer_norm_eps": 1e-5,
    });
    let object = config.as_object_mut().unwrap();
    object.extend(change.as_object().unwrap().clone());
    object.clone()
}

fn embedding_of(config: &Map<String, Value>) -> (String, Vec<usize>) {
    let name = match config["model_type"].as_str() {
        Some("gpt_neox") => "gpt_neox.embed_in.weight",
        Some("gpt2") => "transformer.wte.weight",
        Some("bert") => "embeddings.word_embeddings.weight",
        _ => "model.embed_tokens.weight",
    };
    (name.into(), vec![4, 8])
}

/// The header of a file with an embedding alone, and the notes on it.
fn written(change: Value, pooling: Option<Pooling>) -> Result<(Header, Vec<String>), NoGguf> {
    let config = config(change);
    let embedding = embedding_of(&config);
    let model =
        Model { config: &config, tokenizer: None, tokenizer_config: None, name: "", pooling };
    let mut writer = GgufWriter::new(model, &[embedding], DType::F16)?;
    let mut out = writer.header();
    assert!(writer.tensor(&mut out, &[0.5; 32]).is_ok());
    Ok((linwright_files::gguf::parse(&out).unwrap(), writer.notes().to_vec()))
}

/// Fields of Gemma 2 and 3 beside the usual ones.
fn gemma(model_type: &str, change: Value) -> Value {
    let mut fields = json!({
        "model_type": model_type, "hidden_activation": "gelu_pytorch_tanh", "head_dim": 4,
        "query_pre_attn_scalar": 4, "sliding_window": 8,
    });
    fields.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    fields
}

/// Kinds of layers in runs: `-` has a window.
fn layers(kinds: &str) -> Value {
    let kind = |c| if c == '-' { "sliding_attention" } else { "full_attention" };
    json!(kinds.chars().map(kind).collect::<Vec<_>>())
}

#[test]
fn keys_that_llama_cpp_reads_are_written() {
    let yarn = |more: Value| {
        let mut scaling = json!({
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4,
        });
        scaling.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "rope_scaling": scaling })
    };
    let of_factor = 0.1 * 4f64.ln() + 1.0;
    let of_scales = (0.07 * 4f64.ln() + 1.0) / (0.04 * 4f64.ln() + 1.0);
    let long = json!({ "rope_scaling": {
        "rope_type": "longrope", "original_max_position_embeddings": 4,
        "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0],
    }});
    for (change, pooling, key, expected) in [
        (json!({}), None, "llama.vocab_size", Some(4.0)),
        (yarn(json!({})), None, "llama.rope.scaling.attn_factor", None),
        (
            yarn(json!({ "attention_factor": 1.3 })),
            None,
            "llama.rope.scaling.attn_factor",
            Some(1.3 / of_factor),
        ),
        (
            yarn(json!({ "mscale": 0.7, "mscale_all_dim": 0.4 })),
            None,
            "llama.rope.scaling.attn_factor",
            Some(of_scales / of_factor),
        ),
        (long.clone(), None, "llama.rope.scaling.attn_factor", Some(2f64.sqrt())),
        (long.clone(), None, "llama.rope.scaling.original_context_length", Some(4.0)),
        (
            gemma("gemma2", json!({ "layer_types": layers("--|--|") })),
            None,
            "gemma2.attention.sliding_window_pattern",
            Some(3.0),
        ),
        (
            gemma("gemma3_text", json!({ "layer_types": layers("------") })),
            None,
            "gemma3.attention.sliding_window_pattern",
            Some(7.0),
        ),
        (
            gemma("gemma3_text", json!({ "layer_types": layers("-----|") })),
            None,
            "gemma3.attention.sliding_window_pattern",
            None,
        ),
        (
            json!({ "model_type": "bert", "type_vocab_size": 2 }),
            None,
            "tokenizer.ggml.token_type_count",
            Some(2.0),
        ),
        (
            json!({ "model_type": "bert", "type_vocab_size": 2 }),
            Some(Pooling::First),
            "bert.pooling_type",
            Some(2.0),
        ),
        // A family that does not read the field.
        (json!({ "sliding_window": 8 }), None, "llama.attention.sliding_window", None),
    ] {
        let (header, notes) = written(change, pooling).unwrap();
        let found = header.metadata.get(key).and_then(MetaValue::as_f64);
        let near = match (found, expected) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-6,
            (a, b) => a == b,
        };
        assert!(near, "{key}: {found:?}, expected {expected:?}");
        assert!(notes.is_empty(), "{key}: {notes:?}");
    }
    // Tables of factors are read only if the kind says so.
    let (header, _) = written(long, None).unwrap();
    let kind = &header.metadata["llama.rope.scaling.type"];
    assert!(matches!(kind, MetaValue::Text(kind) if kind == "longrope"), "{kind:?}");
    assert!(header.tensors.contains_key("rope_factors_long.weight"));
}

#[test]
fn a_window_that_llama_cpp_does_not_apply_is_noted() {
    for (window, noted) in [(8, true), (16, false)] {
        let change = json!({ "model_type": "mistral", "sliding_window": window });
        let (header, notes) = written(change, None).unwrap();
        assert!(header.metadata.contains_key("llama.attention.sliding_window"));
        let said = notes.iter().any(|note| note.contains("sliding_window is 8, which llama.cpp"));
        assert_eq!((said, notes.len()), (noted, usize::from(noted)), "{notes:?}");
    }
}

#[test]
fn a_table_of_no_known_rule_comes_back_as_the_same_frequencies() {
    let dir = tempfile::tempdir().unwrap();
    let scaling = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0, "high_freq_factor": 5.0,
        "original_max_position_embeddings": 16,
    });
    let config = config(json!({ "rope_scaling": scaling, "num_hidden_layers": 1 }));
    let model =
        Model { config: &config, tokenizer: None, tokenizer_config: None, name: "", pooling: None };
    let mut writer = GgufWriter::new(model, &[embedding_of(&config)], DType::F32).unwrap();
    let mut out = writer.header();
    assert!(writer.tensor(&mut out, &[0.5; 32]).is_ok());
    let path = dir.path().join("table.gguf");
    std::fs::write(&path, out).unwrap();
    let read = Gguf::open(&path).unwrap().contents().config.clone();
    let rope = |config: &Map<String, Value>| {
        let config = Value::Object(config.clone());
        let rope = crate::TransformerConfig::from_json(&config).unwrap().ropes.remove(0);
        (
            rope.frequencies(rope.variant(1)),
            rope.frequencies(rope.variant(16)),
            rope.attention_factor(),
        )
    };
    let (own, found) = (rope(&config), rope(&read));
    for (a, b) in own.0.iter().zip(&found.0).chain(own.1.iter().zip(&found.1)) {
        assert!((a - b).abs() <= 1e-6 * a, "{own:?}, not {found:?}");
    }
    assert_eq!(found.2, 1.0);
}

#[test]
fn what_the_format_cannot_say_is_refused() {
    let embedding = ("model.embed_tokens.weight".to_owned(), vec![4, 8]);
    let refused = |change: Value, tensors: &[(String, Vec<usize>)]| {
        let config = config(change);
        let model = Model {
            config: &config,
            tokenizer: None,
            tokenizer_config: None,
            name: "",
            pooling: None,
        };
        GgufWriter::new(model, tensors, DType::F16).err().map(|reason| reason.to_string())
    };
    assert_eq!(refused(json!({}), std::slice::from_ref(&embedding)), None);
    for (change, said) in [
        (json!({"model_type": "odd"}), "model_type is \"odd\""),
        (json!({"hidden_size": null}), "hidden_size is missing"),
        (json!({"hidden_size": -1}), "hidden_size is -1"),
        (json!({"hidden_act": "gelu"}), "hidden_act is \"gelu\""),
        (json!({"rope_scaling": {"type": "dynamic"}}), "rope_scaling is \"dynamic\""),
        (json!({"rope_scaling": {"type": "linear"}}), "factor is missing"),
        (json!({"rms_norm_eps": null}), "rms_norm_eps is missing"),
    ] {
        let reason = refused(change, std::slice::from_ref(&embedding)).unwrap();
        assert!(reason.contains(said), "{reason}");
    }
    let odd = [embedding, ("model.odd.weight".to_owned(), vec![2])];
    assert!(
        refused(json!({}), &odd).unwrap().contains("tensor model.odd.weight has no name in GGUF")
    );
    assert!(refused(json!({}), &[]).unwrap().contains("embed_tokens.weight is missing"));
}

#[test]
fn what_llama_cpp_computes_otherwise_is_refused() {
    let yarn = |field: &str, value: Value| {
        let mut scaling = json!({ "rope_type": "yarn", "factor": 4.0 });
        scaling[field] = value;
        json!({ "rope_scaling": scaling })
    };
    let qwen = |scaling: Value| json!({ "model_type": "qwen2", "rope_scaling": scaling });
    for (change, said) in [
        (yarn("truncate", json!(false)), "truncate is false"),
        (yarn("beta_fast", json!(8.0)), "beta_fast is 8"),
        (yarn("beta_slow", json!(2.0)), "beta_slow is 2"),
        (
            qwen(json!({ "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8 })),
            "rope_scaling is \"llama3\", which GGUF readers do not support in qwen2",
        ),
        (
            qwen(json!({ "rope_type": "longrope", "short_factor": [1.0, 1.0],
                "long_factor": [1.0, 2.0] })),
            "rope_scaling is \"longrope\"",
        ),
        (
            json!({ "model_type": "qwen2", "use_sliding_window": true, "sliding_window": 4,
                "max_window_layers": 2 }),
            "use_sliding_window is true",
        ),
        (json!({ "model_type": "qwen3", "attention_bias": true }), "attention_bias is true"),
        (json!({ "model_type": "olmo2", "head_dim": 6 }), "head_dim is 6"),
        (
            json!({ "model_type": "gpt_neox", "hidden_act": "gelu", "attention_bias": false }),
            "attention_bias is false",
        ),
        (
            json!({ "model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8,
                "layer_norm_epsilon": 1e-5, "scale_attn_weights": false }),
            "scale_attn_weights is false",
        ),
        (gemma("gemma2", json!({ "tie_word_embeddings": false })), "tie_word_embeddings is false"),
        (gemma("gemma2", json!({ "attn_logit_softcapping": null })), "attn_logit_softcapping is"),
        (gemma("gemma2", json!({ "final_logit_softcapping": null })), "final_logit_softcapping is"),
        (gemma("gemma2", json!({ "layer_types": layers("|-|-|-") })), "layer_types is not"),
        (gemma("gemma3_text", json!({ "layer_types": layers("|--|--") })), "layer_types is not"),
        (
            gemma("gemma3_text", json!({ "query_pre_attn_scalar": null })),
            "query_pre_attn_scalar is 256",
        ),
    ] {
        let reason = written(change, None).err().unwrap().to_string();
        assert!(reason.contains(said), "{reason}");
    }
}
