//! Raw tensor files: numbers without a header.

use crate::FileError;
use linwright_run::input;
use linwright_tensor::MappedFile;
use linwright_tensor::dtype::DType;
use std::path::PathBuf;

/// Largest number of dimensions of a tensor.
const EXTENTS: usize = 8;

/// A tensor stored row-major in a file.
#[derive(Debug)]
pub(super) struct RawTensor {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Shape as stored in the file.
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) big_endian: bool,
    /// Whether it is a matrix to be transposed.
    pub(super) transpose: bool,
    /// Offset in bytes of its first number.
    pub(super) offset: u64,
}

impl RawTensor {
    /// Shape of the output.
    pub(super) fn out_shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if self.transpose {
            shape.reverse();
        }
        shape
    }

    fn wrong(&self, reason: String) -> FileError {
        FileError::Dump { path: self.path.clone(), reason }
    }

    /// Byte range in the file.
    pub(super) fn place(&self) -> Option<(u64, u64)> {
        let size = self.dtype.size() as u64;
        let bytes = self.shape.iter().try_fold(size, |n, &extent| n.checked_mul(extent as u64))?;
        Some((self.offset, self.offset.checked_add(bytes)?))
    }

    /// Checks the shape and the size of the file: at least the bytes of the tensor, and no more if
    /// `whole`.
    pub(super) fn check(&self, whole: bool) -> Result<(), FileError> {
        let (name, shape) = (&self.name, &self.shape);
        if self.transpose && shape.len() != 2 {
            return Err(self.wrong(format!(
                "tensor {name} has shape {shape:?}, but only a matrix can be transposed"
            )));
        }
        let place = self.place().filter(|_| shape.len() <= EXTENTS);
        let (_, end) = place.ok_or_else(|| {
            self.wrong(format!("tensor {name} has the impossible shape {shape:?}"))
        })?;
        let metadata = self.path.metadata().map_err(FileError::read(&self.path))?;
        let found = metadata.len();
        if found < end || (whole && found != end) {
            return Err(self.wrong(format!(
                "has {found} bytes, tensor {name} of shape {shape:?} ends at byte {end}; shape, type \
                 or offset belong to another file"
            )));
        }
        Ok(())
    }

    /// The numbers of the output tensor, all finite.
    pub(super) fn read(&self) -> Result<Vec<f32>, FileError> {
        let map = input::open(&self.path)
            .and_then(MappedFile::of)
            .map_err(FileError::read(&self.path))?;
        let bytes = self.place().and_then(|(start, end)| {
            map.bytes().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        });
        let bytes = bytes.ok_or_else(|| self.wrong("was cut while it was read".into()))?;
        let values = if self.big_endian {
            let mut swapped = bytes.to_vec();
            swapped.chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
            self.dtype.decode(&swapped)
        } else {
            self.dtype.decode(bytes)
        };
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let (path, name, value) = (self.path.clone(), self.name.clone(), values[index]);
            return Err(FileError::NonFinite { path, name, index, value });
        }
        match self.shape[..] {
            [rows, cols] if self.transpose => Ok(turned(&values, rows, cols)),
            _ => Ok(values),
        }
    }
}

/// Transpose of a (rows, cols) matrix.
fn turned(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for col in 0..cols {
        out.extend((0..rows).map(|row| values[row * cols + col]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_matrix_has_its_numbers_across() {
        assert_eq!(turned(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
