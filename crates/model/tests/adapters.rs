//! LoRA adapters of PEFT, merged, against what PEFT computes; see `tools/golden/adapters.py`.

use crate::reference::{Set, relative_error};
use linwright_model::checkpoint::{Adapted, CheckpointError, merge_adapter};
use linwright_model::{Batch, Transformer};
use linwright_ops::{LowRank, NoProbe, Op, Sites};
use linwright_tensor::Mat;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Largest difference, relative to the largest number. Both compute in f32.
const TOLERANCE: f64 = 1e-5;

fn record(stem: &str) -> Value {
    let all = Set::records("adapter");
    all.into_iter().find(|(name, _)| name == stem).expect("a record").1
}

fn base(record: &Value) -> Set {
    let (folder, stem) = record["base"].as_str().unwrap().split_once('/').unwrap();
    Set::all(folder).into_iter().find(|set| set.stem == stem).expect("the base")
}

fn weights(record: &Value) -> Vec<u8> {
    let hex = record["weights"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    (0..hex.len() / 2).map(byte).collect()
}

fn write(dir: &Path, settings: &Value, weights: &[u8]) {
    fs::write(dir.join("adapter_config.json"), settings.to_string()).unwrap();
    fs::write(dir.join("adapter_model.safetensors"), weights).unwrap();
}

/// Logits of the last position of every sequence.
fn logits(model: &Transformer, set: &Set) -> Mat<f32> {
    let sequences = set.sequences();
    let mut batch = Batch::new(&sequences.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let types: Option<Vec<Vec<u32>>> = set.get("token_types");
    if let Some(types) = types.filter(|_| model.config().token_types.is_some()) {
        batch = batch.with_types(types.concat());
    }
    let mut hidden = model.embed(&batch).unwrap();
    let layers = model.config().layers.len();
    model.run_layers(&mut hidden, &batch, 0..layers, &mut NoProbe).unwrap();
    let all = model.logits(hidden.view());
    let last: Vec<usize> = batch.spans().iter().map(|span| span.end - 1).collect();
    Mat::from_fn(last.len(), all.cols(), |row, col| all.row(last[row])[col])
}

#[test]
fn merged_adapters_of_every_kind_compute_what_peft_does() {
    for (stem, record) in Set::records("adapter") {
        let set = base(&record);
        let mut model = set.model();
        let before = logits(&model, &set);
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &record["settings"], &weights(&record));
        merge_adapter(&mut model, dir.path()).unwrap_or_else(|error| panic!("{stem}: {error}"));
        let after = logits(&model, &set);
        let expected: Vec<Vec<f64>> = serde_json::from_value(record["logits"].clone()).unwrap();
        let rows =
            |mat: &Mat<f32>| (0..mat.rows()).map(|row| mat.row(row).to_vec()).collect::<Vec<_>>();
        let error = |mat: &Mat<f32>| {
            let rows = rows(mat);
            relative_error(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), &expected)
        };
        assert!(error(&after) < TOLERANCE, "{stem}: off by {:e}", error(&after));
        assert!(error(&before) > 100.0 * TOLERANCE, "{stem} changes nothing");
    }
}

/// Merges an adapter with changed settings and weights.
fn merge(stem: &str, fields: &Value, from: &str, to: &str) -> Result<Adapted, CheckpointError> {
    let record = record(stem);
    let mut settings = record["settings"].clone();
    for (field, value) in fields.as_object().unwrap() {
        settings[field] = value.clone();
    }
    let mut bytes = weights(&record);
    assert_eq!(from.len(), to.len());
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|w| w == from.as_bytes()) {
        bytes[at + found..][..to.len()].copy_from_slice(to.as_bytes());
        at += found + to.len();
        if from == to {
            break;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &settings, &bytes);
    merge_adapter(&mut base(&record).model(), dir.path())
}

#[test]
fn names_of_tensors_may_hold_that_of_the_adapter() {
    for (stem, record) in Set::records("adapter") {
        let (set, dir) = (base(&record), tempfile::tempdir().unwrap());
        let bytes = weights(&record);
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
        for part in
            ["lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector"]
        {
            header = header.replace(&format!(".{part}"), &format!(".{part}.default"));
        }
        let renamed =
            [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + length..]];
        let (mut plain, mut named) = (set.model(), set.model());
        write(dir.path(), &record["settings"], &bytes);
        merge_adapter(&mut plain, dir.path()).unwrap();
        write(dir.path(), &record["settings"], &renamed.concat());
        merge_adapter(&mut named, dir.path()).unwrap_or_else(|error| panic!("{stem}: {error}"));
        assert_eq!(logits(&plain, &set).data(), logits(&named, &set).data(), "{stem}");
    }
}

