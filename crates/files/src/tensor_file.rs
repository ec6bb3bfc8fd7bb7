//! Reading weight files of any format.
//!
//! A tensor is decoded block by block, so that resident memory is the result and one block per
//! thread. Each block is read, decoded, checked and hashed while it is in cache.

use super::digest::{self, Digest};
use super::fault::FileFault;
use super::format::Format;
use super::header::{Header, StoredType, TensorInfo};
use crate::FileError;
use linwright_run::{input, seal, state};
use linwright_tensor::dtype::{DType, has_non_finite};
use linwright_tensor::{HalfType, Mapped, MappedFile, Scratch, parallel};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Numbers that one thread decodes and hashes at a time. Part of the definition of
/// [`Tensor::digest`].
const BLOCK: usize = 1 << 18;

thread_local! {
    /// Bytes of a block before decoding.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An error in a block.
enum Fault {
    /// The block cannot be read.
    Read(io::Error),
    /// One of these numbers is not allowed.
    Number(Range<usize>),
}

/// An open weight file with a checked header.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    map: Arc<MappedFile>,
    header: Header,
}

/// A tensor read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The numbers, row-major.
    pub values: Vec<f32>,
    /// Storage type.
    pub dtype: DType,
    /// Content digest: BLAKE3 over the BLAKE3 of each block of 2^18 stored numbers. It does not
    /// depend on the location in the file, and threads compute it in parallel.
    pub digest: [u8; 32],
}

/// A tensor read into 16 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfTensor {
    /// The bits of the numbers, row-major.
    pub bits: Vec<u16>,
    /// Storage type.
    pub dtype: DType,
    /// As [`Tensor::digest`].
    pub digest: [u8; 32],
}

/// Numbers of a tensor that stay in the file.
#[derive(Clone, Debug)]
pub enum Placed {
    /// In `f32`.
    Full(Mapped<f32>),
    /// In 16 bits.
    Half(HalfType, Mapped<u16>),
}

/// A tensor that was checked and stays in its file.
#[derive(Clone, Debug)]
pub struct PlacedTensor {
    /// The numbers.
    pub numbers: Placed,
    /// Storage type.
    pub dtype: DType,
    /// As [`Tensor::digest`].
    pub digest: [u8; 32],
}

