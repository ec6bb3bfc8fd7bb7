//! Logits of tiny random checkpoints against those that transformers computes in double precision;
//! see `tools/golden/decoder.py`.

use linwright_model::{Batch, Transformer, TransformerConfig};
use linwright_ops::NoProbe;
use linwright_tensor::MatRef;
use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest difference of a logit, relative to the largest logit. The stored sets agree to 1e-5; the
/// rest is room for references computed in f32.
const TOLERANCE: f64 = 1e-4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/decoder")
}

/// Every set in the folder: its stem, its record and its checkpoint.
fn sets() -> Vec<(String, Value, Vec<u8>)> {
    let entries = fs::read_dir(folder()).expect("folder of references");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert!(!paths.is_empty(), "no references of decoders in {}", folder().display());
    let read = |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let set = |path: PathBuf| {
        let record = serde_json::from_slice(&read(&path)).expect("JSON");
        let stem = path.file_stem().expect("stem").to_string_lossy().into_owned();
        (stem, record, read(&path.with_extension("safetensors")))
    };
    paths.into_iter().map(set).collect()
}

fn load(config: TransformerConfig, checkpoint: &[u8]) -> Transformer {
    let tensors = SafeTensors::deserialize(checkpoint).expect("safetensors");
    Transformer::from_tensors(config, &mut |name, shape| {
        let tensor = tensors.tensor(name).map_err(|e| format!("{name}: {e}"))?;
        assert_eq!(tensor.shape(), shape, "{name}");
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        Ok::<_, String>(tensor.data().chunks_exact(4).map(number).collect())
    })
    .expect("a checkpoint with all tensors")
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).expect("rows of numbers")
}

/// Positions whose logits the record keeps: all, where it does not say.
fn positions(record: &Value, sequence: usize, length: usize) -> Vec<usize> {
    match record.get("positions") {
        Some(kept) => serde_json::from_value(kept[sequence].clone()).expect("positions"),
        None => (0..length).collect(),
    }
}

#[test]
fn logits_of_every_family_are_those_of_transformers() {
    for (stem, record, checkpoint) in sets() {
        let config =
            TransformerConfig::from_json(&record["config"]).expect("a valid configuration");
        let decoder = load(config, &checkpoint);
        let sequences: Vec<Vec<u32>> =
            serde_json::from_value(record["sequences"].clone()).expect("sequences");
        let views: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
        let batch = Batch::new(&views);
        let mut hidden = decoder.embed(&batch).expect("tokens of the vocabulary");
        let layers = decoder.config().layers;
        decoder.run_layers(&mut hidden, &batch, 0..layers, &mut NoProbe).expect("finite numbers");
        let logits = decoder.logits(hidden.view());
        for (index, span) in batch.spans().iter().enumerate() {
            let found = logits.view().rows_range(span.start, span.len());
            let kept = positions(&record, index, span.len());
            let error = relative_error(found, &kept, &rows(&record["logits"][index]));
            assert!(error < TOLERANCE, "{stem}, sequence {index}: off by {error:e}");
        }
    }
}

fn relative_error(found: MatRef<'_, f32>, positions: &[usize], expected: &[Vec<f64>]) -> f64 {
    assert_eq!(positions.len(), expected.len());
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    for (&position, row) in positions.iter().zip(expected) {
        assert_eq!(found.cols(), row.len());
        for (found, expected) in found.row(position).iter().zip(row) {
            let gap = (f64::from(*found) - expected).abs();
            assert!(gap.is_finite(), "a logit is {found}");
            worst = worst.max(gap);
            largest = largest.max(expected.abs());
        }
    }
    worst / largest
}

#[test]
fn configurations_survive_being_written_and_read() {
    for (stem, record, _) in sets() {
        let config =
            TransformerConfig::from_json(&record["config"]).expect("a valid configuration");
        let again = TransformerConfig::from_json(&config.to_json());
        assert_eq!(again.as_ref(), Ok(&config), "{stem}");
    }
}
