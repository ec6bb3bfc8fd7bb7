//! Singular components of weights on disk, by the content of the weight.

use super::failed;
use crate::CompressError;
use linwright_ops::SiteId;
use linwright_run::atomic::write_atomic;
use linwright_run::input;
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, little_endian_bytes};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Version of format and definitions; entries of another version are not used.
const VERSION: &str = "1";

/// Decomposes each weight once. With a directory, components are stored there for all rates,
/// interventions and runs: one safetensors file per weight, named by the digest of its entries and
/// written atomically.
#[derive(Clone, Debug, Default)]
pub struct ComponentStore {
    directory: Option<PathBuf>,
}

impl ComponentStore {
    /// A store without a directory.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// [`CompressError::Io`].
    pub fn open(directory: &Path) -> Result<Self, CompressError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| CompressError::Io { path: directory.to_owned(), source })?;
        Ok(Self { directory: Some(directory.to_owned()) })
    }

    /// Components of a weight, and whether they were in the directory.
    ///
    /// # Errors
    /// [`CompressError::Fit`] if the decomposition fails, [`CompressError::Store`] if the stored
    /// file is damaged, [`CompressError::Output`] if it cannot be written.
    pub fn components(
        &self,
        site: &SiteId,
        weight: &Mat<f32>,
    ) -> Result<(Components, bool), CompressError> {
        let path = self.directory.as_ref().map(|directory| directory.join(name(weight)));
        if let Some(path) = &path
            && let Some(found) = read(path, weight)?
        {
            return Ok((found, true));
        }
        let found = Components::of(weight.view()).map_err(failed);
        let found = found.map_err(|source| CompressError::Fit { site: site.clone(), source })?;
        if let Some(path) = &path {
            write_atomic(path, &bytes(&found).map_err(unusable(path))?)?;
        }
        Ok((found, false))
    }
}

fn unusable<E: ToString>(path: &Path) -> impl Fn(E) -> CompressError {
    move |error| CompressError::Store { path: path.to_owned(), reason: error.to_string() }
}

fn name(weight: &Mat<f32>) -> String {
    let mut hash = Sha256::new();
    hash.update((weight.rows() as u64).to_le_bytes());
    hash.update((weight.cols() as u64).to_le_bytes());
    hash.update(little_endian_bytes(weight.data()));
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}-v{VERSION}.safetensors")
}

fn bytes(components: &Components) -> Result<Vec<u8>, safetensors::SafeTensorError> {
    let Components { values, left, right } = components;
    let numbers: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = |m: &Mat<f32>| vec![m.rows(), m.cols()];
    let views = [
        ("left", TensorView::new(Dtype::F32, shape(left), little_endian_bytes(left.data()))?),
        ("right", TensorView::new(Dtype::F32, shape(right), little_endian_bytes(right.data()))?),
        ("values", TensorView::new(Dtype::F64, vec![values.len()], &numbers)?),
    ];
    let metadata = HashMap::from([("components".to_owned(), VERSION.to_owned())]);
    safetensors::serialize(views, Some(metadata))
}

/// Contents of a file; `None` if it does not exist.
fn read(path: &Path, weight: &Mat<f32>) -> Result<Option<Components>, CompressError> {
    let bytes = match input::read(path, u64::MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CompressError::Io { path: path.to_owned(), source }),
    };
    let tensors = SafeTensors::deserialize(&bytes).map_err(unusable(path))?;
    let (m, n) = (weight.rows(), weight.cols());
    let side = m.min(n);
    let matrix = |name: &str, rows: usize, cols: usize| {
        let tensor = tensors.tensor(name).map_err(unusable(path))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != [rows, cols] {
            let reason = format!("{name} is not a matrix of {rows} x {cols} numbers in f32");
            return Err(unusable(path)(reason));
        }
        let numbers = tensor.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        Ok(Mat::from_vec(rows, cols, numbers))
    };
    let (left, right) = (matrix("left", m, side)?, matrix("right", side, n)?);
    let values = tensors.tensor("values").map_err(unusable(path))?;
    if values.dtype() != Dtype::F64 || values.shape() != [side] {
        return Err(unusable(path)(format!("values are not {side} numbers in f64")));
    }
    let values: Vec<f64> =
        values.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    let finite = left.data().iter().chain(right.data()).all(|x| x.is_finite())
        && values.iter().all(|x| x.is_finite());
    if !finite {
        return Err(unusable(path)("a number is not finite"));
    }
    Ok(Some(Components { values, left, right }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    #[test]
    fn a_weight_is_decomposed_once_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = ComponentStore::open(&folder.path().join("new")).unwrap();
        let weight = Mat::from_vec(6, 4, RngKey::new(1).stream().normals(24, 1.0));
        let site = SiteId("a".into());
        let (first, known) = store.components(&site, &weight).unwrap();
        assert!(!known);
        assert_eq!(store.components(&site, &weight).unwrap(), (first.clone(), true));
        let mut other = weight.clone();
        *other.at_mut(0, 0) += 1.0;
        assert!(!store.components(&site, &other).unwrap().1);
        let path = folder.path().join("new").join(name(&weight));
        let good = std::fs::read(&path).unwrap();
        for damaged in [good[..good.len() - 1].to_vec(), b"{}".to_vec(), vec![0; 100]] {
            std::fs::write(&path, damaged).unwrap();
            let error = store.components(&site, &weight).unwrap_err();
            assert!(matches!(error, CompressError::Store { .. }), "{error}");
        }
        assert_eq!(ComponentStore::none().components(&site, &weight).unwrap(), (first, false));
    }
}
