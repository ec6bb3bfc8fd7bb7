//! Read-only memory-mapped files.
#![allow(unsafe_code, reason = "mapping a file is inherently unsafe; it is isolated here")]

use memmap2::{Mmap, MmapOptions, UncheckedAdvice};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file, or a part of it, mapped read-only. The file must not be truncated while it is mapped:
/// the system would then end the process at the next access, unless [`crate::when_cut`] was called.
#[derive(Debug)]
pub struct MappedFile {
    /// None for an empty file.
    map: Option<Map>,
    #[cfg(unix)]
    file: Arc<File>,
    /// Where the part begins in the file.
    #[cfg(unix)]
    start: u64,
}

impl MappedFile {
    /// Maps an open regular file, which may already be unlinked. An empty file gives an empty map.
    ///
    /// # Errors
    /// Those of mapping.
    pub fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Self::part(&Arc::new(file), 0..length)
    }

    /// Maps a byte range of an open regular file.
    ///
    /// # Errors
    /// Those of mapping, and [`io::ErrorKind::UnexpectedEof`] if the file ends before the range.
    pub fn part(file: &Arc<File>, bytes: Range<u64>) -> io::Result<Self> {
        if bytes.end > file.metadata()?.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = usize::try_from(bytes.end.saturating_sub(bytes.start))
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = match length {
            0 => None,
            // SAFETY: the map is read-only and private to this type; a concurrent truncation by
            // another process is the documented caveat above.
            _ => Some(Map::new(unsafe {
                MmapOptions::new().offset(bytes.start).len(length).map(&**file)?
            })),
        };
        Ok(Self {
            map,
            #[cfg(unix)]
            file: Arc::clone(file),
            #[cfg(unix)]
            start: bytes.start,
        })
    }

    /// The bytes of the file, or of its part.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| &map.0)
    }

    /// Copies the bytes from `start` on to `out`. For data that is read once this takes half the
    /// time of the map, whose pages must be set up and torn down.
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// If the range was out of bounds when the file was mapped.
    #[track_caller]
    pub fn read_at(&self, start: usize, out: &mut [u8]) -> io::Result<()> {
        let all = self.bytes();
        assert!(out.len() <= all.len().saturating_sub(start), "{} from {start}", out.len());
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(
            &*self.file,
            out,
            self.start + start as u64,
        )
        .map_err(|error| match error.kind() == io::ErrorKind::UnexpectedEof {
            true => io::Error::new(error.kind(), "it became shorter while it was read"),
            false => error,
        });
        #[cfg(not(unix))]
        return Ok(out.copy_from_slice(&all[start..start + out.len()]));
    }

    /// Lets the system reclaim the memory of a byte range. The bytes stay readable; they are loaded
    /// from the file again when accessed.
    pub fn release(&self, range: Range<usize>) {
        if let Some(map) = &self.map {
            // SAFETY: a read-only file mapping has no private pages that this advice could lose.
            let advised = unsafe {
                map.0.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
            };
            // The advice is only a hint: if the system ignores it, memory is reclaimed later.
            drop(advised);
        }
    }
}

/// Start and end of all maps, for a signal that says why a read failed: it knows the address alone.
static MAPS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A map that is listed as long as it lives.
#[derive(Debug)]
struct Map(Mmap);

impl Map {
    /// Start of the first page, which no other map has.
    fn key(map: &Mmap) -> usize {
        map.as_ptr() as usize & !0xfff
    }

    fn new(map: Mmap) -> Self {
        maps().insert(Self::key(&map), map.as_ptr() as usize + map.len());
        Self(map)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        maps().remove(&Self::key(&self.0));
    }
}

fn maps() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    // Nothing that holds it can fail.
    MAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a mapped file is at an address.
#[cfg(unix)]
pub(crate) fn is_mapped(address: usize) -> bool {
    let ends = maps().range(..=address).next_back().map(|(_, end)| *end);
    ends.is_some_and(|end| address < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_are_mapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = MappedFile::of(File::open(&path).unwrap()).unwrap();
        assert_eq!(file.bytes(), bytes);
        let mut out = [0; 9];
        file.read_at(247, &mut out).unwrap();
        assert_eq!(out, bytes[247..]);
        std::fs::write(&path, []).unwrap();
        let empty = MappedFile::of(File::open(&path).unwrap()).unwrap();
        assert!(empty.bytes().is_empty() && empty.read_at(0, &mut []).is_ok());
        let error = file.read_at(247, &mut out).unwrap_err().to_string();
        assert!(error.contains("became shorter"), "{error}");
    }

    #[test]
    fn a_part_of_a_file_is_mapped_at_any_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        for range in [0..9000, 5..10, 4095..8200, 4096..4096] {
            let part = MappedFile::part(&file, range.clone()).unwrap();
            let expected = &bytes[range.start as usize..range.end as usize];
            assert_eq!(part.bytes(), expected, "{range:?}");
            part.release(0..expected.len());
            let mut out = vec![0; expected.len()];
            part.read_at(0, &mut out).unwrap();
            assert_eq!((&out[..], part.bytes()), (expected, expected), "{range:?}");
        }
        assert!(MappedFile::part(&file, 8999..9001).is_err(), "beyond the end");
    }
}
