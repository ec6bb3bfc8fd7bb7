//! Plain or compressed bytes whose number is given by a header.

use super::{ImageError, check_size, invalid, most_pixels};
use crate::inflate::{GZIP_MAGIC, Members};
use std::io::{self, Read};
use std::path::Path;

/// Largest expansion of deflate: a match of 258 bytes takes two bits.
pub(super) const DEFLATE_FACTOR: u64 = 1032;
/// Bytes that are allocated before any content is decompressed.
const FIRST_BYTES: u64 = 1 << 16;

/// A file that is read once from start to end, and never beyond its content.
pub(super) struct Input<'a> {
    path: &'a Path,
    reader: Reader<'a>,
    /// Size of the file.
    file_bytes: u64,
    /// Decompressed bytes read so far.
    read: u64,
}

enum Reader<'a> {
    Plain(&'a [u8]),
    Gzip(Box<Members<&'a [u8]>>),
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
        }
    }
}

impl<'a> Input<'a> {
    /// `bytes` is the whole file, compressed or not.
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        let reader = match bytes.starts_with(&GZIP_MAGIC) {
            false => Reader::Plain(bytes),
            true => Reader::Gzip(Box::new(Members::new(bytes))),
        };
        Self { path, reader, file_bytes: bytes.len() as u64, read: 0 }
    }

    /// The next four bytes as a number, highest first.
    pub(super) fn number(&mut self, what: &str) -> Result<u32, ImageError> {
        let mut bytes = Vec::with_capacity(4);
        self.extend(&mut bytes, 4)?;
        let bytes: [u8; 4] = bytes.try_into().map_err(|_| {
            let found = self.read;
            invalid(self.path, format!("ends after {found} bytes, within {what} of its header"))
        })?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Everything after the header: exactly `count` bytes. `holds` describes them for messages.
    pub(super) fn content(mut self, count: u64, holds: &str) -> Result<Vec<u8>, ImageError> {
        check_size(self.path, count)?;
        let expected_bytes = self.read + count;
        let room = match self.reader {
            Reader::Plain(_) => self.file_bytes,
            Reader::Gzip(_) => {
                self.check_promise(expected_bytes, holds)?;
                self.file_bytes.max(FIRST_BYTES)
            }
        };
        let mut content = Vec::with_capacity(usize::try_from(room.min(count)).unwrap_or(0));
        self.extend(&mut content, count)?;
        let (path, holds) = (self.path.to_owned(), holds.to_owned());
        let found_bytes = self.read;
        if found_bytes < expected_bytes {
            return Err(ImageError::Truncated { path, holds, expected_bytes, found_bytes });
        }
        let mut more = Vec::new();
        let End::Whole = self.extend(&mut more, 1)? else {
            let reason = "the checksum at its end is missing".into();
            return Err(ImageError::Gzip { path, reason });
        };
        match more.is_empty() {
            true => Ok(content),
            false => Err(ImageError::Surplus { path, holds, expected_bytes }),
        }
    }

    /// Rejects content that is too large for the compressed size, before it is decompressed.
    fn check_promise(&self, expected_bytes: u64, holds: &str) -> Result<(), ImageError> {
        let found = self.file_bytes;
        let possible = found.saturating_mul(DEFLATE_FACTOR);
        let most = most_pixels(found).min(possible);
        if expected_bytes <= most {
            return Ok(());
        }
        let advice = match expected_bytes > possible {
            true => "",
            false => "; if this is intended, decompress the file first",
        };
        Err(invalid(
            self.path,
            format!(
                "promises {holds} in {expected_bytes} bytes, expected at most {most} in {found} compressed bytes{advice}"
            ),
        ))
    }

    /// Adds the next bytes, at most `count`; fewer at the end of the file.
    fn extend(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<End, ImageError> {
        let before = bytes.len();
        let result = self.reader.by_ref().take(count).read_to_end(bytes);
        self.read += (bytes.len() - before) as u64;
        match result {
            Ok(_) => Ok(End::Whole),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(End::Cut),
            Err(error) => Err(ImageError::Gzip {
                path: self.path.to_owned(),
                reason: linwright_run::shown_reason(&error.to_string()),
            }),
        }
    }
}

/// Where reading stopped.
enum End {
    /// After the requested bytes, or at the end of the file.
    Whole,
    /// Within compressed data.
    Cut,
}
