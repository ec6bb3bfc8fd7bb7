//! Weight files of any format including GGUF, for inspecting single tensors.

use super::encoding::Encoding;
use super::header::TensorInfo;
use super::tensor_file::TensorFile;
use super::weights::weight_files;
use crate::FileError;
#[cfg(feature = "gguf")]
use crate::gguf::{GgufFile, Numbers, StoredTensor};
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
#[cfg(feature = "gguf")]
use std::sync::Arc;

/// A weight file.
#[derive(Debug)]
pub struct RawFile(Kind);

#[derive(Debug)]
enum Kind {
    Tensors(TensorFile),
    /// A part of a GGUF model.
    #[cfg(feature = "gguf")]
    Gguf(Arc<GgufFile>, usize),
}

/// A tensor as stored.
#[derive(Clone, Copy, Debug)]
pub struct RawTensor<'a> {
    name: &'a str,
    place: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Tensors(&'a TensorFile, &'a TensorInfo),
    #[cfg(feature = "gguf")]
    Gguf(&'a GgufFile, &'a StoredTensor),
}

impl RawFile {
    /// Opens a file, or the files of a directory: those of
    /// [`Weights::open`](crate::Weights::open), or all parts of a GGUF model.
    ///
    /// # Errors
    /// [`FileError`] if there are none, or one of them is invalid.
    pub fn all(path: &Path) -> Result<Vec<Self>, FileError> {
        #[cfg(feature = "gguf")]
        if let Some(gguf) = super::weights::gguf_at(path)? {
            let file = Arc::new(GgufFile::open(&gguf)?);
            let parts = file.paths().count();
            return Ok((0..parts).map(|part| Self(Kind::Gguf(Arc::clone(&file), part))).collect());
        }
        Ok(weight_files(path)?.into_iter().map(|file| Self(Kind::Tensors(file))).collect())
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.0 {
            Kind::Tensors(file) => file.path(),
            #[cfg(feature = "gguf")]
            Kind::Gguf(file, part) => file.paths().nth(*part).unwrap_or(Path::new("")),
        }
    }

    /// Its tensors, in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> Vec<RawTensor<'_>> {
        let mut tensors: Vec<RawTensor<'_>> = match &self.0 {
            Kind::Tensors(file) => file
                .tensors()
                .iter()
                .map(|(name, info)| RawTensor { name, place: Place::Tensors(file, info) })
                .collect(),
            #[cfg(feature = "gguf")]
            Kind::Gguf(file, part) => file
                .header()
                .tensors
                .iter()
                .filter(|(_, tensor)| tensor.part == *part)
                .map(|(name, tensor)| RawTensor { name, place: Place::Gguf(file, tensor) })
                .collect(),
        };
        tensors.sort_by_key(|tensor| tensor.range().start);
        tensors
    }
}

impl<'a> RawTensor<'a> {
    fn range(&self) -> &'a Range<usize> {
        match self.place {
            Place::Tensors(_, info) => &info.bytes,
            #[cfg(feature = "gguf")]
            Place::Gguf(_, tensor) => &tensor.bytes,
        }
    }

    /// Its name in the file.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its shape, row-major.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        match self.place {
            Place::Tensors(_, info) => &info.shape,
            #[cfg(feature = "gguf")]
            Place::Gguf(_, tensor) => &tensor.shape,
        }
    }

    /// Name of its storage type.
    #[must_use]
    pub fn dtype(&self) -> &'static str {
        match self.place {
            Place::Tensors(_, info) => info.dtype.name(),
            #[cfg(feature = "gguf")]
            Place::Gguf(_, tensor) => tensor.dtype.name,
        }
    }

    /// How its numbers are encoded, if they can be decoded.
    #[must_use]
    pub fn encoding(&self) -> Option<Encoding> {
        match self.place {
            Place::Tensors(_, info) => Encoding::of(info.dtype),
            #[cfg(feature = "gguf")]
            Place::Gguf(_, tensor) => tensor.dtype.numbers.map(|numbers| match numbers {
                Numbers::Plain(dtype) => Encoding::Plain(dtype),
                Numbers::Blocks(kind) => Encoding::Blocks(kind),
            }),
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.range().len()
    }

    /// A range of its bytes, in row-major order.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    #[track_caller]
    pub fn part(&self, part: Range<usize>) -> Cow<'a, [u8]> {
        let (file, info) = match self.place {
            Place::Tensors(file, info) => (file, info),
            #[cfg(feature = "gguf")]
            Place::Gguf(file, tensor) => {
                return Cow::Borrowed(&file.part(tensor.part)[tensor.bytes.clone()][part]);
            }
        };
        if info.strides.is_none() {
            return file.raw(info, part);
        }
        // A transposed tensor is gathered in whole numbers.
        let size = (info.dtype.bits() / 8).max(1) as usize;
        let numbers = part.start / size..part.end.div_ceil(size);
        let first = numbers.start * size;
        let gathered = file.stored(info, numbers);
        Cow::Owned(gathered[part.start - first..part.end - first].to_vec())
    }

    /// Releases the memory of a range of its bytes.
    pub fn release(&self, part: Range<usize>) {
        match self.place {
            Place::Tensors(file, info) => file.release_bytes(info, part),
            #[cfg(feature = "gguf")]
            Place::Gguf(file, tensor) => {
                let start = tensor.bytes.start;
                file.release(tensor.part, start + part.start..start + part.end);
            }
        }
    }
}

/// Whether a storage type of this name, in any case, exists in a format that is read.
#[must_use]
pub fn is_stored_type(name: &str) -> bool {
    let name = name.to_uppercase();
    #[cfg(feature = "gguf")]
    if crate::gguf::GgufType::named(&name).is_some() {
        return true;
    }
    super::header::StoredType::parse(&name).is_some()
}
