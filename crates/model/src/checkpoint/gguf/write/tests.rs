use super::*;
use crate::checkpoint::gguf::{Contents, Gguf};
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
            let expected = if tensor.shape.len() == 2 { dtype } else { DType::F32 };
            assert_eq!(tensor.dtype, GgufType::plain(expected));
        }
    }
}

#[test]
fn what_the_format_cannot_say_is_refused() {
    let config = |change: Value| {
        let mut config = json!({
            "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 4,
            "intermediate_size": 8, "num_attention_heads": 2, "max_position_embeddings": 16,
            "rms_norm_eps": 1e-5, "hidden_act": "silu",
        });
        let object = config.as_object_mut().unwrap();
        object.extend(change.as_object().unwrap().clone());
        object.clone()
    };
    let embedding = ("model.embed_tokens.weight".to_owned(), vec![4, 8]);
    let refused = |change: Value, tensors: &[(String, Vec<usize>)]| {
        let config = config(change);
        let model = Model { config: &config, tokenizer: None, tokenizer_config: None, name: "" };
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
