//! Access to weight files.

use linwright_files::{FileError, StoredType, Tensor, TensorFile, TensorInfo, weight_files};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// The weight files of a checkpoint.
#[derive(Debug)]
pub(super) struct Source {
    files: Vec<TensorFile>,
}

/// A tensor, not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    file: &'a TensorFile,
    info: &'a TensorInfo,
    /// Its name.
    pub(super) name: &'a str,
    /// Index of its file.
    pub(super) place: usize,
}

impl Source {
    /// Opens a file or a directory.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self { files: weight_files(path)? })
    }

    /// Path, number of tensors and their bytes, for each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, usize, u64)> {
        self.files.iter().map(|file| {
            let bytes = file.tensors().values().map(|info| info.bytes.len() as u64).sum();
            (file.path(), file.tensors().len(), bytes)
        })
    }

    /// All tensors, in file order.
    pub(super) fn tensors(&self) -> Vec<Stored<'_>> {
        let mut tensors: Vec<Stored<'_>> = Vec::new();
        for (place, file) in self.files.iter().enumerate() {
            let start = tensors.len();
            let here = file.tensors().iter();
            tensors.extend(here.map(|(name, info)| Stored { file, info, name, place }));
            tensors[start..].sort_by_key(|tensor| tensor.info.bytes.start);
        }
        tensors
    }
}

impl<'a> Stored<'a> {
    pub(super) fn shape(&self) -> &'a [usize] {
        &self.info.shape
    }

    pub(super) fn dtype(&self) -> StoredType {
        self.info.dtype
    }

    /// Number of values.
    pub(super) fn count(&self) -> usize {
        self.info.shape.iter().product()
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.info.bytes.len()
    }

    /// A range of its bytes, in row-major order.
    pub(super) fn part(&self, part: Range<usize>) -> Cow<'a, [u8]> {
        let size = (self.dtype().bits() / 8).max(1) as usize;
        if self.info.strides.is_none() {
            return self.file.raw(self.info, part);
        }
        // A transposed tensor is gathered in whole numbers.
        let numbers = part.start / size..part.end.div_ceil(size);
        let first = numbers.start * size;
        let gathered = self.file.stored(self.info, numbers);
        Cow::Owned(gathered[part.start - first..part.end - first].to_vec())
    }

    /// Releases the memory of a range of bytes.
    pub(super) fn release(&self, part: Range<usize>) {
        self.file.release_bytes(self.info, part);
    }

    /// The numbers as `f32` and their digest.
    pub(super) fn read(&self) -> Result<Tensor, FileError> {
        self.file.read(self.name, self.shape())
    }
}
