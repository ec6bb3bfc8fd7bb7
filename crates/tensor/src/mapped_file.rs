//! Read-only memory maps.
#![allow(unsafe_code, reason = "mapping a file is inherently unsafe; it is isolated here")]

use memmap2::{Mmap, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// A file mapped read-only. Nobody may shorten the file while it is mapped: the system would then
/// end the process at the next access.
#[derive(Debug)]
pub struct MappedFile(Option<Mmap>);

impl MappedFile {
    /// Maps `path`. An empty file gives an empty map.
    ///
    /// # Errors
    /// Those of opening and mapping.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(&File::open(path)?)
    }

    /// Maps an open file, which may have no name any more.
    ///
    /// # Errors
    /// Those of mapping.
    pub fn of(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the map is read-only and private to this type; a concurrent truncation by another
        // process is the documented caveat above.
        Ok(Self(Some(unsafe { Mmap::map(file)? })))
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// Lets the system take back the memory of a range that has been read. The bytes stay readable;
    /// they come from the file again when touched.
    pub fn release(&self, range: Range<usize>) {
        if let Some(map) = &self.0 {
            // SAFETY: a read-only file mapping has no private pages that this advice could lose.
            let advised = unsafe {
                map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
            };
            // Advice is only a hint: where the system refuses it, memory is reclaimed later.
            drop(advised);
        }
    }
}
