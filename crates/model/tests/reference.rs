//! Reference sets: tiny random checkpoints and what transformers computes with them.

use linwright_model::checkpoint::{CheckpointError, LoadedModel, load};
use linwright_model::{Transformer, TransformerConfig};
use linwright_tensor::MatRef;
use serde_json::Value;
use serde_json::value::Index;
use std::fs;
use std::path::{Path, PathBuf};

/// One set.
pub(crate) struct Set {
    /// Its name.
    pub(crate) stem: String,
    record: Value,
    checkpoint: Vec<u8>,
}

impl Set {
    /// Every set of a folder of `testdata`.
    pub(crate) fn all(folder: &str) -> Vec<Self> {
        let weights = path_of(folder);
        let set = |(stem, record): (String, Value)| {
            let path = weights.join(format!("{stem}.safetensors"));
            let checkpoint = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            Self { stem, record, checkpoint }
        };
        Self::records(folder).into_iter().map(set).collect()
    }

    /// Every record of a folder of `testdata`, by name.
    pub(crate) fn records(folder: &str) -> Vec<(String, Value)> {
        let folder = path_of(folder);
        let entries = fs::read_dir(&folder).expect("folder of references");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        assert!(!paths.is_empty(), "no references in {}", folder.display());
        let record = |path: PathBuf| {
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let stem = path.file_stem().expect("stem").to_string_lossy().into_owned();
            (stem, serde_json::from_slice(&bytes).expect("JSON"))
        };
        paths.into_iter().map(record).collect()
    }

    /// A field of the record, if it is there.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(&self, field: impl Index) -> Option<T> {
        let value = self.record.get(field)?;
        Some(serde_json::from_value(value.clone()).expect("a field of the record"))
    }

    /// A field of the record.
    pub(crate) fn field<T: serde::de::DeserializeOwned>(&self, field: &str) -> T {
        self.get(field).unwrap_or_else(|| panic!("{} has no {field}", self.stem))
    }

    /// The configuration.
    pub(crate) fn config(&self) -> TransformerConfig {
        TransformerConfig::from_json(&self.record["config"])
            .unwrap_or_else(|e| panic!("{}: {e}", self.stem))
    }

    /// The model, from a directory as users have it.
    pub(crate) fn load(&self) -> LoadedModel {
        self.try_load(&self.record["config"]).unwrap_or_else(|e| panic!("{}: {e}", self.stem))
    }

    /// The model under another configuration.
    pub(crate) fn try_load(&self, config: &Value) -> Result<LoadedModel, CheckpointError> {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("config.json"), config.to_string()).expect("config.json");
        fs::write(dir.path().join("model.safetensors"), &self.checkpoint).expect("weights");
        load(dir.path())
    }

    /// The model itself.
    pub(crate) fn model(&self) -> Transformer {
        self.load().decoder
    }

    /// The token sequences.
    pub(crate) fn sequences(&self) -> Vec<Vec<u32>> {
        self.field("sequences")
    }

    /// Fails unless some rows of the record's `field`, those at the chosen positions of a sequence,
    /// are those of `found` (positions of the sequence, features) up to a share of the largest.
    pub(crate) fn assert_rows(
        &self,
        field: &str,
        sequence: usize,
        found: MatRef<'_, f32>,
        tolerance: f64,
    ) {
        let expected: Vec<Vec<Vec<f64>>> = self.field(field);
        let positions: Option<Vec<Vec<usize>>> = self.get("positions");
        let positions = positions.map_or((0..found.rows()).collect(), |all| all[sequence].clone());
        assert_eq!(positions.len(), expected[sequence].len(), "{}: {field}", self.stem);
        let found: Vec<&[f32]> = positions.iter().map(|&position| found.row(position)).collect();
        let error = relative_error(&found, &expected[sequence]);
        assert!(
            error < tolerance,
            "{}: {field} of sequence {sequence}: off by {error:e}",
            self.stem
        );
    }
}

fn path_of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder)
}

/// Largest difference, as a share of the largest number expected.
pub(crate) fn relative_error(found: &[&[f32]], expected: &[Vec<f64>]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let gap = (f64::from(*found) - expected).abs();
            assert!(gap.is_finite(), "a number is {found}");
            worst = worst.max(gap);
            largest = largest.max(expected.abs());
        }
    }
    worst / largest
}
