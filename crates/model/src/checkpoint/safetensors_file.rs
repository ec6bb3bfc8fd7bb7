//! Reading safetensors files through a memory map.
//!
//! A tensor is decoded piece by piece, and the pages of a piece are given back when it is done, so
//! that resident memory is the `f32` result and one piece. Each block of a piece is decoded, checked
//! and hashed in one pass while it is in cache.

use super::error::{CheckpointError, FileFault};
use super::header::{self, Header, StoredType, TensorInfo};
use linwright_tensor::dtype::{DType, has_non_finite};
use linwright_tensor::{MappedFile, parallel};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Numbers that one thread decodes and hashes at a time. Part of the definition of
/// [`Tensor::digest`].
const BLOCK: usize = 1 << 18;
/// Blocks between two releases of pages.
const BLOCKS_OF_PIECE: usize = 32;

/// An open safetensors file with a checked header.
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    map: MappedFile,
    header: Header,
}

/// A tensor that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The numbers, row-major.
    pub values: Vec<f32>,
    /// How they were stored.
    pub dtype: DType,
    /// SHA-256 over the SHA-256 of each block of 2^18 stored numbers: names the contents and can be
    /// computed by many threads.
    pub digest: [u8; 32],
}

impl SafetensorsFile {
    /// Opens a file and checks its whole header.
    ///
    /// # Errors
    /// [`CheckpointError::Read`] or [`CheckpointError::Malformed`].
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let map = MappedFile::open(path).map_err(CheckpointError::read(path))?;
        let malformed = |fault: FileFault| CheckpointError::Malformed { path: path.into(), fault };
        let header = header::parse(map.bytes()).map_err(malformed)?;
        Ok(Self { path: path.into(), map, header })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tensors by name.
    #[must_use]
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.header.tensors
    }

    /// The text that the writer left about the file.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Reads a tensor of floating-point numbers.
    ///
    /// # Errors
    /// [`CheckpointError`] if it is absent, of another shape, of another type or not finite.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Tensor, CheckpointError> {
        let info = self.find(name, shape)?;
        let expected = "F32, F16, BF16 or F64";
        let dtype = info.dtype.float().ok_or_else(|| self.wrong_type(name, info, expected))?;
        let bytes = &self.map.bytes()[info.bytes.clone()];
        let mut values = vec![0.0f32; bytes.len() / dtype.size()];
        let mut hash = Sha256::new();
        let piece = BLOCK * BLOCKS_OF_PIECE;
        for (index, out) in values.chunks_mut(piece).enumerate() {
            let start = index * piece * dtype.size();
            let stored = &bytes[start..start + out.len() * dtype.size()];
            for (block, (digest, bad)) in decode_piece(dtype, stored, out).into_iter().enumerate() {
                if bad {
                    let from = (index * BLOCKS_OF_PIECE + block) * BLOCK;
                    return Err(self.non_finite(name, &values, from));
                }
                hash.update(digest);
            }
            let from = info.bytes.start + start;
            self.map.release(from..from + stored.len());
        }
        Ok(Tensor { values, dtype, digest: hash.finalize().into() })
    }

    /// Reads some rows of a matrix of floating-point numbers.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// If the matrix has no such rows.
    pub fn read_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, CheckpointError> {
        let info = self.find(name, &shape)?;
        let expected = "F32, F16, BF16 or F64";
        let dtype = info.dtype.float().ok_or_else(|| self.wrong_type(name, info, expected))?;
        let size = shape[1] * dtype.size();
        let range = info.bytes.start + rows.start * size..info.bytes.start + rows.end * size;
        assert!(rows.end <= shape[0], "rows {rows:?} of {shape:?}");
        let mut values = vec![0.0f32; rows.len() * shape[1]];
        dtype.decode_into(&self.map.bytes()[range.clone()], &mut values);
        self.map.release(range);
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(CheckpointError::NonFinite {
                path: self.path.clone(),
                name: name.into(),
                index: rows.start * shape[1] + at,
                value: values[at],
            }),
        }
    }

    /// Reads a tensor of unsigned integers, and its digest.
    ///
    /// # Errors
    /// [`CheckpointError`] if it is absent, not one-dimensional or of another type.
    pub fn read_indices(&self, name: &str) -> Result<(Vec<u32>, [u8; 32]), CheckpointError> {
        let found = self.tensors().get(name).map_or(&[][..], |info| &info.shape[..]);
        let length = found.iter().product();
        let info = self.find(name, &[length])?;
        if info.dtype != StoredType::U32 {
            return Err(self.wrong_type(name, info, "U32"));
        }
        let bytes = &self.map.bytes()[info.bytes.clone()];
        let values = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        Ok((values, Sha256::digest(bytes).into()))
    }

    /// Stored bytes of a tensor of any type, as they are: a part of its bytes in row-major order.
    ///
    /// # Panics
    /// If the tensor has no such bytes.
    #[must_use]
    #[track_caller]
    pub fn stored(&self, info: &TensorInfo, part: Range<usize>) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.map.bytes()[info.bytes.clone()][part])
    }

    /// Gives back the memory of bytes that [`Self::stored`] showed.
    pub fn release(&self, info: &TensorInfo, part: Range<usize>) {
        self.map.release(info.bytes.start + part.start..info.bytes.start + part.end);
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, CheckpointError> {
        let missing = || CheckpointError::MissingTensor {
            path: self.path.clone(),
            name: name.into(),
            expected: shape.to_vec(),
        };
        let info = self.tensors().get(name).ok_or_else(missing)?;
        if info.shape != shape {
            return Err(CheckpointError::TensorShape {
                path: self.path.clone(),
                name: name.into(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        Ok(info)
    }

    fn wrong_type(&self, name: &str, info: &TensorInfo, expected: &'static str) -> CheckpointError {
        CheckpointError::TensorType {
            path: self.path.clone(),
            name: name.into(),
            found: info.dtype.name(),
            expected,
        }
    }

    fn non_finite(&self, name: &str, values: &[f32], from: usize) -> CheckpointError {
        let found = values.iter().enumerate().skip(from).find(|(_, value)| !value.is_finite());
        let (index, &value) = found.unwrap_or((from, &f32::NAN));
        CheckpointError::NonFinite { path: self.path.clone(), name: name.into(), index, value }
    }
}

/// Decodes a piece in parallel; for each block its digest and whether it holds a number that is not
/// finite.
fn decode_piece(dtype: DType, stored: &[u8], out: &mut [f32]) -> Vec<([u8; 32], bool)> {
    let blocks = out.chunks_mut(BLOCK).zip(stored.chunks(BLOCK * dtype.size())).collect();
    parallel::map(blocks, |_, (out, stored): (&mut [f32], &[u8])| {
        dtype.decode_into(stored, out);
        (Sha256::digest(stored).into(), has_non_finite(out))
    })
}
