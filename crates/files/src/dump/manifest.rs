//! `tensors.json`: what each file of a folder holds.

use super::raw::RawTensor;
use crate::FileError;
use crate::json::read_bounded;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// Largest list that is read, in bytes.
const BYTES: u64 = 1 << 26;

/// The list of the tensors of a folder:
///
/// ```json
/// {"tensors": [
///   {"name": "att.query.weight", "file": "att.query.w.dat", "shape": [768, 768], "dtype": "f32",
///    "byte_order": "big", "transpose": true}
/// ]}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Every tensor.
    pub tensors: Vec<ManifestTensor>,
}

/// One tensor of a folder: numbers without a header, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTensor {
    /// Its name in the result.
    pub name: String,
    /// Its file, beside the list.
    pub file: String,
    /// Extents as they stand in the file.
    pub shape: Vec<usize>,
    /// `f32`, `f16`, `bf16` or `f64`.
    pub dtype: String,
    /// Which byte of a number comes first.
    #[serde(default)]
    pub byte_order: ByteOrder,
    /// Whether a matrix stands as (inp, out) and is to be turned.
    #[serde(default)]
    pub transpose: bool,
    /// Bytes before the first number; the file must end with the tensor only if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// The last.
    #[default]
    Little,
    /// The first.
    Big,
}

impl Manifest {
    /// Reads a list.
    ///
    /// # Errors
    /// [`FileError::Read`] or [`FileError::Json`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&read_bounded(path, BYTES)?).map_err(|reason| FileError::Json {
            path: path.into(),
            reason,
            expected: "an object {\"tensors\": [{name, file, shape, dtype, byte_order, transpose, offset}]}",
        })
    }

    /// Parses a list.
    ///
    /// # Errors
    /// In words, what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes)
            .map_err(|error| linwright_run::shown_reason(&error.to_string()))
    }

    /// Checks every tensor against its file.
    pub(super) fn open(&self, folder: &Path) -> Result<Vec<RawTensor>, FileError> {
        self.tensors.iter().map(|tensor| tensor.open(folder)).collect()
    }
}

impl ManifestTensor {
    fn open(&self, folder: &Path) -> Result<RawTensor, FileError> {
        let path = folder.join(&self.file);
        let wrong = |reason: String| FileError::Dump { path: folder.into(), reason };
        let mut parts = Path::new(&self.file).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            let (file, name) = (&self.file, &self.name);
            return Err(wrong(format!("file {file:?} of tensor {name} is no plain file name")));
        }
        let dtype = match self.dtype.as_str() {
            "f32" => DType::F32,
            "f16" => DType::F16,
            "bf16" => DType::Bf16,
            "f64" => DType::F64,
            other => {
                let name = &self.name;
                return Err(wrong(format!(
                    "tensor {name} has dtype {other:?}, expected f32, f16, bf16 or f64"
                )));
            }
        };
        let tensor = RawTensor {
            name: self.name.clone(),
            path,
            shape: self.shape.clone(),
            dtype,
            big_endian: self.byte_order == ByteOrder::Big,
            transpose: self.transpose,
            offset: self.offset.unwrap_or(0),
        };
        tensor.check(self.offset.is_none())?;
        Ok(tensor)
    }
}
