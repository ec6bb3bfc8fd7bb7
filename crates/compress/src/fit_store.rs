//! Finished fits on disk, from which an interrupted run resumes.
//!
//! A fit is stored under the fingerprint of everything it depends on: model, calibration, seed,
//! method and every earlier edit. One safetensors file per fit, written atomically.

use crate::CompressError;
use crate::methods::{Fit, FitReport};
use linwright_ops::archive::{self, Header, Tensor, Tensors};
use linwright_run::atomic::write_atomic;
use linwright_run::{Fingerprint, input};
use linwright_tensor::little_endian_bytes;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A directory of finished fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitStore {
    directory: PathBuf,
}

/// Name of the tensor with the bias shift; no operator has a parameter with this name.
const BIAS_SHIFT: &str = "slot.bias_shift";

/// Metadata key of the checksum.
const SUM: &str = "sha256";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    header: Header,
    report: FitReport,
}

impl FitStore {
    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// [`CompressError::Io`].
    pub fn open(directory: &Path) -> Result<Self, CompressError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| CompressError::Io { path: directory.to_owned(), source })?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.directory.join(format!("{}.safetensors", fingerprint.0))
    }

    /// Path of the checkpoints of an unfinished fit.
    #[must_use]
    pub fn checkpoint_path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.directory.join(format!("{}.ckpt", fingerprint.0))
    }

    /// Stores a finished fit, and removes its checkpoints.
    ///
    /// # Errors
    /// [`CompressError::Io`].
    pub fn put(&self, fingerprint: &Fingerprint, fit: &Fit) -> Result<(), CompressError> {
        let path = self.path(fingerprint);
        let unusable = |reason: String| CompressError::Store { path: path.clone(), reason };
        let (header, tensors) =
            archive::save(&fit.op).map_err(|error| unusable(error.to_string()))?;
        let stored = Stored { header, report: fit.report.clone() };
        let stored = serde_json::to_string(&stored).map_err(|error| unusable(error.to_string()))?;
        let shift = fit.bias_shift.as_ref().map(|shift| {
            let tensor = Tensor::Values(vec![shift.len()], shift.clone());
            (BIAS_SHIFT.to_owned(), tensor)
        });
        let views = tensors
            .iter()
            .chain(shift.iter().map(|(name, tensor)| (name, tensor)))
            .map(|(name, tensor)| {
                let view = match tensor {
                    Tensor::Values(shape, values) => {
                        TensorView::new(Dtype::F32, shape.clone(), little_endian_bytes(values))
                    }
                    Tensor::Indices(values) => TensorView::new(
                        Dtype::U32,
                        vec![values.len()],
                        linwright_tensor::index_bytes(values),
                    ),
                };
                view.map(|view| (name.as_str(), view))
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(error.to_string()))?;
        let data = views.iter().map(|(name, view)| (*name, view.data()));
        let sum = checksum(&stored, data);
        let metadata = HashMap::from([("fit".to_owned(), stored), (SUM.to_owned(), sum)]);
        let bytes = safetensors::serialize(views, Some(metadata))
            .map_err(|error| unusable(error.to_string()))?;
        write_atomic(&path, &bytes)?;
        self.remove_checkpoints(fingerprint)
    }

    fn remove_checkpoints(&self, fingerprint: &Fingerprint) -> Result<(), CompressError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| CompressError::Io { path, source }
        };
        for entry in std::fs::read_dir(&self.directory).map_err(io(&self.directory))? {
            let path = entry.map_err(io(&self.directory))?.path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if name.starts_with(&fingerprint.0) && name.ends_with(".ckpt") {
                std::fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        Ok(())
    }

    /// Loads a finished fit, if there is one.
    ///
    /// # Errors
    /// [`CompressError::Store`] if the file is damaged.
    pub fn get(&self, fingerprint: &Fingerprint) -> Result<Option<Fit>, CompressError> {
        let path = self.path(fingerprint);
        let bytes = match input::read(&path, u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CompressError::Io { path, source }),
        };
        parse(&bytes).map(Some).map_err(|reason| CompressError::Store { path, reason })
    }
}

