//! Sentence encoders with modules of every kind against the vectors of sentence-transformers; see
//! `tools/golden/sentences.py`.

use linwright_model::Batch;
use linwright_model::checkpoint::{Form, LoadedModel, Precision, SaveOptions, load, load_as, save};
use linwright_ops::NoProbe;
use linwright_tensor::Mat;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest difference of a vector's numbers, whose sizes are about one. Both compute in f32.
const TOLERANCE: f64 = 2e-5;

fn sets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sentence")
}

/// Writes the encoder of a set into a folder.
fn write(record: &Value, dir: &Path) {
    for entry in fs::read_dir(sets().join("base")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
    }
    for (name, content) in record["files"].as_object().unwrap() {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = match content["hex"].as_str() {
            Some(hex) => (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect(),
            None => content["text"].as_str().unwrap().as_bytes().to_vec(),
        };
        fs::write(path, bytes).unwrap();
    }
}

fn vectors(loaded: &LoadedModel, texts: &[&str]) -> Mat<f32> {
    let sentence = loaded.sentence.as_ref().unwrap_or_else(|reason| panic!("{reason}"));
    let (model, tokenizer) = (&loaded.decoder, loaded.tokenizer.as_ref().unwrap());
    let limit = model.config().max_positions;
    let encode = |text: &&str| sentence.encode(tokenizer, text, limit).unwrap().0;
    let tokens: Vec<Vec<u32>> = texts.iter().map(encode).collect();
    let batch = Batch::new(&tokens.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut hidden = model.embed(&batch).unwrap();
    let layers = model.config().layers.len();
    model.run_layers(&mut hidden, &batch, 0..layers, &mut NoProbe).unwrap();
    sentence.vectors(hidden.view(), &batch)
}

fn assert_same(stem: &str, record: &Value, found: &Mat<f32>) {
    for (row, expected) in record["vectors"].as_array().unwrap().iter().enumerate() {
        let expected: Vec<f64> = serde_json::from_value(expected.clone()).unwrap();
        assert_eq!(found.cols(), expected.len(), "{stem}");
        for (found, expected) in found.row(row).iter().zip(&expected) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error <= TOLERANCE, "{stem}, text {row}: {found} for {expected}");
        }
    }
}

#[test]
fn vectors_are_those_of_sentence_transformers_before_and_after_saving() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(sets()).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    assert!(files.len() > 25, "{}", files.len());
    for file in files {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let texts: Vec<&str> =
            record["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        let dir = tempfile::tempdir().unwrap();
        write(&record, dir.path());
        let loaded = load(dir.path()).unwrap();
        assert_same(stem, &record, &vectors(&loaded, &texts));
        let out = dir.path().join("out");
        save(&loaded.decoder, &loaded.source, &SaveOptions::new(Form::Dense), &out).unwrap();
        let again = load(&out).unwrap();
        assert_same(stem, &record, &vectors(&again, &texts));
        for name in record["files"].as_object().unwrap().keys() {
            assert!(out.join(name).is_file(), "{stem}: {name} was not saved");
        }
    }
}

/// Rounds the numbers of a safetensors file in f32 to bf16.
fn round_file(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    assert!(!String::from_utf8_lossy(&bytes[8..8 + header]).contains("BF16"));
    for number in bytes[8 + header..].chunks_exact_mut(4) {
        let bits = u32::from_le_bytes(number.try_into().unwrap());
        let rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
        number.copy_from_slice(&rounded.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn modules_have_the_numbers_of_the_type_that_a_model_is_asked_for_in() {
    for (stem, module) in [
        ("dense-plain", "2_Dense"),
        ("dense-tanh-normalised", "2_Dense"),
        ("dense-relu-projected", "2_Dense"),
        ("layer-norm", "2_LayerNorm"),
    ] {
        let file = sets().join(format!("{stem}.json"));
        let record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        write(&record, dir.path());
        let found = |precision| vectors(&load_as(dir.path(), precision).unwrap(), &["a b", "c"]);
        let (whole, half) = (found(Precision::F32), found(Precision::Bf16));
        round_file(&dir.path().join(module).join("model.safetensors"));
        assert_eq!(half, found(Precision::Bf16), "{stem}");
        assert_ne!(whole, found(Precision::F32), "{stem}: the numbers have no more bits");
    }
}
