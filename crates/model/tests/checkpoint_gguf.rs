//! Models loaded from GGUF files: their outputs against transformers on the same stored numbers;
//! see `tools/golden/gguf_models.py`.

use linwright_model::Batch;
use linwright_model::checkpoint::gguf::save_gguf;
use linwright_model::checkpoint::{CheckpointError, Form, SaveOptions, load, save};
use linwright_model::config::AttentionConfig;
use linwright_ops::NoProbe;
use linwright_tensor::dtype::DType;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest difference of a logit, relative to the largest one.
const TOLERANCE: f64 = 1e-4;
/// The same, of weights that were rounded to f16.
const HALF_TOLERANCE: f64 = 1e-2;

fn file(stem: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/gguf/models/{stem}.gguf"))
}

/// Largest relative error over the positions and tokens that the record holds: the last positions.
fn worst_error(path: &Path, record: &Value) -> f64 {
    let loaded = load(path).unwrap_or_else(|e| panic!("{e}"));
    let sequences: Vec<Vec<u32>> = serde_json::from_value(record["sequences"].clone()).unwrap();
    let outputs: Vec<Vec<Vec<f64>>> = serde_json::from_value(record["outputs"].clone()).unwrap();
    let views: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let batch = Batch::new(&views);
    let mut hidden = loaded.decoder.embed(&batch).unwrap();
    let layers = loaded.decoder.config().layers.len();
    loaded.decoder.run_layers(&mut hidden, &batch, 0..layers, &mut NoProbe).unwrap();
    let logits = match loaded.decoder.has_head() {
        true => loaded.decoder.logits(hidden.view()),
        false => hidden,
    };
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    for (span, expected) in batch.spans().iter().zip(outputs) {
        let first = span.start + span.len() - expected.len();
        for (place, expected) in expected.iter().enumerate() {
            for (found, expected) in logits.view().row(first + place).iter().zip(expected) {
                assert!(found.is_finite());
                worst = worst.max((f64::from(*found) - expected).abs());
                largest = largest.max(expected.abs());
            }
        }
    }
    worst / largest
}

#[test]
fn logits_are_those_of_transformers() {
    let models = file("llama").with_file_name("");
    let files = fs::read_dir(models).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "gguf")).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no golden models");
    for path in paths {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let record: Value =
            serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        let error = worst_error(&path, &record);
        assert!(error < TOLERANCE, "{stem}: off by {error:e}");
        // As a directory it is the same model.
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model");
        let loaded = load(&path).unwrap();
        let mut exact = SaveOptions::new(Form::Dense);
        exact.dtype = Some(DType::F32);
        save(&loaded.decoder, &loaded.source, &exact, &out).unwrap();
        let error = worst_error(&out, &record);
        assert!(error < TOLERANCE, "{stem}, saved: off by {error:e}");
        let again = load(&out).unwrap();
        // As another such file too, in the type of most of its numbers or exactly.
        let written = dir.path().join("written");
        let (decoder, source) = (&loaded.decoder, &loaded.source);
        let copy = match save_gguf(decoder, source, Some(DType::F32), false, &written) {
            Ok(copy) => copy,
            // Norms of each head are one tensor in the format, and not written.
            Err(CheckpointError::NoGguf(reason)) => {
                assert_eq!(stem, "stablelm-parallel", "{reason}");
                continue;
            }
            Err(error) => panic!("{stem}: {error}"),
        };
        let error = worst_error(&copy, &record);
        assert!(error < TOLERANCE, "{stem}, written: off by {error:e}");
        assert!(save_gguf(decoder, source, None, false, &written).is_err(), "{stem}");
        let half = save_gguf(decoder, source, Some(DType::F16), true, &written).unwrap();
        assert!(worst_error(&half, &record) < HALF_TOLERANCE, "{stem}, as f16");
        assert_eq!(again.tokenizer.is_some(), loaded.tokenizer.is_some(), "{stem}");
    }
}

#[test]
fn a_reader_is_told_what_the_file_was() {
    let loaded = load(&file("llama")).unwrap();
    let tokenizer = loaded.tokenizer.as_ref().unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert!(loaded.notes.iter().any(|note| note.contains("Q8_0")), "{:?}", loaded.notes);
    assert_eq!(load(&file("llama")).unwrap().hash, loaded.hash);
    let mistral = load(&file("mistral")).unwrap();
    assert!(mistral.tokenizer.is_none());
    assert!(mistral.notes.iter().any(|note| note.contains("no_vocab")), "{:?}", mistral.notes);
    let AttentionConfig::Heads(heads) = mistral.decoder.config().layers[0].attention else {
        panic!("mistral has heads");
    };
    assert_eq!(heads.window, Some(7));
    assert_ne!(mistral.hash, loaded.hash);
}

#[test]
fn a_damaged_file_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.gguf");
    let whole = fs::read(file("qwen2")).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = load(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::Gguf { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("cut.gguf") && said.contains("truncated"), "{said}");
}
