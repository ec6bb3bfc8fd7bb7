//! Access to weight files.

use linwright_files::{Encoding, FileError, RawFile, RawTensor};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// The weight files of a checkpoint.
#[derive(Debug)]
pub(super) struct Source {
    files: Vec<RawFile>,
}

/// A tensor, not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    tensor: RawTensor<'a>,
    /// Its name.
    pub(super) name: &'a str,
    /// Index of its file.
    pub(super) place: usize,
}

impl Source {
    /// Opens a file or a directory.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self { files: RawFile::all(path)? })
    }

    /// Path, number of tensors and their bytes, for each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, usize, u64)> {
        self.files.iter().map(|file| {
            let tensors = file.tensors();
            let bytes = tensors.iter().map(|tensor| tensor.bytes() as u64).sum();
            (file.path(), tensors.len(), bytes)
        })
    }

    /// All tensors, in file order.
    pub(super) fn tensors(&self) -> Vec<Stored<'_>> {
        let files = self.files.iter().enumerate();
        let tensors = files.flat_map(|(place, file)| {
            let tensors = file.tensors().into_iter();
            tensors.map(move |tensor| Stored { tensor, name: tensor.name(), place })
        });
        tensors.collect()
    }
}

impl<'a> Stored<'a> {
    pub(super) fn shape(&self) -> &'a [usize] {
        self.tensor.shape()
    }

    /// Name of the storage type.
    pub(super) fn dtype(&self) -> &'static str {
        self.tensor.dtype()
    }

    /// How the numbers are encoded, if they can be decoded.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        self.tensor.encoding()
    }

    /// Number of values.
    pub(super) fn count(&self) -> usize {
        self.shape().iter().product()
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.tensor.bytes()
    }

    /// A range of its bytes, in row-major order.
    pub(super) fn part(&self, part: Range<usize>) -> Cow<'a, [u8]> {
        self.tensor.part(part)
    }

    /// Releases the memory of a range of bytes.
    pub(super) fn release(&self, part: Range<usize>) {
        self.tensor.release(part);
    }

    /// The numbers as `f32`; none if the type cannot be decoded.
    pub(super) fn read(&self) -> Vec<f32> {
        let Some(encoding) = self.encoding() else { return Vec::new() };
        let mut values = vec![0.0; self.count()];
        encoding.decode_into(&self.part(0..self.bytes()), &mut values);
        self.release(0..self.bytes());
        values
    }
}
