//! Cache of spectra on disk, by the content of their matrix.
//!
//! One file per entry: `LWSPECTR`, the version (u32), rows and columns (u64), the Vendi score and
//! min(rows, cols) singular values (f64), all little-endian, and the SHA-256 of everything before.
//! Files are written atomically, so several processes may share a directory. An unreadable entry is
//! reported to the caller and never used.

use super::Spectrum;
use linwright_run::atomic::{OutputError, write_atomic};
use linwright_run::input;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"LWSPECTR";
/// Version of format and definitions; entries of another version are not used.
const VERSION: u32 = 1;
/// Bytes before the numbers.
const HEAD: usize = 8 + 4 + 8 + 8;
/// Bytes of the digest at the end.
const DIGEST: usize = 32;

/// Identity of a matrix: content digest, storage type and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey {
    /// Content digest of the stored bytes.
    pub digest: [u8; 32],
    /// Name of the storage type.
    pub dtype: &'static str,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
}

impl CacheKey {
    fn file_name(&self) -> String {
        let mut name = String::with_capacity(96);
        for byte in self.digest {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        let _ = write!(name, "-{}-{}x{}.spectrum", self.dtype, self.rows, self.cols);
        name
    }
}

/// Result of a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Cached {
    /// The spectrum.
    Found(Spectrum),
    /// No entry.
    Absent,
    /// A damaged or unreadable entry, or one of another version; storing replaces it.
    Unusable(String),
}

/// A directory of spectra.
#[derive(Clone, Debug)]
pub struct SpectrumCache {
    dir: PathBuf,
}

impl SpectrumCache {
    /// Opens a directory, or creates it.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot be created.
    pub fn open(dir: &Path) -> Result<Self, OutputError> {
        std::fs::create_dir_all(dir).map_err(|error| OutputError::io("create", dir, error))?;
        Ok(Self { dir: dir.to_path_buf() })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Looks up the spectrum of a matrix.
    #[must_use]
    pub fn load(&self, key: &CacheKey) -> Cached {
        let path = self.dir.join(key.file_name());
        let expected = HEAD + 8 * (1 + key.rows.min(key.cols)) + DIGEST;
        let unusable = |reason: String| Cached::Unusable(format!("{}: {reason}", path.display()));
        let mut bytes = Vec::new();
        // Reads at most the size of an entry of this shape.
        let read = input::open(&path)
            .and_then(|file| file.take(expected as u64 + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Cached::Absent,
            Err(error) => unusable(error.to_string()),
            Ok(_) => match decode(&bytes, key) {
                Ok(spectrum) => Cached::Found(spectrum),
                Err(reason) => unusable(reason),
            },
        }
    }

    /// Stores the spectrum of a matrix.
    ///
    /// # Errors
    /// [`OutputError`] if it cannot be written.
    ///
    /// # Panics
    /// If the spectrum and the key have different shapes.
    pub fn store(&self, key: &CacheKey, spectrum: &Spectrum) -> Result<(), OutputError> {
        let shape = (spectrum.rows, spectrum.cols, spectrum.singular_values.len());
        assert_eq!(
            shape,
            (key.rows, key.cols, key.rows.min(key.cols)),
            "spectrum of another shape"
        );
        write_atomic(&self.dir.join(key.file_name()), &encode(spectrum))
    }
}

fn encode(spectrum: &Spectrum) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((spectrum.rows as u64).to_le_bytes());
    bytes.extend((spectrum.cols as u64).to_le_bytes());
    for number in std::iter::once(&spectrum.vendi_score).chain(&spectrum.singular_values) {
        bytes.extend(number.to_le_bytes());
    }
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

fn decode(bytes: &[u8], key: &CacheKey) -> Result<Spectrum, String> {
    let short = || format!("only {} bytes", bytes.len());
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let version = u32::from_le_bytes(*version);
    if magic != MAGIC {
        return Err("not a spectrum".into());
    }
    if version != VERSION {
        return Err(format!("version {version}, expected {VERSION}"));
    }
    let (body, digest) = bytes.split_last_chunk::<DIGEST>().ok_or_else(short)?;
    if Sha256::digest(body)[..] != digest[..] {
        return Err("the digest does not match, the file is damaged".into());
    }
    let (rows, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (cols, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let found = (u64::from_le_bytes(*rows), u64::from_le_bytes(*cols));
    let wanted = key.rows.min(key.cols);
    let (vendi, numbers) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let numbers = numbers.split_last_chunk::<DIGEST>().ok_or_else(short)?.0;
    if found != (key.rows as u64, key.cols as u64) || numbers.len() != 8 * wanted {
        let (rows, cols) = found;
        return Err(format!("of a {rows} x {cols} matrix, expected {} x {}", key.rows, key.cols));
    }
    let singular_values = numbers.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    Ok(Spectrum {
        rows: key.rows,
        cols: key.cols,
        singular_values,
        vendi_score: f64::from_le_bytes(*vendi),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn example() -> (CacheKey, Spectrum) {
        let key = CacheKey { digest: [7; 32], dtype: "F16", rows: 3, cols: 2 };
        let singular_values = vec![2.5, 0.1];
        (key, Spectrum { rows: 3, cols: 2, singular_values, vendi_score: 1.5 })
    }

    #[test]
    fn what_is_stored_is_found_under_its_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let cache = SpectrumCache::open(&dir.path().join("new/spectra")).unwrap();
        let (key, spectrum) = example();
        assert_eq!(cache.load(&key), Cached::Absent);
        cache.store(&key, &spectrum).unwrap();
        assert_eq!(cache.load(&key), Cached::Found(spectrum.clone()));
        for other in [
            CacheKey { digest: [8; 32], ..key.clone() },
            CacheKey { dtype: "BF16", ..key.clone() },
            CacheKey { rows: 2, cols: 3, ..key.clone() },
        ] {
            assert_eq!(cache.load(&other), Cached::Absent, "{other:?}");
        }
        cache.store(&key, &spectrum).unwrap();
        assert_eq!(fs::read_dir(cache.dir()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_entries_are_told_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = SpectrumCache::open(dir.path()).unwrap();
        let (key, spectrum) = example();
        let path = dir.path().join(key.file_name());
        cache.store(&key, &spectrum).unwrap();
        let good = fs::read(&path).unwrap();
        let mut cases = vec![Vec::new(), b"LWSPECTR".to_vec(), [good.clone(), vec![0]].concat()];
        cases.extend((0..good.len()).map(|cut| good[..cut].to_vec()));
        cases.extend((0..good.len()).map(|place| {
            let mut bytes = good.clone();
            bytes[place] ^= 1;
            bytes
        }));
        // Valid, but of another matrix.
        let other = Spectrum { rows: 2, cols: 3, ..spectrum.clone() };
        cases.push(encode(&other));
        for bytes in cases {
            fs::write(&path, &bytes).unwrap();
            assert!(matches!(cache.load(&key), Cached::Unusable(_)), "{bytes:?}");
        }
        cache.store(&key, &spectrum).unwrap();
        assert_eq!(cache.load(&key), Cached::Found(spectrum));
    }

    #[test]
    fn another_version_is_named() {
        let (key, spectrum) = example();
        let mut bytes = encode(&spectrum);
        bytes[8] = 9;
        assert!(decode(&bytes, &key).unwrap_err().contains("version 9"));
    }
}
