//! Decompression within bounds: a file may decompress to a thousand times its size.

use flate2::bufread::{DeflateDecoder, GzDecoder};
use linwright_run::shown_reason;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The first bytes of a gzip file.
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Ending of names of such files.
const GZIP_EXTENSION: &str = "gz";
/// Bytes per read.
const BUFFER: usize = 1 << 16;
/// Largest expansion factor: texts have three to thirty.
const RATIO: u64 = 64;
/// Bytes allowed for any small file.
const FLOOR: u64 = 4 << 20;

/// Largest size after decompression of this many compressed bytes.
#[must_use]
pub fn most_inflated(compressed: u64) -> u64 {
    compressed.saturating_mul(RATIO).max(FLOOR)
}

/// The name of a file without the gzip ending, from which its format is derived.
#[must_use]
pub fn without_gzip(path: &Path) -> &Path {
    match path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(GZIP_EXTENSION)) {
        true => path.file_stem().map_or(path, Path::new),
        false => path,
    }
}

/// The reason why a gzip file could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum GzipError {
    /// More than the bound.
    #[error(
        "{compressed} bytes in gzip become more than {limit}, expected at most {RATIO} times their \
         size, or {FLOOR}; if this is intended, decompress the file first"
    )]
    TooLong {
        /// Size of the file.
        compressed: u64,
        /// The bound.
        limit: u64,
    },
    /// Damaged data.
    #[error("the file is damaged as gzip: {reason}; fetch or compress it again")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
}

/// The content of a gzip file with one or several members.
pub(crate) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, GzipError> {
    let (mut content, limit) = (Vec::new(), most_inflated(bytes.len() as u64));
    let mut reader = GzipReader::new(bytes, bytes.len() as u64);
    match reader.read_to_end(&mut content) {
        Ok(_) => Ok(content),
        Err(_) if reader.is_over => {
            Err(GzipError::TooLong { compressed: bytes.len() as u64, limit })
        }
        Err(error) => Err(GzipError::Damaged { reason: shown_reason(&error.to_string()) }),
    }
}

