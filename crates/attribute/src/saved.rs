//! Decomposed Fisher matrices in files of a store, so that scores need not compute them again.
//!
//! The file of a layer is `fisher/NNN.safetensors`: eigenvalues and eigenvectors in f64, and in its
//! metadata the gradients they belong to and the digest of the file. Files for other gradients and
//! changed files are rejected.

use crate::AttributeError;
use crate::curvature::Curvature;
use crate::store::{GradientStore, ShardFile, make_folder};
use linwright_files::writer::{Planned, sealed_header};
use linwright_files::{StoredType, TensorFile};
use linwright_run::{sha256_hex, state};
use linwright_tensor::Mat;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FOLDER: &str = "fisher";
/// Key of the metadata.
const KEY: &str = "fisher";

/// Contents of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    /// SHA-256 of what identifies the gradients.
    gradients: String,
    site: String,
    size: usize,
    examples: usize,
    trace: f64,
    /// Whether the decomposition is that of inner products of the gradients.
    is_dual: bool,
}

/// Identifies the gradients of a store: its manifest and the checksums of all tiles.
fn fingerprint(store: &GradientStore, shards: &[ShardFile]) -> String {
    let mut text = store.digest_hex();
    for shard in shards {
        shard.checksums().iter().for_each(|checksum| text += &format!(" {checksum:032x}"));
    }
    sha256_hex(text.as_bytes())
}

fn path_of(store: &GradientStore, layer: usize) -> PathBuf {
    store.path().join(FOLDER).join(format!("{layer:03}.safetensors"))
}

impl Curvature {
    /// Writes the decomposition of a layer into its store; returns its size in bytes.
    ///
    /// # Errors
    /// [`AttributeError::Output`].
    pub fn save(
        &self,
        store: &GradientStore,
        shards: &[ShardFile],
        layer: usize,
    ) -> Result<u64, AttributeError> {
        let about = About {
            gradients: fingerprint(store, shards),
            site: self.site.clone(),
            size: self.size,
            examples: self.examples,
            trace: self.trace,
            is_dual: self.rows.is_some(),
        };
        let about =
            serde_json::to_string(&about).map_err(|source| AttributeError::Json { source })?;
        let planned = |name: &str, shape: Vec<usize>| {
            let bytes = 8 * shape.iter().product::<usize>() as u64;
            Planned { name: name.into(), dtype: StoredType::F64, shape, bytes }
        };
        let side = self.values.len();
        let tensors = [planned("values", vec![side]), planned("vectors", vec![side, side])];
        let bytes = |numbers: &[f64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        let (values, vectors) = (bytes(&self.values), bytes(self.vectors.data()));
        let metadata = BTreeMap::from([(KEY.to_owned(), about)]);
        let header = sealed_header(&tensors, metadata, |add| {
            [&values, &vectors].iter().for_each(|part| add(part));
        });
        let path = path_of(store, layer);
        make_folder(store.path(), FOLDER)?;
        state::write_parts(&path, &[&header, &values, &vectors])?;
        Ok((header.len() + values.len() + vectors.len()) as u64)
    }

    /// The stored decomposition of a layer, if there is one.
    ///
    /// # Errors
    /// [`AttributeError::OtherStore`] for a file of other gradients,
    /// [`AttributeError::DamagedFisher`] for a changed file, and errors of reading gradients.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn saved(
        store: &GradientStore,
        shards: &[ShardFile],
        layer: usize,
    ) -> Result<Option<Self>, AttributeError> {
        let path = path_of(store, layer);
        state::inside(store.path(), Path::new(FOLDER).join("-"))
            .map_err(|source| AttributeError::Read { path: path.clone(), source })?;
        if !state::exists(&path) {
            return Ok(None);
        }
        let damaged = |reason: String| AttributeError::DamagedFisher { path: path.clone(), reason };
        let file = TensorFile::open_state(&path).map_err(|error| damaged(error.to_string()))?;
        file.check_seal().map_err(damaged)?;
        let about = file.metadata().get(KEY).map(|text| serde_json::from_str::<About>(text));
        let Some(Ok(about)) = about else {
            return Err(damaged("it does not name the gradients it belongs to".into()));
        };
        let expected = fingerprint(store, shards);
        if about.gradients != expected {
            return Err(AttributeError::OtherStore {
                path,
                field: "the saved Fisher matrix",
                found: format!("of gradients {}", about.gradients),
                expected,
            });
        }
        let of_layer = &store.manifest().layers[layer];
        let side = if about.is_dual { about.examples } else { about.size };
        let values = numbers(&file, "values", &[side]);
        let vectors = numbers(&file, "vectors", &[side, side]);
        let (Some(values), Some(vectors)) = (values, vectors) else {
            return Err(damaged(format!("expected {side} finite eigenvalues with their vectors")));
        };
        if about.size != of_layer.size || about.examples != store.manifest().count {
            return Err(damaged("it belongs to another number of examples or columns".into()));
        }
        let rows = match about.is_dual {
            true => Some(all_rows(shards, layer)?),
            false => None,
        };
        let About { site, size, examples, trace, .. } = about;
        let (vectors, element) = (Mat::from_vec(side, side, vectors), store.manifest().element);
        Ok(Some(Self { site, size, examples, trace, values, vectors, rows, element }))
    }

    /// The stored decomposition, or else a new one.
    pub(crate) fn saved_or_computed(
        store: &GradientStore,
        shards: &[ShardFile],
        layer: usize,
    ) -> Result<Self, AttributeError> {
        match Self::saved(store, shards, layer)? {
            Some(saved) => Ok(saved),
            None => Self::of_layer(store, shards, layer),
        }
    }
}

/// Finite numbers of a tensor with this shape, if present.
fn numbers(file: &TensorFile, name: &str, shape: &[usize]) -> Option<Vec<f64>> {
    let info = file.tensors().get(name)?;
    if info.dtype != StoredType::F64 || info.shape != shape {
        return None;
    }
    let bytes = file.stored(info, 0..shape.iter().product());
    let numbers: Vec<f64> =
        bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    numbers.iter().all(|number| number.is_finite()).then_some(numbers)
}

/// The gradients of a layer (examples, size).
fn all_rows(shards: &[ShardFile], layer: usize) -> Result<Mat<f64>, AttributeError> {
    let (mut all, mut rows) = (Vec::new(), Mat::default());
    let mut count = 0;
    for shard in shards {
        for tile in 0..shard.tiles() {
            shard.tile(tile)?.layers(layer..layer + 1, &mut rows)?;
            all.extend_from_slice(rows.data());
            count += rows.rows();
        }
    }
    Ok(Mat::from_vec(count, rows.cols(), all))
}
