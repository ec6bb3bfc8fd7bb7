//! Fingerprints of everything that a run depends on.

use crate::input;
use crate::shown;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// SHA-256 of `bytes` in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of the bytes of a regular file of any size, in lower-case hexadecimal.
///
/// # Errors
/// As [`input::open`], and errors of reading.
pub fn sha256_of_file(path: &Path) -> std::io::Result<String> {
    sha256_of_open(input::open(path)?)
}

/// SHA-256 of the bytes of an open file from its place on, in lower-case hexadecimal.
///
/// # Errors
/// Errors of reading.
pub fn sha256_of_open(mut file: File) -> std::io::Result<String> {
    let (mut hash, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut bytes) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => hash.update(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// SHA-256 of bytes that come in parts.
#[derive(Clone, Debug, Default)]
pub struct Sha256Sum(Sha256);

impl Sha256Sum {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum so far, in lower-case hexadecimal.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0.clone().finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Identifies something by everything it depends on: the first sixteen bytes of a SHA-256, in
/// lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(pub String);

/// Characters of a fingerprint.
const DIGITS: usize = 32;

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if is_digits(&text, DIGITS) {
            return Ok(Self(text));
        }
        Err(format!("\"{}\" is not a fingerprint; expected {DIGITS} digits 0-9a-f", shown(&text)))
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.0
    }
}

/// Whether a text consists of this number of lower-case hexadecimal digits.
pub(crate) fn is_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Fingerprint {
    /// Whether it has the form that [`Self::of`] gives, so that it is safe as a file name.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        is_digits(&self.0, DIGITS)
    }

    /// Fingerprint of named parts, each serialised as JSON.
    ///
    /// # Panics
    /// If a part cannot be written as JSON, which is always possible for plain data.
    #[must_use]
    pub fn of(parts: &[(&str, &dyn erased::Json)]) -> Self {
        let mut hash = Sha256::new();
        for (name, part) in parts {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update(part.json().as_bytes());
            hash.update([0]);
        }
        Self(hex(&hash.finalize()[..DIGITS / 2]))
    }
}

/// Serialisable parts of a fingerprint behind one object type.
pub mod erased {
    /// Any value that can be written as JSON.
    pub trait Json {
        /// The JSON text.
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).expect("plain data is always valid JSON")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_separate_what_differs() {
        let a = Fingerprint::of(&[("a", &"b"), ("c", &"d")]);
        assert_eq!(a, Fingerprint::of(&[("a", &"b"), ("c", &"d")]));
        assert_ne!(a, Fingerprint::of(&[("a", &"bc"), ("", &"d")]));
        assert_ne!(a, Fingerprint::of(&[("a", &"b")]));
    }

    #[test]
    fn a_file_has_the_hash_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(sha256_of_file(&path).unwrap(), sha256_hex(&bytes));
        std::fs::write(&path, "abc").unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of_file(&path).unwrap(), known);
        assert!(sha256_of_file(folder.path()).is_err());
        let mut parts = super::Sha256Sum::default();
        b"abc".chunks(2).for_each(|part| parts.add(part));
        assert_eq!((parts.hex(), parts.hex()), (known.to_owned(), known.to_owned()));
    }

    #[test]
    fn only_fingerprints_are_read_as_fingerprints() {
        let print = Fingerprint::of(&[("a", &"b")]);
        assert!(print.is_valid());
        let json = serde_json::to_string(&print).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), print);
        for text in ["", "../../etc/passwd", &print.0[1..], &print.0.to_uppercase()] {
            let json = serde_json::to_string(text).unwrap();
            let error = serde_json::from_str::<Fingerprint>(&json).unwrap_err().to_string();
            assert!(error.contains("is not a fingerprint"), "{error}");
        }
    }
}