/// Decompresses deflate data of exactly `size` decompressed bytes; for
/// [`linwright_files::NpzFile`].
///
/// # Errors
/// The end of a sentence about the bytes.
pub fn inflate(bytes: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let (compressed, limit) = (bytes.len(), most_inflated(bytes.len() as u64));
    if size > limit {
        return Err(format!(
            "has {size} bytes in {compressed} compressed ones, expected at most {limit}; save it \
             with numpy.savez if it is meant to be so large"
        ));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let read = DeflateDecoder::new(bytes).take(size + 1).read_to_end(&mut content);
    match read {
        Ok(found) if found as u64 == size => Ok(content),
        Ok(found) => Err(format!("has {found} bytes when decompressed, expected {size}")),
        Err(error) => Err(format!("is damaged: {}", shown_reason(&error.to_string()))),
    }
}

/// The members of a gzip file, one after the other. Zeros after a member are padding, as for gzip
/// itself.
pub(crate) struct Members<R> {
    /// None at the end, and after an error.
    decoder: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { decoder: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(decoder) = &mut self.decoder {
            let read = decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let rest = self.decoder.take().map(GzDecoder::into_inner);
            let Some(mut rest) = rest else { break };
            if has_more(&mut rest)? {
                self.decoder = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Skips zeros; whether anything else follows.
fn has_more(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = input.fill_buf()?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        if zeros < bytes.len() || bytes.is_empty() {
            let more = !bytes.is_empty();
            input.consume(zeros);
            return Ok(more);
        }
        input.consume(zeros);
    }
}

/// Gzip input that is read as a stream, up to the bound for a file of this size.
struct GzipReader<R> {
    decoder: Members<R>,
    compressed: u64,
    left: u64,
    is_over: bool,
}

impl<R: BufRead> GzipReader<R> {
    /// The content of `input`, of the given size.
    fn new(input: R, compressed: u64) -> Self {
        let left = most_inflated(compressed);
        Self { decoder: Members::new(input), compressed, left, is_over: false }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_over = true;
                let (compressed, limit) = (self.compressed, most_inflated(self.compressed));
                return Err(io::Error::other(GzipError::TooLong { compressed, limit }));
            }
        }
        Ok(read)
    }
}

/// An open file, its size, and whether it is in gzip.
fn opened(path: &Path) -> io::Result<(BufReader<File>, u64, bool)> {
    let file = linwright_run::input::open(path)?;
    let size = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let is_packed = reader.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok((reader, size, is_packed))
}

/// The content of a file, decompressed while it is read if it is gzip.
///
/// # Errors
/// Errors of the operating system.
pub fn open_content(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let (reader, size, is_packed) = opened(path)?;
    Ok(match is_packed {
        false => Box::new(reader),
        true => Box::new(BufReader::with_capacity(BUFFER, GzipReader::new(reader, size))),
    })
}

/// Size of the content of a file: a gzip file is decompressed, up to its bound, without keeping the
/// content.
///
/// # Errors
/// Errors of the operating system.
pub fn content_bytes(path: &Path) -> io::Result<u64> {
    let (reader, size, is_packed) = opened(path)?;
    if !is_packed {
        return Ok(size);
    }
    let counted = io::copy(&mut GzipReader::new(reader, size), &mut io::sink());
    // Damaged and oversized files are reported by their reader.
    Ok(counted.unwrap_or_else(|_| most_inflated(size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn several_members_are_one_content() {
        let bytes = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        assert_eq!(gunzip(&bytes).unwrap(), b"one\ntwo\n");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt.gz");
        let padding = vec![0; 3 * BUFFER / 2];
        for padded in [[&bytes[..], &padding].concat(), [&bytes[..], &[0], &bytes].concat()] {
            let content = gunzip(&padded).unwrap();
            assert!(content.starts_with(b"one\ntwo\n") && content.len().is_multiple_of(8));
            std::fs::write(&path, &padded).unwrap();
            assert_eq!(content_bytes(&path).unwrap(), content.len() as u64);
        }
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(content_bytes(&path).unwrap(), 8);
        std::fs::write(&path, b"plain").unwrap();
        assert_eq!(content_bytes(&path).unwrap(), 5);
    }

    #[test]
    fn more_than_the_size_of_the_file_justifies_is_refused() {
        let small = gzip(&vec![b'a'; FLOOR as usize]);
        assert_eq!(gunzip(&small).unwrap().len() as u64, FLOOR);
        let bomb = gzip(&vec![b'a'; 5 << 20]);
        assert!(bomb.len() < 10_000);
        let told = gunzip(&bomb).unwrap_err().to_string();
        for part in ["bytes in gzip become more than 4194304", "64 times", "decompress the file"] {
            assert!(told.contains(part), "{told}");
        }
        // Members continue one output.
        let many = vec![gzip(&vec![b'a'; 3 << 20]); 2].concat();
        assert!(matches!(gunzip(&many), Err(GzipError::TooLong { .. })));
        assert_eq!(most_inflated(1 << 20), 64 << 20);
    }

    #[test]
    fn damaged_content_is_an_error() {
        let good = gzip(b"some text that is long enough to be cut");
        for cut in [1, 9, good.len() / 2, good.len() - 1] {
            assert!(matches!(gunzip(&good[..cut]), Err(GzipError::Damaged { .. })), "{cut}");
        }
        let mut flipped = good.clone();
        flipped[good.len() - 6] ^= 1;
        assert!(gunzip(&flipped).is_err(), "the checksum");
        let behind = [good, b"more".to_vec()].concat();
        assert!(gunzip(&behind).is_err(), "what follows is not a member");
        let behind = [gzip(b"a"), vec![0; 512], b"more".to_vec()].concat();
        assert!(gunzip(&behind).is_err(), "nor after padding");
    }

    #[test]
    fn deflate_makes_what_was_promised_within_the_bound() {
        let packed = |bytes: &[u8]| {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let bytes = packed(b"eight by");
        assert_eq!(inflate(&bytes, 8).unwrap(), b"eight by");
        assert!(inflate(&bytes, 7).unwrap_err().contains("expected 7"));
        assert!(inflate(&bytes, 9).unwrap_err().contains("has 8 bytes"));
        assert!(inflate(&bytes[..2], 8).unwrap_err().contains("damaged"));
        let told = inflate(&bytes, u64::MAX).unwrap_err();
        assert!(told.contains("expected at most 4194304"), "{told}");
    }
}
