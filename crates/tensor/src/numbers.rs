//! Numbers of a matrix: in memory, or in a mapped file.
//!
//! A model larger than memory holds its weights in files: each number is read where it stands, and
//! the memory of a layer is given back once the layer was computed.

use crate::MappedFile;
use bytemuck::Pod;
use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Distance of the beginnings of two matrices on a shelf: a page, so that one is released without
/// its neighbour.
const PAGE: u64 = 4096;

/// Numbers at a place of a mapped file. Copies share the file.
pub struct Mapped<T> {
    file: Arc<MappedFile>,
    bytes: Range<usize>,
    /// How bytes are read as numbers: comparison knows nothing about their type.
    read: fn(&[u8]) -> &[T],
}

impl<T: Pod> Mapped<T> {
    /// The numbers in a byte range; none if they cannot be read where they stand: on a machine that
    /// stores the highest byte first, or at an odd address.
    #[must_use]
    pub fn new(file: &Arc<MappedFile>, bytes: Range<usize>) -> Option<Self> {
        if cfg!(target_endian = "big") {
            return None;
        }
        bytemuck::try_cast_slice::<u8, T>(file.bytes().get(bytes.clone())?).ok()?;
        Some(Self { file: Arc::clone(file), bytes, read: bytemuck::cast_slice })
    }
}

impl<T> Mapped<T> {
    /// The numbers.
    #[must_use]
    pub fn numbers(&self) -> &[T] {
        (self.read)(&self.file.bytes()[self.bytes.clone()])
    }

    /// Lets the system reclaim their memory. They are loaded from the file when they are next read.
    pub fn release(&self) {
        self.file.release(self.bytes.clone());
    }
}

impl<T> Clone for Mapped<T> {
    fn clone(&self) -> Self {
        Self { file: Arc::clone(&self.file), bytes: self.bytes.clone(), read: self.read }
    }
}

impl<T: PartialEq> PartialEq for Mapped<T> {
    fn eq(&self, other: &Self) -> bool {
        self.numbers() == other.numbers()
    }
}

impl<T> fmt::Debug for Mapped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {:?} of a file", self.bytes)
    }
}

/// Numbers in memory or in a file; those in a file are copied to memory before they are changed.
#[derive(Clone, Debug)]
pub(crate) enum Numbers<T> {
    Owned(Vec<T>),
    Mapped(Mapped<T>),
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl<T: PartialEq> PartialEq for Numbers<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq> Eq for Numbers<T> {}

impl<T> Numbers<T> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::Owned(numbers) => numbers,
            Self::Mapped(mapped) => mapped.numbers(),
        }
    }
}

impl<T: Pod> Numbers<T> {
    #[inline]
    pub(crate) fn to_mut(&mut self) -> &mut Vec<T> {
        if let Self::Mapped(mapped) = self {
            *self = Self::Owned(mapped.numbers().to_vec());
        }
        match self {
            Self::Owned(numbers) => numbers,
            Self::Mapped(_) => unreachable!("the numbers were copied"),
        }
    }

    /// The vector whose contents are to be replaced.
    pub(crate) fn room(&mut self) -> &mut Vec<T> {
        if matches!(self, Self::Mapped(_)) {
            *self = Self::default();
        }
        self.to_mut()
    }

    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            Self::Owned(numbers) => numbers,
            Self::Mapped(mapped) => mapped.numbers().to_vec(),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        match self {
            Self::Owned(numbers) => numbers.capacity(),
            Self::Mapped(_) => 0,
        }
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self, Self::Mapped(_))
    }

    pub(crate) fn release(&self) {
        if let Self::Mapped(mapped) = self {
            mapped.release();
        }
    }

    /// The same numbers in a file, unless they are in one.
    pub(crate) fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        if let Self::Owned(numbers) = self
            && let Some(mapped) = shelf.put(numbers)?
        {
            *self = Self::Mapped(mapped);
        }
        Ok(())
    }
}

/// A file for matrices that leave memory, one behind the other. Its space is freed with the last of
/// them if it has no name.
#[derive(Debug)]
pub struct Shelf {
    file: Arc<File>,
    /// Where the next matrix begins.
    end: Mutex<u64>,
}

impl Shelf {
    /// A shelf in an empty file, open for reading and writing.
    #[must_use]
    pub fn of(file: File) -> Self {
        Self { file: Arc::new(file), end: Mutex::new(0) }
    }

    /// Writes numbers and maps them; none if there are none, or they cannot be read where they
    /// stand.
    ///
    /// # Errors
    /// Those of writing and mapping.
    pub fn put<T: Pod>(&self, numbers: &[T]) -> io::Result<Option<Mapped<T>>> {
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        if bytes.is_empty() || cfg!(target_endian = "big") {
            return Ok(None);
        }
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, length) = (*end, bytes.len() as u64);
        (&*self.file).seek(SeekFrom::Start(start))?;
        (&*self.file).write_all(bytes)?;
        *end = (start + length).next_multiple_of(PAGE);
        let map = MappedFile::part(&self.file, start..start + length)?;
        Ok(Mapped::new(&Arc::new(map), 0..bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HalfType, Halves, Mat};

    fn shelf() -> Shelf {
        Shelf::of(tempfile::tempfile().expect("a file"))
    }

    #[test]
    fn shelved_matrices_read_back_and_stay_apart() {
        let shelf = shelf();
        let mats: Vec<Mat<f32>> =
            (1..6).map(|n| Mat::from_fn(n, 7 * n, |i, j| (100 * n + 10 * i + j) as f32)).collect();
        let mut shelved = mats.clone();
        for mat in &mut shelved {
            mat.shelve(&shelf).expect("writes");
            assert!(mat.is_mapped());
        }
        drop(shelf);
        for (mat, shelved) in mats.iter().zip(&shelved) {
            shelved.release();
            assert_eq!((mat, mat.row(0)), (shelved, shelved.row(0)));
            assert_eq!(shelved.clone().into_vec(), mat.data());
        }
        shelved[2].data_mut()[0] = -1.0;
        assert!(!shelved[2].is_mapped() && shelved[2].at(0, 0) == -1.0);
        assert_eq!(shelved[3], mats[3]);
        shelved[1].resize(1, 2);
        assert_eq!(shelved[1].data(), [0.0, 0.0], "no copy of numbers that are replaced");
    }

    #[test]
    fn matrices_in_16_bits_and_empty_ones_are_shelved_too() {
        let shelf = shelf();
        let wide = Mat::from_fn(3, 5, |i, j| (i + j) as f32);
        let half = Halves::rounded(HalfType::Bf16, &wide);
        let mut shelved = half.clone();
        shelved.shelve(&shelf).expect("writes");
        shelved.release();
        assert_eq!(half, shelved);
        assert_eq!(shelved.to_mat(), wide);
        let mut empty = Mat::<f32>::zeros(0, 5);
        empty.shelve(&shelf).expect("nothing to write");
        assert!(!empty.is_mapped());
    }

    #[test]
    fn numbers_at_odd_places_are_not_mapped() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[0; 64]).expect("writes");
        let file = Arc::new(MappedFile::of(file).expect("maps"));
        for (range, whole) in [(0..8, true), (4..8, true), (2..10, false), (0..6, false)] {
            assert_eq!(Mapped::<f32>::new(&file, range.clone()).is_some(), whole, "{range:?}");
        }
        assert!(Mapped::<f32>::new(&file, 60..68).is_none(), "beyond the end");
    }
}
