//! `tensors.json`, the manifest of a folder of raw tensor files.

use super::raw::RawTensor;
use crate::FileError;
use crate::json::read_bounded;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// Largest manifest in bytes.
const BYTES: u64 = 1 << 26;

/// The manifest of a folder of tensors:
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
    /// The tensors.
    pub tensors: Vec<ManifestTensor>,
}

/// One raw tensor file: numbers without a header, row-major.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTensor {
    /// Name of the tensor in the output.
    pub name: String,
    /// File name, in the folder of the manifest.
    pub file: String,
    /// Shape as stored in the file.
    pub shape: Vec<usize>,
    /// `f32`, `f16`, `bf16` or `f64`.
    pub dtype: String,
    /// Byte order of the numbers.
    #[serde(default)]
    pub byte_order: ByteOrder,
    /// Whether the file holds the transpose (inp, out) of the matrix.
    #[serde(default)]
    pub transpose: bool,
    /// Offset in bytes of the first number; if it is 0, the file must end with the tensor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// Byte order of stored numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// Little-endian: the lowest byte first.
    #[default]
    Little,
    /// Big-endian: the highest byte first.
    Big,
}

impl Manifest {
    /// Reads a manifest.
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

    /// Parses a manifest.
    ///
    /// # Errors
    /// A description of the first mistake.
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
            return Err(wrong(format!("file {file:?} of tensor {name} is not a plain file name")));
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