impl TensorFile {
    /// Opens a file of any supported format and checks its whole header.
    ///
    /// # Errors
    /// [`FileError::Read`] or [`FileError::Malformed`].
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Self::of(path, input::open(path))
    }

    /// As [`Self::open`], for a file of this program's state: a link is not followed.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_state(path: &Path) -> Result<Self, FileError> {
        Self::of(path, state::open(path))
    }

    fn of(path: &Path, opened: io::Result<File>) -> Result<Self, FileError> {
        let map = opened.and_then(MappedFile::of).map_err(FileError::read(path))?;
        let map = Arc::new(map);
        let malformed = |fault: FileFault| FileError::Malformed { path: path.into(), fault };
        let header = Format::of(path, map.bytes()).parse(map.bytes()).map_err(malformed)?;
        Ok(Self { path: path.into(), map, header })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tensors by name.
    #[must_use]
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.header.tensors
    }

    /// Metadata text of the file.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Compares the bytes of a sealed safetensors file with the digest in its metadata.
    ///
    /// # Errors
    /// The reason why it is not the file that was written.
    pub fn check_seal(&self) -> Result<(), String> {
        let bytes = self.map.bytes();
        let (head, rest) = bytes.split_at(seal::head_of(bytes));
        seal::check(head, rest)
    }

    /// An entry that `torch.save` wrote in addition to the tensors, such as `hyper_parameters`, as
    /// JSON; see [`Format::entry`].
    ///
    /// # Errors
    /// [`FileError::Malformed`].
    pub fn entry(&self, name: &str) -> Result<Option<serde_json::Value>, FileError> {
        let bytes = self.map.bytes();
        let entry = Format::of(&self.path, bytes).entry(bytes, name);
        entry.map_err(|fault| FileError::Malformed { path: self.path.clone(), fault })
    }

    /// Notes for the reader on how the file was read.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.header.notes
    }

    /// Reads a tensor of floating-point numbers.
    ///
    /// # Errors
    /// [`FileError`] if it is absent, of another shape, of another type or not finite.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<Tensor, FileError> {
        let info = self.find(name, shape)?;
        let dtype = self.float(name, info)?;
        let read = self.read_blocks(info, dtype, |stored, out: &mut [f32]| {
            dtype.decode_into(stored, out);
            has_non_finite(out)
        });
        match read {
            Ok((values, digest)) => Ok(Tensor { values, dtype, digest }),
            Err(Fault::Read(source)) => Err(FileError::read(&self.path)(source)),
            Err(Fault::Number(from)) => {
                let values = dtype.decode(&info.stored(self.map.bytes(), from.clone()));
                Err(self.non_finite(name, &values, from.start))
            }
        }
    }

    /// Reads a floating-point tensor into 16 bits, rounding to nearest if it is stored in another
    /// type.
    ///
    /// # Errors
    /// As [`Self::read`], and [`FileError::TooLarge`] for a number that the type cannot hold.
    pub fn read_half(
        &self,
        name: &str,
        shape: &[usize],
        of: HalfType,
    ) -> Result<HalfTensor, FileError> {
        let info = self.find(name, shape)?;
        let dtype = self.float(name, info)?;
        let read = self.read_blocks(info, dtype, |stored, out: &mut [u16]| {
            if dtype == of.dtype() {
                for (bits, bytes) in out.iter_mut().zip(stored.as_chunks().0) {
                    *bits = u16::from_le_bytes(*bytes);
                }
            } else {
                let mut wide = Scratch::<f32>::new(out.len());
                dtype.decode_into(stored, &mut wide);
                of.narrow(&wide, out);
            }
            of.has_non_finite(out)
        });
        match read {
            Ok((bits, digest)) => Ok(HalfTensor { bits, dtype, digest }),
            Err(Fault::Read(source)) => Err(FileError::read(&self.path)(source)),
            Err(Fault::Number(from)) => {
                let values = dtype.decode(&info.stored(self.map.bytes(), from.clone()));
                match first_too_large(of, &values) {
                    Some(at) => Err(FileError::TooLarge {
                        path: self.path.clone(),
                        name: name.into(),
                        index: from.start + at,
                        value: values[at],
                        dtype: of.name(),
                    }),
                    None => Err(self.non_finite(name, &values, from.start)),
                }
            }
        }
    }

    /// A tensor of floating-point numbers that stays in the file, for models larger than memory;
    /// none if it cannot be used in place: in another order, in `f64`, or misaligned. It is checked
    /// block by block as by [`Self::read`], in the memory of a block.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn placed(&self, name: &str, shape: &[usize]) -> Result<Option<PlacedTensor>, FileError> {
        let info = self.find(name, shape)?;
        let dtype = self.float(name, info)?;
        let Some(numbers) = self.place(info, dtype) else { return Ok(None) };
        let count = shape.iter().product::<usize>();
        let blocks = (0..count).step_by(BLOCK).map(|first| (first..count.min(first + BLOCK), ()));
        let read = self.each_block(info, dtype, blocks.collect(), |stored, ()| {
            let mut wide = Scratch::<f32>::new(stored.len() / dtype.size());
            dtype.decode_into(stored, &mut wide);
            has_non_finite(&wide)
        });
        match read {
            Ok(digest) => Ok(Some(PlacedTensor { numbers, dtype, digest })),
            Err(Fault::Read(source)) => Err(FileError::read(&self.path)(source)),
            Err(Fault::Number(from)) => {
                let values = dtype.decode(&info.stored(self.map.bytes(), from.clone()));
                Err(self.non_finite(name, &values, from.start))
            }
        }
    }

    fn place(&self, info: &TensorInfo, dtype: DType) -> Option<Placed> {
        if info.strides.is_some() {
            return None;
        }
        match HalfType::of(dtype) {
            Some(of) => Some(Placed::Half(of, Mapped::new(&self.map, info.bytes.clone())?)),
            None if dtype == DType::F32 => {
                Some(Placed::Full(Mapped::new(&self.map, info.bytes.clone())?))
            }
            None => None,
        }
    }

    /// Decodes a tensor block by block and hashes it; `decode` returns whether it found an invalid
    /// number.
    fn read_blocks<T: Copy + Default + Send>(
        &self,
        info: &TensorInfo,
        dtype: DType,
        decode: impl Fn(&[u8], &mut [T]) -> bool + Sync,
    ) -> Result<(Vec<T>, [u8; 32]), Fault> {
        let mut values = vec![T::default(); info.shape.iter().product()];
        let blocks = values.chunks_mut(BLOCK).enumerate();
        let blocks = blocks.map(|(k, out)| (k * BLOCK..k * BLOCK + out.len(), out)).collect();
        let digest = self.each_block(info, dtype, blocks, &decode)?;
        if info.strides.is_some() {
            // The numbers of a strided tensor come from its whole byte range.
            self.map.release(info.bytes.clone());
        }
        Ok((values, digest))
    }

    /// Reads and hashes blocks of a tensor; `look` returns whether it found an invalid number.
    fn each_block<W: Send>(
        &self,
        info: &TensorInfo,
        dtype: DType,
        blocks: Vec<(Range<usize>, W)>,
        look: impl Fn(&[u8], W) -> bool + Sync,
    ) -> Result<[u8; 32], Fault> {
        let mut whole = Digest::default();
        let done = parallel::map(blocks, |_, (numbers, with): (Range<usize>, W)| {
            let work = |stored: &[u8]| (look(stored, with), digest::of(stored));
            let (bad, digest) =
                self.with_stored(info, dtype, numbers.clone(), work).map_err(Fault::Read)?;
            if bad { Err(Fault::Number(numbers)) } else { Ok(digest) }
        });
        for digest in done {
            whole.add(&digest?);
        }
        Ok(whole.finish())
    }

    /// Calls `work` with the stored bytes of some numbers, in a buffer of the thread.
    fn with_stored<R>(
        &self,
        info: &TensorInfo,
        dtype: DType,
        numbers: Range<usize>,
        work: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<R> {
        if info.strides.is_some() {
            return Ok(work(&info.stored(self.map.bytes(), numbers)));
        }
        STORED.with_borrow_mut(|buffer| {
            buffer.resize(numbers.len() * dtype.size(), 0);
            self.map.read_at(info.bytes.start + numbers.start * dtype.size(), buffer)?;
            Ok(work(buffer))
        })
    }

    /// Reads some rows of a matrix of floating-point numbers.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// If a row is out of range.
    pub fn read_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<Vec<f32>, FileError> {
        let info = self.find(name, &shape)?;
        let dtype = self.float(name, info)?;
        assert!(rows.end <= shape[0], "rows {rows:?} of {shape:?}");
        let numbers = rows.start * shape[1]..rows.end * shape[1];
        let mut values = vec![0.0f32; numbers.len()];
        dtype.decode_into(&info.stored(self.map.bytes(), numbers.clone()), &mut values);
        self.release(info, numbers.clone());
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(FileError::NonFinite {
                path: self.path.clone(),
                name: name.into(),
                index: numbers.start + at,
                value: values[at],
            }),
        }
    }

    /// Reads a tensor of unsigned integers, and its digest.
    ///
    /// # Errors
    /// [`FileError`] if it is absent, not one-dimensional or of another type.
    pub fn read_indices(&self, name: &str) -> Result<(Vec<u32>, [u8; 32]), FileError> {
        let found = self.tensors().get(name).map_or(&[][..], |info| &info.shape[..]);
        let length = found.iter().product();
        let info = self.find(name, &[length])?;
        if info.dtype != StoredType::U32 {
            return Err(self.wrong_type(name, info, "U32"));
        }
        let bytes = info.stored(self.map.bytes(), 0..length);
        let values = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        Ok((values, digest::of(&bytes)))
    }

    /// Stored bytes of some numbers of a tensor of any type, in row-major order.
    ///
    /// # Panics
    /// If a number is out of range.
    #[must_use]
    #[track_caller]
    pub fn stored(&self, info: &TensorInfo, numbers: Range<usize>) -> Cow<'_, [u8]> {
        info.stored(self.map.bytes(), numbers)
    }

    /// A byte range of a tensor, relative to its first byte.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    #[track_caller]
    pub fn raw(&self, info: &TensorInfo, part: Range<usize>) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.map.bytes()[info.bytes.clone()][part])
    }

    /// Releases the pages of a byte range of a tensor, relative to its first byte.
    pub fn release_bytes(&self, info: &TensorInfo, part: Range<usize>) {
        if info.strides.is_none() {
            self.map.release(info.bytes.start + part.start..info.bytes.start + part.end);
        }
    }

    /// Releases the pages of some numbers, if they are contiguous.
    pub(crate) fn release(&self, info: &TensorInfo, numbers: Range<usize>) {
        if info.strides.is_none() {
            let (start, size) = (info.bytes.start, (info.dtype.bits() / 8) as usize);
            self.map.release(start + numbers.start * size..start + numbers.end * size);
        }
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, FileError> {
        let missing = || FileError::MissingTensor {
            path: self.path.clone(),
            name: name.into(),
            expected: shape.to_vec(),
        };
        let info = self.tensors().get(name).ok_or_else(missing)?;
        if info.shape != shape {
            return Err(FileError::TensorShape {
                path: self.path.clone(),
                name: name.into(),
                expected: shape.to_vec(),
                found: info.shape.clone(),
            });
        }
        Ok(info)
    }

    /// The weight type of a tensor.
    fn float(&self, name: &str, info: &TensorInfo) -> Result<DType, FileError> {
        let wrong = || self.wrong_type(name, info, "F32, F16, BF16 or F64");
        info.dtype.float().ok_or_else(wrong)
    }

    fn wrong_type(&self, name: &str, info: &TensorInfo, expected: &'static str) -> FileError {
        FileError::TensorType {
            path: self.path.clone(),
            name: name.into(),
            found: info.dtype.name(),
            expected,
        }
    }

    /// The error for a non-finite number; `values` begin at number `from` of the tensor.
    fn non_finite(&self, name: &str, values: &[f32], from: usize) -> FileError {
        let found = values.iter().enumerate().find(|(_, value)| !value.is_finite());
        let (index, &value) = found.unwrap_or((0, &f32::NAN));
        let (path, name) = (self.path.clone(), name.into());
        FileError::NonFinite { path, name, index: from + index, value }
    }
}

/// Index of the first finite number that overflows 16 bits, if no number before it is non-finite.
fn first_too_large(of: HalfType, values: &[f32]) -> Option<usize> {
    let mut bits = vec![0; values.len()];
    of.narrow(values, &mut bits);
    let first = bits.iter().position(|&bits| of.has_non_finite(&[bits]))?;
    values[first].is_finite().then_some(first)
}