#[test]
fn what_is_merged_otherwise_is_refused_by_name() {
    let fine = merge("plain", &json!({"eva_config": {"rho": 2.0}, "task_type": null}), "{", "{");
    assert_eq!(fine.unwrap(), Adapted { added: 4, replaced: 0 });
    for (fields, said) in [
        (json!({"peft_type": "IA3"}), "adapter_config.json: peft_type is \"IA3\", expected LORA"),
        (json!({"r": 0}), "r is 0, expected a whole number from 1"),
        (json!({"r": 4}), "lora_A.weight has rank 3, "),
        (json!({"lora_alpha": "8"}), "lora_alpha is \"8\", expected a number"),
        (json!({"rank_pattern": {"q_proj": 1}}), "has rank 3"),
        (json!({"rank_pattern": {"q_(proj": 3}}), "rank_pattern is"),
        (json!({"alpha_pattern": [3]}), "alpha_pattern is [3]"),
        (json!({"alpha_pattern": {"q_proj": "x"}}), "alpha_pattern is"),
        (json!({"use_rslora": 1}), "use_rslora is 1, expected true or false"),
        (json!({"use_dora": true}), "lora_magnitude_vector is missing"),
        (json!({"init_lora_weights": "pissa"}), "init_lora_weights is \"pissa\""),
        (json!({"layer_replication": [[0, 1]]}), "layer_replication is [[0,1]], expected null"),
        (json!({"trainable_token_indices": [1]}), "trainable_token_indices is [1]"),
        (json!({"use_qalora": true}), "use_qalora is true"),
        (json!({"a_new_field": "x"}), "a_new_field is \"x\""),
    ] {
        let error = merge("plain", &fields, "{", "{").unwrap_err().to_string();
        assert!(error.contains(said), "{fields}: {error}");
    }
    let none = json!({});
    for (stem, from, to, said) in [
        ("plain", "base_model.", "base.model.", "does not begin with base_model.model."),
        ("plain", "v_proj.lora_B", "x_proj.lora_B", "v_proj.lora_B.weight is missing"),
        ("plain", "v_proj", "x_proj", "layers.0.self_attn.x_proj.lora_A.weight is for a layer"),
        ("plain", "v_proj", "up_prj", "does not have"),
        (
            "saved",
            "lm_head.weight",
            "lm_body.weight",
            "tensor base_model.model.lm_body.weight is for",
        ),
        ("dora", "magnitude", "magnitudo", "lora_magnitudo_vector"),
    ] {
        let error = merge(stem, &none, from, to).unwrap_err().to_string();
        assert!(error.contains(said), "{from}: {error}");
    }
    let error = merge("dora", &json!({"use_dora": false}), "{", "{").unwrap_err().to_string();
    assert!(error.contains("belongs to use_dora"), "{error}");
}

#[test]
fn bases_that_an_adapter_cannot_change_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let merged = |record: &Value, model: &mut Transformer, weights: &[u8]| {
        write(dir.path(), &record["settings"], weights);
        merge_adapter(model, dir.path()).unwrap_err().to_string()
    };
    // An embedding that is also the output matrix, and one of another size.
    let tied = Set::all("decoder").into_iter().find(|set| set.stem == "llama-tied").unwrap();
    for stem in ["embedding", "saved"] {
        let record = record(stem);
        let error = merged(&record, &mut tied.model(), &weights(&record));
        assert!(error.contains("embed_tokens") || error.contains("lm_head"), "{error}");
    }
    // An operator that is not dense.
    let record = record("plain");
    let mut model = base(&record).model();
    let slot =
        model.slots_mut().into_iter().find(|slot| slot.id().0.ends_with("1.self_attn.q_proj"));
    let slot = slot.unwrap();
    let shape = slot.shape();
    let low = LowRank::new(Mat::zeros(shape.out, 1), Mat::zeros(1, shape.inp));
    slot.replace(Op::Linear(Box::new(low))).unwrap();
    let error = merged(&record, &mut model, &weights(&record));
    assert!(error.contains("1.self_attn.q_proj: an adapter cannot be merged into"), "{error}");
    // Numbers that are not finite, in what is given and in the sum.
    for (value, said) in [(f32::NAN, "holds NaN"), (f32::MAX, "makes ")] {
        let mut bytes = weights(&record);
        let at = bytes.len() - 4;
        let start =
            8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        bytes[at..].copy_from_slice(&value.to_le_bytes());
        if value.is_finite() {
            for number in bytes[start..].chunks_exact_mut(4) {
                number.copy_from_slice(&value.to_le_bytes());
            }
        }
        let error = merged(&record, &mut base(&record).model(), &bytes);
        assert!(error.contains(said), "{error}");
    }
    fs::remove_file(dir.path().join("adapter_model.safetensors")).unwrap();
    let error = merge_adapter(&mut tied.model(), dir.path()).unwrap_err().to_string();
    assert!(error.contains("adapter_model.safetensors"), "{error}");
}