/// Checksum of the metadata of a fit, and of names and bytes of its tensors in the order of names.
fn checksum<'a>(stored: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(stored.as_bytes());
    let tensors: BTreeMap<&str, &[u8]> = tensors.collect();
    for (name, bytes) in tensors {
        add(name.as_bytes());
        add(bytes);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(bytes: &[u8]) -> Result<Fit, String> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let entry = |key: &str| metadata.metadata().as_ref().and_then(|m| m.get(key));
    let stored = entry("fit").ok_or("its metadata have no fit")?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let views = file.tensors();
    let data = views.iter().map(|(name, view)| (name.as_str(), view.data()));
    if entry(SUM) != Some(&checksum(stored, data)) {
        return Err("its checksum differs, so the file was changed".to_owned());
    }
    let stored: Stored = serde_json::from_str(stored).map_err(|error| error.to_string())?;
    let mut tensors = Tensors::new();
    for (name, view) in views {
        let words = view.data().chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let tensor = match view.dtype() {
            Dtype::F32 => {
                Tensor::Values(view.shape().to_vec(), words.map(f32::from_le_bytes).collect())
            }
            Dtype::U32 => Tensor::Indices(words.map(u32::from_le_bytes).collect()),
            other => return Err(format!("tensor {name} is {other:?}, expected F32 or U32")),
        };
        tensors.insert(name, tensor);
    }
    let bias_shift = match tensors.remove(BIAS_SHIFT) {
        Some(Tensor::Values(_, values)) => Some(values),
        Some(Tensor::Indices(_)) => {
            return Err(format!("tensor {BIAS_SHIFT} is U32, expected F32"));
        }
        None => None,
    };
    let op = archive::load(&stored.header, tensors).map_err(|error| error.to_string())?;
    if let Some(shift) = &bias_shift {
        let (found, expected) = (shift.len(), op.map().shape().out);
        if found != expected {
            return Err(format!("tensor {BIAS_SHIFT} has {found} numbers, expected {expected}"));
        }
    }
    Ok(Fit { op, bias_shift, report: stored.report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{LowRankSpec, OpSpec, Shape};
    use linwright_tensor::RngKey;

    fn fit() -> Fit {
        let op = OpSpec::LowRank(LowRankSpec { rank: 2 });
        let op = op.random(Shape { out: 6, inp: 4 }, RngKey::new(3)).expect("exists");
        let report = FitReport {
            relative_error: 0.25,
            train_relative_error: 0.2,
            target_power: 1.0,
            ridge: None,
            dropped_directions: 0,
            curve: Vec::new(),
            seconds: 1.5,
            cut: None,
        };
        Fit { op, bias_shift: Some(vec![0.1, -2.0, 3.5e-8, 0.0, 1.0, 7.25]), report }
    }

    #[test]
    fn a_stored_fit_reads_back_bit_for_bit_and_clears_its_checkpoints() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = FitStore::open(&dir.path().join("fits")).expect("opens");
        let fingerprint = Fingerprint::of(&[("seed", &1), ("method", &"x")]);
        std::fs::write(store.checkpoint_path(&fingerprint), b"half").expect("writes");
        assert!(store.get(&fingerprint).expect("reads").is_none());
        store.put(&fingerprint, &fit()).expect("writes");
        let read = store.get(&fingerprint).expect("reads").expect("is there");
        assert_eq!(archive::save(&read.op), archive::save(&fit().op));
        assert_eq!((read.report, read.bias_shift), (fit().report, fit().bias_shift));
        assert!(!store.checkpoint_path(&fingerprint).exists());
    }

    #[test]
    fn a_damaged_fit_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let store = FitStore::open(dir.path()).expect("opens");
        let fingerprint = Fingerprint::of(&[("seed", &2)]);
        store.put(&fingerprint, &fit()).expect("writes");
        let path = store.path(&fingerprint);
        let bytes = std::fs::read(&path).expect("reads");
        // One bit of the last number.
        let mut changed = bytes.clone();
        *changed.last_mut().expect("not empty") ^= 1;
        for damaged in [&bytes[..bytes.len() - 3], &bytes[..5], &[], &changed] {
            std::fs::write(&path, damaged).expect("writes");
            let error = store.get(&fingerprint).expect_err("damaged");
            assert!(
                matches!(&error, CompressError::Store { path: named, .. } if *named == path),
                "{error}"
            );
        }
    }
}
